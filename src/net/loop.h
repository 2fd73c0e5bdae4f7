// Loop: one thread's sockets, timers and coroutines over epoll.
//
// Edge-triggered: a socket is registered once, and a Watch remembers whether trying may succeed, so that a
// request costs one receive, one send and a share of one epoll_wait. Everything but post(), stop() and
// inbox() belongs to the loop's thread. Whoever may post when the loop is gone keeps its inbox, not the loop.
// Measured against Asio's reactor for the same server: docs/measurements.md.
//
// A client that asks again at once is answered sooner, and for less CPU, if the thread looks a little longer
// instead of going to sleep and being woken. Where looking was in vain it is tried ever more rarely; for the
// next bytes of a long body it is not tried at all: they are best taken many at a time.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "net/inbox.h"
#include "net/task.h"
#include "net/timer.h"

namespace millrace::net {

// One socket's readiness. Stays where it is while it is watched.
struct Watch {
  int descriptor = -1;
  bool readable = true;  // may be: an attempt has not said otherwise since the last event
  bool writable = true;
  bool read_ended = false;  // the peer sends nothing more: every attempt to receive will tell
  bool hung_up = false;     // both directions have ended or failed: every attempt to send will tell too
  bool cancelled = false;   // waiting ends at once
  bool in_body = false;     // what it waits for is more of a long body
  std::coroutine_handle<> reader;
  std::coroutine_handle<> writer;
  std::function<void()> notify;  // instead of a coroutine, for listening sockets
};

class Loop {
 public:
  explicit Loop(uint64_t busy_wait_us = 0);
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop();  // destroys spawned tasks that have not finished, and posts that have not run

  void run();   // until stop()
  void stop();  // any thread
  // Any thread: runs in the loop.
  void post(std::function<void()> work) { inbox_->post(std::move(work)); }
  const std::shared_ptr<Inbox>& inbox() const { return inbox_; }

  void spawn(Task<void> task);  // starts at once
  Status watch(Watch& watch);
  void unwatch(Watch& watch);
  // Ends a wait on the socket; the waiting coroutine sees `cancelled`.
  void cancel(Watch& watch);
  // Called about once a second.
  void each_second(std::function<void()> work) { each_second_ = std::move(work); }
  // Called when the loop goes, after its tasks: for what keeps sockets or timers of the loop between tasks.
  void at_end(std::function<void()> work) { at_end_.push_back(std::move(work)); }
  TimerHeap& timers() { return timers_; }

  struct Wait {
    Watch& watch;
    std::coroutine_handle<>& place;
    const bool& ready;
    const bool& ended;
    bool await_ready() const noexcept { return ready || watch.cancelled || ended; }
    void await_suspend(std::coroutine_handle<> waiting) noexcept { place = waiting; }
    void await_resume() noexcept {}
  };
  // Lets the others of this thread have their turn. Long work that never waits would keep it to itself.
  struct Turn {
    Loop& loop;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiting) { loop.turns_.push_back(waiting); }
    void await_resume() noexcept {}
  };
  Turn next_turn() { return {*this}; }
  static Wait until_readable(Watch& watch) { return {watch, watch.reader, watch.readable, watch.read_ended}; }
  static Wait until_writable(Watch& watch) { return {watch, watch.writer, watch.writable, watch.hung_up}; }

 private:
  struct Root;
  friend struct Root;
  void take_events(int timeout_ms);
  int wait_for_events(std::span<epoll_event> events, int timeout_ms);
  void take_turns();
  int ms_to_wait(uint64_t now_us) const;
  static Root run_root(Loop& loop, Task<void> task);

  const uint64_t busy_wait_us_;
  bool worth_looking_ = true;    // one of the last events was not of a long body
  unsigned sleeps_ahead_ = 0;    // how often to sleep before looking longer is tried again
  unsigned sleeps_in_vain_ = 1;  // what that will be after the next time in vain
  int epoll_ = -1;
  const std::shared_ptr<Inbox> inbox_;
  std::atomic<bool> stopped_ = false;
  std::function<void()> each_second_;
  std::vector<std::function<void()>> at_end_;
  TimerHeap timers_;  // goes after the roots: their frames hold timers
  std::unordered_set<void*> roots_;
  std::vector<std::coroutine_handle<>> turns_;  // go on after the next events
  std::unordered_set<const Watch*> gone_;       // unwatched while events are dealt out
};

// Waits for what another thread answers by a callback: `start` is given the function to call with the answer,
// once, from any thread, also when the loop is gone. The coroutine goes on in its loop. Where the coroutine
// or the loop goes away first, the answer is dropped.
template <typename T>
class [[nodiscard]] Answer {
 public:
  using Done = std::function<void(T)>;
  Answer(Loop& loop, std::function<void(Done)> start)
      : state_(std::make_shared<State>(loop.inbox())), start_(std::move(start)) {}
  Answer(Answer&&) = default;
  ~Answer() {
    if (state_) state_->waiting = nullptr;
  }
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiting) {
    state_->waiting = waiting;
    // Moved out first: the callback may come, and the coroutine end, before start returns.
    const std::function<void(Done)> start = std::move(start_);
    start([state = state_](T answer) {
      state->value.emplace(std::move(answer));
      state->inbox->post([state] {
        if (state->waiting) std::exchange(state->waiting, nullptr).resume();
      });
    });
  }
  T await_resume() { return std::move(*state_->value); }

 private:
  struct State {
    explicit State(std::shared_ptr<Inbox> of_loop) : inbox(std::move(of_loop)) {}
    const std::shared_ptr<Inbox> inbox;
    std::coroutine_handle<> waiting;  // touched by the loop's thread only
    std::optional<T> value;
  };
  std::shared_ptr<State> state_;
  std::function<void(Done)> start_;
};

template <typename T>
Answer<T> await_callback(Loop& loop, std::function<void(std::function<void(T)>)> start) {
  return Answer<T>(loop, std::move(start));
}

}  // namespace millrace::net
