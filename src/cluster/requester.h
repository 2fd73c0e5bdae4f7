// Requester: a node that got a request for a key, whoever its home and its holders are.
//
// Reads ask any k holders of the newest map. If they know the newest write as complete, and no change of the
// map moved the key since, that is the object: no home is needed, so a home that just died stops no reader.
// Otherwise the home is asked. A commit is sent once: after a lost answer the outcome is unknown, because
// another home could apply it twice. On the strand.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/message.h"
#include "cluster/peers.h"

namespace millrace::cluster {

// An object as its holders or its home know it.
struct FoundObject {
  store::Record record;
  std::optional<std::string> bytes;  // of a small object, where a holder told them
};

// Whether an error of a commit says that nothing was marked, and never will be.
bool did_nothing(const Error& error);

class Requester {
 public:
  static constexpr uint64_t kPatienceUs = 10'000'000;  // until a read gives up
  static constexpr uint64_t kRetryUs = 50'000;
  static constexpr uint64_t kSlowUs = 100'000;  // a holder that takes longer is not waited for alone

  Requester(Strand& strand, Peers& peers, Membership& membership)
      : strand_(strand), peers_(peers), membership_(membership) {}

  // How a new write is to be spread: its holders, fewer than the bucket wants where drives lack. kUnavailable
  // below the floor; kNoSpace where full drives are the reason. Small objects are spread as copies. The write
  // id is left to the caller. Any thread.
  enum class Size : uint8_t { kSmall, kLarge };
  Result<store::Spread> choose_spread(const ObjectName& name, Size size) const;

  // Nothing: there is no such object.
  void find(ObjectName name, Done<std::optional<FoundObject>> done);
  // One slice for each of the spread's holders; makes them durable and commits.
  void put(CommitRequest request, std::vector<std::string> slices, Done<store::Record> done);
  // A put whose slices are all durable, a removal, or tags. The epoch is filled in. The slices of a put that
  // certainly did not happen are dropped; after an unknown outcome they stay.
  void commit(CommitRequest request, Done<std::optional<store::Record>> done);
  // Tells the holders to forget the slices of a write that no home commits. Nobody waits for it.
  void drop(const ObjectName& name, const store::Spread& spread);

 private:
  Status check_lease() const;
  struct Finding;
  void peek(std::shared_ptr<Finding> finding);
  void peek_next(const std::shared_ptr<Finding>& finding);
  // Asks one more holder whenever those that were asked take long.
  void overtake_slow(const std::shared_ptr<Finding>& finding);
  void judge_peeks(const std::shared_ptr<Finding>& finding);
  void ask_home(const std::shared_ptr<Finding>& finding);
  void find_again(const std::shared_ptr<Finding>& finding, Error error);
  void commit_until(std::shared_ptr<const CommitRequest> request, uint64_t deadline,
                    Done<std::optional<store::Record>> done);

  Strand& strand_;
  Peers& peers_;
  Membership& membership_;
};

}  // namespace millrace::cluster
