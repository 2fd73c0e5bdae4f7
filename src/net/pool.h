// Pool: connections that wait for their next request, and how many there may be to each host.
//
// A Lease is a slot for one connection, with an idle one in it or none yet. Thread-safe where its streams
// block; with streams of a loop it belongs to that loop's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "net/loop.h"
#include "net/pause.h"
#include "net/stream.h"
#include "net/task.h"

namespace millrace::net {

class Pool;

// Move-only. Gives its slot back when it goes; the stream in it is closed then, unless it was kept.
class Lease {
 public:
  Lease() = default;
  Lease(std::shared_ptr<Pool> pool, std::string place) : pool_(std::move(pool)), place_(std::move(place)) {}
  Lease(Lease&& other) noexcept = default;
  Lease& operator=(Lease&& other) noexcept;
  ~Lease() { give_back(); }

  // The stream is in step and waits for the next request.
  void keep();

  std::unique_ptr<Stream> stream;  // none: one is to be opened

 private:
  void give_back();
  std::shared_ptr<Pool> pool_;
  std::string place_;
};

class Pool : public std::enable_shared_from_this<Pool> {
 public:
  explicit Pool(size_t most_per_host) : most_per_host_(most_per_host) {}

  // Nothing: all connections to the place are in use.
  std::optional<Lease> try_take(const std::string& place);
  // Blocks until try_take may succeed; false when that took too long.
  bool wait_for_slot(const std::string& place, int64_t ms);
  // The same on a loop. kUnavailable: it took too long.
  Task<Status> wait_for_slot_on(Loop& loop, const std::string& place, uint64_t until_us, Cancellation* scope);
  void close_idle();

  // Whether a place has answered before.
  void note_answer(const std::string& place);
  bool has_answered(const std::string& place);

 private:
  friend class Lease;
  struct Host {
    std::vector<std::unique_ptr<Stream>> idle;
    size_t taken = 0;
    bool answered = false;
    size_t waiting = 0;  // on the loop
  };
  void keep(const std::string& place, std::unique_ptr<Stream> stream);
  void release(const std::string& place);
  void wake_first(const std::string& place);
  void count_waiting(const std::string& place, int change);

  const size_t most_per_host_;

  // Those who wait on a loop, by place; touched in its thread only.
  std::shared_ptr<Inbox> inbox_;  // of that loop: a lease may go when the loop is gone
  std::map<std::string, std::deque<Pause*>> waiting_;

  Mutex mutex_;
  ConditionVariable freed_;
  std::map<std::string, Host> hosts_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::net
