// epoll, and the roots of the coroutines.
#include "net/loop.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/assert.h"
#include "base/clock.h"

namespace millrace::net {

namespace {
constexpr unsigned kMostSleepsAhead = 1024;
}

// A spawned task's outermost frame; it destroys itself at the end.
struct Loop::Root {
  struct promise_type {
    Loop* loop;
    promise_type(Loop& owner, Task<void>&) : loop(&owner) { loop->roots_.insert(address()); }
    ~promise_type() { loop->roots_.erase(address()); }
    void* address() { return std::coroutine_handle<promise_type>::from_promise(*this).address(); }
    static void* operator new(size_t bytes) { return FrameMemory::take(bytes); }
    static void operator delete(void* memory, size_t bytes) { FrameMemory::give(memory, bytes); }
    Root get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

Loop::Root Loop::run_root(Loop&, Task<void> task) {
  co_await task;
}

Loop::Loop(uint64_t busy_wait_us)
    : busy_wait_us_(busy_wait_us), epoll_(::epoll_create1(EPOLL_CLOEXEC)), inbox_(std::make_shared<Inbox>()) {
  MR_ASSERT(epoll_ >= 0, "errno {}", errno);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, inbox_->descriptor(), &event);
}

Loop::~Loop() {
  // Closed first: tasks that go give back what others wait for, and nobody is there any more to go on.
  std::vector<Inbox::Work> unrun = inbox_->close();
  while (!roots_.empty()) std::coroutine_handle<>::from_address(*roots_.begin()).destroy();
  for (const std::function<void()>& work : at_end_) work();
  // What the posts carry may be of this loop: it goes while the loop still stands.
  unrun.clear();
  ::close(epoll_);
}

void Loop::spawn(Task<void> task) {
  run_root(*this, std::move(task));
}

Status Loop::watch(Watch& watch) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = &watch;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, watch.descriptor, &event) != 0)
    return make_system_error(errno, "watching a socket");
  return {};
}

void Loop::unwatch(Watch& watch) {
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, watch.descriptor, nullptr);
  gone_.insert(&watch);
}

void Loop::cancel(Watch& watch) {
  watch.cancelled = true;
  if (watch.reader) std::exchange(watch.reader, nullptr).resume();
  if (!gone_.contains(&watch) && watch.writer) std::exchange(watch.writer, nullptr).resume();
}

void Loop::stop() {
  stopped_ = true;
  post([] {});
}

int Loop::wait_for_events(std::span<epoll_event> events, int timeout_ms) {
  const auto wait = [&](int ms) {
    return ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), ms);
  };
  if (busy_wait_us_ == 0 || timeout_ms == 0 || !worth_looking_) return wait(timeout_ms);
  if (sleeps_ahead_ > 0) {
    --sleeps_ahead_;
    return wait(timeout_ms);
  }
  const uint64_t until = steady_us() + busy_wait_us_;
  do {
    const int count = wait(0);
    if (count == 0) continue;
    sleeps_in_vain_ = 1;
    return count;
  } while (steady_us() < until);
  sleeps_ahead_ = sleeps_in_vain_;
  sleeps_in_vain_ = std::min(2 * sleeps_in_vain_, kMostSleepsAhead);
  return wait(timeout_ms);
}

void Loop::take_events(int timeout_ms) {
  std::array<epoll_event, 256> events;
  const int count = wait_for_events(events, timeout_ms);
  bool posted = false;
  unsigned others = 0;  // events that are not of a long body
  unsigned bodies = 0;
  gone_.clear();
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    auto* const watch = static_cast<Watch*>(event.data.ptr);
    if (watch == nullptr) {
      posted = true;
      continue;
    }
    // An earlier event of this round may have ended this connection.
    if (!gone_.empty() && gone_.contains(watch)) continue;
    // A peer that only stopped sending may still read, at its own pace: to the writer that is no event.
    if ((event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) watch->read_ended = true;
    if ((event.events & (EPOLLHUP | EPOLLERR)) != 0) watch->hung_up = true;
    if ((event.events & EPOLLIN) != 0) watch->readable = true;
    if ((event.events & EPOLLOUT) != 0) watch->writable = true;
    if (watch->notify) {
      watch->notify();
      ++others;
      continue;
    }
    if (watch->reader && (watch->readable || watch->read_ended))
      std::exchange(watch->reader, nullptr).resume();
    if (!gone_.empty() && gone_.contains(watch)) continue;
    if (watch->writer && (watch->writable || watch->hung_up)) std::exchange(watch->writer, nullptr).resume();
    const bool is_gone = !gone_.empty() && gone_.contains(watch);
    ++(!is_gone && watch->in_body ? bodies : others);
  }
  if (bodies + others > 0) worth_looking_ = others > 0;
  if (!posted) return;
  for (const Inbox::Work& work : inbox_->take()) work();
}

void Loop::take_turns() {
  if (turns_.empty()) return;
  for (const std::coroutine_handle<> waiting : std::exchange(turns_, {})) waiting.resume();
}

// Rounded up: a timer is never early.
int Loop::ms_to_wait(uint64_t now_us) const {
  constexpr uint64_t kMostUs = 1'000'000;
  if (!turns_.empty() || timers_.first_us() <= now_us) return 0;
  return static_cast<int>((std::min(timers_.first_us() - now_us, kMostUs) + 999) / 1000);
}

void Loop::run() {
  constexpr uint64_t kSecondUs = 1'000'000;
  uint64_t now = steady_us();
  uint64_t last_second = now;
  while (!stopped_.load(std::memory_order_relaxed)) {
    take_events(ms_to_wait(now));
    take_turns();
    now = steady_us();
    if (timers_.first_us() <= now) {
      gone_.clear();
      timers_.fire(now);
    }
    if (now - last_second < kSecondUs) continue;
    last_second = now;
    gone_.clear();
    if (each_second_) each_second_();
  }
}

}  // namespace millrace::net
