// One lock; whoever waits is answered without it.
#include "gateway/result_flow.h"

#include <algorithm>
#include <utility>

namespace millrace::gateway {

Status ResultFlow::write(std::string_view bytes) {
  while (!bytes.empty()) {
    std::function<void()> answer;
    {
      UniqueLock lock(mutex_);
      room_.wait(lock, [&]() MR_REQUIRES(mutex_) { return cancelled_ || held_ < kMostHeldBytes; });
      if (cancelled_) return make_error(Code::kCancelled, "nobody waits for the result any more");
      if (pieces_.empty() || pieces_.back().size() >= kPieceBytes) {
        pieces_.emplace_back();
        pieces_.back().reserve(std::min(bytes.size(), kPieceBytes));
      }
      std::string& last = pieces_.back();
      const size_t taken = std::min(bytes.size(), kPieceBytes - last.size());
      last.append(bytes.substr(0, taken));
      bytes.remove_prefix(taken);
      held_ += taken;
      answer = answer_waiting();
    }
    if (answer) answer();
  }
  return {};
}

void ResultFlow::end(Status outcome) {
  std::function<void()> answer;
  std::function<void()> more;
  {
    const MutexLock lock(mutex_);
    ended_ = true;
    outcome_ = std::move(outcome);
    answer = answer_waiting();
    more = answer_waiting();
  }
  if (answer) answer();
  if (more) more();
}

std::function<void()> ResultFlow::answer_waiting() {
  if (ready_ && (ended_ || held_ >= ready_at_)) return std::exchange(ready_, nullptr);
  if (!waiting_) return {};
  // A piece that grows still is left to grow, unless nobody else is there to be sent.
  const bool has_piece = !pieces_.empty() && (ended_ || pieces_.front().size() >= kPieceBytes);
  if (!has_piece && !ended_) return {};
  auto done = std::exchange(waiting_, nullptr);
  if (!pieces_.empty()) {
    auto piece = std::make_shared<std::string>(std::move(pieces_.front()));
    pieces_.pop_front();
    held_ -= piece->size();
    taken_ += piece->size();
    room_.notify_one();
    return [done = std::move(done), piece] { done(std::move(*piece)); };
  }
  if (outcome_) return [done = std::move(done)] { done(std::string()); };
  auto failure = std::make_shared<Error>(outcome_.error().copy());
  return [done = std::move(done), failure] { done(std::move(*failure)); };
}

void ResultFlow::next(store::Done<std::string> done) {
  std::function<void()> answer;
  {
    const MutexLock lock(mutex_);
    waiting_ = std::move(done);
    answer = answer_waiting();
  }
  if (answer) answer();
}

void ResultFlow::when_held(uint64_t bytes, std::function<void()> ready) {
  std::function<void()> answer;
  {
    const MutexLock lock(mutex_);
    ready_ = std::move(ready);
    ready_at_ = bytes;
    answer = answer_waiting();
  }
  if (answer) answer();
}

std::optional<Error> ResultFlow::find_failure() const {
  const MutexLock lock(mutex_);
  return ended_ && !outcome_ ? std::optional(outcome_.error().copy()) : std::nullopt;
}

std::optional<uint64_t> ResultFlow::whole_size() const {
  const MutexLock lock(mutex_);
  return ended_ && outcome_ && taken_ == 0 ? std::optional(held_) : std::nullopt;
}

void ResultFlow::cancel() {
  const MutexLock lock(mutex_);
  cancelled_ = true;
  pieces_.clear();
  held_ = 0;
  room_.notify_one();
}

}  // namespace millrace::gateway
