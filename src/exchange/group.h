// Group: ranks that pass messages to each other, with only the calls that an exchange needs of a transport.
//
// Messages of one pair and tag arrive in the order they were sent. A buffer belongs to the group from the
// call until test() has said that it is done. Two transports: threads of one process (ThreadWorld) and MPI
// (exchange/mpi_group.h). A group is used by one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"

namespace millrace::exchange {

// MPI counts bytes as an int.
inline constexpr uint64_t kMaxMessage = uint64_t{1} << 30;

enum class Tag : int {
  kVoteSize = 1,
  kVote,
  kVerdictSize,
  kVerdict,
  kList,
  kSamples,
  kRecordSize,
  kRecords,
  kCut
};

class Group {
 public:
  using Request = uint64_t;
  virtual ~Group() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t size() const = 0;

  virtual Result<Request> send(uint32_t to, Tag tag, std::string_view bytes) = 0;
  virtual Result<Request> receive(uint32_t from, Tag tag, std::span<std::byte> into) = 0;
  // True once: then the request is forgotten. An error where the message is longer than the buffer.
  virtual Result<bool> test(Request request) = 0;

  // The ranks with the same colour, in their order. All ranks call it.
  virtual Result<std::unique_ptr<Group>> split(uint32_t colour) = 0;
  // Which ranks share a machine's memory: equal numbers do.
  virtual Result<uint32_t> node() = 0;

  // Buffers of requests that never ended live as long as the group: nobody may write into freed memory.
  void keep(std::shared_ptr<void> buffers) { kept_.push_back(std::move(buffers)); }

 private:
  std::vector<std::shared_ptr<void>> kept_;
};

// Ranks that are threads of this process. The world outlives its groups.
class ThreadWorld {
 public:
  // `per_node`: ranks that count as one machine.
  explicit ThreadWorld(uint32_t ranks, uint32_t per_node = 1) : ranks_(ranks), per_node_(per_node) {}

  std::unique_ptr<Group> group(uint32_t rank);

 private:
  friend class ThreadGroup;
  struct Waiting {
    Group::Request request = 0;
    std::string_view bytes;     // of a send
    std::span<std::byte> into;  // of a receive
  };
  struct Lane {
    std::deque<Waiting> sends;
    std::deque<Waiting> receives;
  };
  struct LaneKey {
    uint64_t space;  // splits have their own
    uint32_t from;
    uint32_t to;
    Tag tag;
    auto operator<=>(const LaneKey&) const = default;
  };
  struct Split {
    std::map<uint32_t, uint32_t> colours;  // by rank
    uint32_t left = 0;                     // ranks that have not read the result
  };
  void match(Lane& lane) MR_REQUIRES(mutex_);

  const uint32_t ranks_;
  const uint32_t per_node_;
  Mutex mutex_;
  ConditionVariable joined_;
  std::map<LaneKey, Lane> lanes_ MR_GUARDED_BY(mutex_);
  std::map<Group::Request, bool> done_ MR_GUARDED_BY(mutex_);  // false: too long
  std::map<std::pair<uint64_t, uint64_t>, Split> splits_
      MR_GUARDED_BY(mutex_);  // by space and how often it was split
  uint64_t next_request_ MR_GUARDED_BY(mutex_) = 1;
};

// What each rank gives, known to all. Small things: sizes, votes. A rank that does not answer within the time
// is named in everyone's error.
struct Patience {
  uint64_t timeout_ms = 60'000;
  std::string_view doing;  // "committing epoch 7"
};
Result<std::vector<std::string>> gather_all(Group& group, std::string_view own, const Patience& patience);

// Success where every rank succeeded; else the first failure by rank, named: the same error on all ranks.
Status vote(Group& group, const Status& own, const Patience& patience);

}  // namespace millrace::exchange
