// Connections that are kept for the next request, and the slots that limit them.
#include "net/pool.h"

#include <algorithm>
#include <chrono>

namespace millrace::net {

namespace {
constexpr size_t kMaxIdlePerHost = 64;
}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  stream = std::move(other.stream);
  pool_ = std::move(other.pool_);
  place_ = std::move(other.place_);
  return *this;
}

void Lease::keep() {
  stream->attach(nullptr);
  pool_->keep(place_, std::move(stream));
}

void Lease::give_back() {
  stream.reset();
  if (pool_) std::exchange(pool_, nullptr)->release(place_);
}

std::optional<Lease> Pool::try_take(const std::string& place) {
  const MutexLock lock(mutex_);
  Host& host = hosts_[place];
  if (host.taken >= most_per_host_) return std::nullopt;
  ++host.taken;
  std::optional<Lease> lease(std::in_place, shared_from_this(), place);
  while (!host.idle.empty() && !lease->stream) {
    lease->stream = std::move(host.idle.back());
    host.idle.pop_back();
    if (lease->stream->is_stale()) lease->stream.reset();
  }
  return lease;
}

bool Pool::wait_for_slot(const std::string& place, int64_t ms) {
  UniqueLock lock(mutex_);
  const Host& host = hosts_[place];
  return freed_.wait_for(lock, std::chrono::milliseconds(ms),
                         [&]() MR_REQUIRES(mutex_) { return host.taken < most_per_host_; });
}

Task<Status> Pool::wait_for_slot_on(Loop& loop, const std::string& place, uint64_t until_us,
                                    Cancellation* scope) {
  // However the wait ends, nobody may find the pause in the list afterwards.
  struct Queued {
    Pool& pool;
    const std::string& place;
    Pause& pause;
    ~Queued() {
      std::erase(pool.waiting_[place], &pause);
      pool.count_waiting(place, -1);
    }
  };
  inbox_ = loop.inbox();
  Pause pause(loop, until_us, scope);
  waiting_[place].push_back(&pause);
  count_waiting(place, 1);
  const Queued queued{*this, place, pause};
  const Pause::End end = co_await pause;
  if (end == Pause::End::kCancelled) co_return scope->error();
  if (end == Pause::End::kTime)
    co_return make_error(Code::kUnavailable, "all {} connections to {} are in use", most_per_host_, place);
  co_return Status();
}

void Pool::keep(const std::string& place, std::unique_ptr<Stream> stream) {
  const MutexLock lock(mutex_);
  Host& host = hosts_[place];
  if (host.idle.size() < kMaxIdlePerHost) host.idle.push_back(std::move(stream));
}

void Pool::release(const std::string& place) {
  {
    const MutexLock lock(mutex_);
    Host& host = hosts_[place];
    --host.taken;
    // Not here: a lease may go while its loop does, and then nobody may go on any more.
    if (host.waiting > 0)
      inbox_->post([pool = weak_from_this(), place] {
        if (const auto alive = pool.lock()) alive->wake_first(place);
      });
  }
  freed_.notify_all();
}

void Pool::wake_first(const std::string& place) {
  std::deque<Pause*>& waiting = waiting_[place];
  if (waiting.empty()) return;
  Pause* const first = waiting.front();
  waiting.pop_front();
  first->wake();
}

void Pool::count_waiting(const std::string& place, int change) {
  const MutexLock lock(mutex_);
  hosts_[place].waiting += static_cast<size_t>(change);
}

void Pool::close_idle() {
  const MutexLock lock(mutex_);
  for (auto& [place, host] : hosts_) host.idle.clear();
}

void Pool::note_answer(const std::string& place) {
  const MutexLock lock(mutex_);
  hosts_[place].answered = true;
}

bool Pool::has_answered(const std::string& place) {
  const MutexLock lock(mutex_);
  return hosts_[place].answered;
}

}  // namespace millrace::net
