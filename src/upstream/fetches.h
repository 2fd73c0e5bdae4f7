// Fetches: the fetches of a node, one for each version of an object, and how readers join them.
//
// At most kMostFetches run; further ones wait for their turn, prefetched ones behind those that somebody
// reads. Any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/workers.h"
#include "store/objects.h"
#include "upstream/fetch.h"
#include "upstream/fetch_memory.h"
#include "upstream/remote_object.h"

namespace millrace::upstream {

struct FetchCounts {
  uint64_t begun = 0;
  uint64_t stored = 0;
  uint64_t failed = 0;
  uint64_t bytes = 0;  // of those that were stored
  uint64_t running = 0;
  uint64_t waiting = 0;
};

class Fetches {
 public:
  static constexpr size_t kMostFetches = 32;
  static constexpr size_t kMostWaiting = 4096;
  // Whoever asked for the object before it was stored may join when it is.
  static constexpr uint64_t kKeepEndedUs = 10'000'000;
  static constexpr size_t kMostEnded = 64;
  static constexpr size_t kMostProblems = 10'000;

  // All of them outlive it, and its fetches.
  struct Links {
    store::Objects& objects;  // where fetched objects are stored
    Workers& workers;
    std::shared_ptr<FetchMemory> memory;
    Log& log;
    std::function<void()> on_full;  // no drive has room; quick
  };
  explicit Fetches(Links links) : links_(std::move(links)) {}

  enum class Urgency : uint8_t { kRead, kAhead };
  // The fetch of that version, begun or under way. kUnavailable where too many wait.
  Result<std::shared_ptr<Fetch>> join(const std::shared_ptr<const RemoteObject>& object, Urgency urgency);
  // What is being fetched under that name; null: nothing.
  std::shared_ptr<const RemoteObject> find(const std::string& bucket, const std::string& key) const;
  // Something else was written under that name: nobody joins what was being fetched. What is under way ends
  // for those who read it.
  void leave(const std::string& bucket, const std::string& key);
  FetchCounts counts() const;
  // Why the last fetch of the object failed, if nobody was told and nobody has begun it anew.
  std::optional<std::string> take_problem(const RemoteObject& object);
  // Lets go of fetches that ended a while ago. Now and then.
  void forget_ended();
  // Nothing begins any more; those that wait fail.
  void stop();

 private:
  using Name = std::pair<std::string, std::string>;
  struct Entry {
    std::shared_ptr<const RemoteObject> object;
    std::shared_ptr<Fetch> fetch;
    uint64_t ended_us = 0;
  };

  void begin(const Entry& entry);
  void take_end(const Entry& entry, Result<store::ObjectPointer> outcome);
  std::vector<Entry> take_turns() MR_REQUIRES(mutex_);
  void leave_entry(const Name& name) MR_REQUIRES(mutex_);
  void note_problem(const RemoteObject& object, const Result<store::ObjectPointer>& outcome)
      MR_REQUIRES(mutex_);
  std::shared_ptr<Fetch> find_fetch(const RemoteObject& object) const MR_REQUIRES(mutex_);

  const Links links_;
  mutable Mutex mutex_;
  std::map<Name, Entry> entries_ MR_GUARDED_BY(mutex_);  // running and waiting
  std::deque<Entry> reads_ MR_GUARDED_BY(mutex_);        // that wait for their turn
  std::deque<Entry> ahead_ MR_GUARDED_BY(mutex_);
  std::deque<Entry> stored_ MR_GUARDED_BY(mutex_);                // the oldest first
  std::vector<std::weak_ptr<Fetch>> left_ MR_GUARDED_BY(mutex_);  // under way, and joined no more
  std::map<Name, std::string> problems_ MR_GUARDED_BY(mutex_);
  FetchCounts counts_ MR_GUARDED_BY(mutex_);
  bool stopped_ MR_GUARDED_BY(mutex_) = false;
};

// A reader that follows the fetch, and reads what is stored when that has ended.
std::unique_ptr<store::Reader> open_fetch_reader(std::shared_ptr<Fetch> fetch, uint64_t size,
                                                 store::Objects& objects);

}  // namespace millrace::upstream
