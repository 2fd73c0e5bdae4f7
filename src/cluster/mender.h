// Mender: brings one key of this node, its home, into order: every holder gets its slice and its mark.
//
// It asks all drives that may know the key, makes the slices that are missing, commits the new holders, and
// only then lets the old places forget the key (mending.h plans it). Every step can be cut off: the next
// attempt finds what is there. A write that comes in between wins; the mending is then done again for it.
// On the strand, but for add_counts().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "cluster/mending.h"
#include "cluster/message.h"
#include "cluster/peers.h"
#include "cluster/progress.h"

namespace millrace::cluster {

class Home;

// Makes one slice of an object from others and keeps it on a drive, prepared.
class SliceBuilder {
 public:
  struct Order {
    ObjectName name;
    store::Record record;  // of the object, with its holders of now
    store::Spread spread;  // of the new slice
    DriveId drive = 0;
    std::set<unsigned> unread = {};  // slots that are not to be read: their slices are damaged
    // kHealing: at the pace of healing. kNow: without rests.
    enum class Pace : uint8_t { kHealing, kNow };
    Pace pace = Pace::kHealing;
  };
  virtual ~SliceBuilder() = default;
  // `done` on the strand, with the bytes that were written.
  virtual void build(Order order, Done<uint64_t> done) = 0;
  // Writes all slices of an object anew, with its bucket's redundancy of now, and commits them as a move.
  virtual void recode(const ObjectName& name, const store::Record& record, Done<uint64_t> done) = 0;
};

struct MenderOptions {
  uint64_t grace_us = 600'000'000;  // how long a drive that is away is waited for
  // How long to rest after making something that took so long.
  std::function<uint64_t(uint64_t)> rest_us = [](uint64_t) { return uint64_t{0}; };
};

class Mender {
 public:
  Mender(Strand& strand, Peers& peers, Membership& membership, Home& home)
      : strand_(strand), peers_(peers), membership_(membership), home_(home) {}

  // Until then no slices are made. The builder outlives the strand.
  void set_builder(SliceBuilder& builder, MenderOptions options);

  // Answers when the key is in order. kNotYet: a drive that lacks may come back. Others: see the error.
  void mend(MendRequest request, Done<Reply> done);
  // The newest map is another.
  void adopt_map();

  // Adds what was mended to what a walk found. Any thread.
  void add_counts(Progress& progress) const;

 private:
  static constexpr unsigned kMostRounds = 8;
  struct Job;
  using JobPointer = std::shared_ptr<Job>;

  void begin(const JobPointer& job);
  void begin_again(Job& ended);
  void look(const JobPointer& job);
  void ask_drives(const JobPointer& job);
  void hear(const JobPointer& job);
  void hear_of_nothing(const JobPointer& job);
  void act(const JobPointer& job, Mending mending);
  void recode(const JobPointer& job);
  void build_next(const JobPointer& job);
  void build(const JobPointer& job, const Mending::Slice& build);
  void hear_built(const JobPointer& job, uint64_t began_us, Result<uint64_t> built);
  void count_built(uint64_t bytes);
  // So long that making slices takes its share of the time.
  void rest(uint64_t began_us, std::function<void()> then);
  void commit(const JobPointer& job);
  void tell_marks(const JobPointer& job);
  void let_go(const JobPointer& job, const std::vector<DriveId>& drives);
  void drop(const Job& job, const std::vector<Mending::Slice>& slices);
  void end(const JobPointer& job, Status status);
  // Asks drives, each by its own request, and calls `then` when all have answered.
  using ForDrive = std::function<Request(DriveId)>;
  void tell(const std::vector<DriveId>& drives, const ForDrive& request, std::function<void(bool well)> then);
  bool may_return(DriveId drive) const;
  bool is_outlived(const store::Record& last) const;
  // An older map that cannot be closed places the key otherwise. A later sync could not tell whether drives
  // that are away by then knew a newer write. This home can: a commit in this epoch tells it to all later
  // ones.
  bool is_doubted(const Job& job) const;

  Strand& strand_;
  Peers& peers_;
  Membership& membership_;
  Home& home_;
  SliceBuilder* builder_ = nullptr;
  MenderOptions options_;
  std::map<ObjectName, JobPointer> jobs_;
  std::map<DriveId, uint64_t> away_since_;  // when this node first saw it
  mutable Mutex mutex_;
  Progress counts_ MR_GUARDED_BY(mutex_);  // its second half
  uint64_t rate_since_us_ MR_GUARDED_BY(mutex_) = 0;
  uint64_t rate_bytes_ MR_GUARDED_BY(mutex_) = 0;  // built before
};

}  // namespace millrace::cluster
