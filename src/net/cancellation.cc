// Cancellation scopes: lists of those who wait, ended together.
#include "net/cancellation.h"

#include <utility>

#include "net/loop.h"

namespace millrace::net {

void CancellationLink::insert_before(CancellationLink& other) {
  next_ = &other;
  previous_ = other.previous_;
  previous_->next_ = this;
  other.previous_ = this;
}

void CancellationLink::unlink() {
  next_->previous_ = previous_;
  previous_->next_ = next_;
  next_ = previous_ = this;
}

bool CancellationSubscriber::subscribe(Cancellation* scope) {
  unlink();
  if (scope == nullptr) return true;
  if (scope->is_cancelled()) return false;
  insert_before(scope->first_);
  return true;
}

Cancellation::Cancellation(Cancellation* outer) : Timer(nullptr), outer_(outer) {
  if (!subscribe(outer)) state_ = outer->state_;
}

Cancellation::Cancellation(Loop& loop, uint64_t until_us, Cancellation* outer)
    : Timer(&loop.timers()), outer_(outer) {
  if (!subscribe(outer)) {
    state_ = outer->state_;
  } else {
    arm(until_us);
  }
}

Cancellation::~Cancellation() {
  while (first_.is_linked()) first_.next_->unlink();
}

void Cancellation::cancel() {
  end(State::kCancelled);
}

void Cancellation::end(State state) {
  if (is_cancelled()) return;
  state_ = state;
  disarm();
  unsubscribe();
  // Ending a wait may end the coroutine that owns this scope: from here on nothing of the scope is touched.
  CancellationLink waiting;
  if (!first_.is_linked()) return;
  waiting.insert_before(first_);
  first_.unlink();
  while (waiting.is_linked()) {
    auto& subscriber = static_cast<CancellationSubscriber&>(*waiting.next_);
    subscriber.unlink();
    subscriber.cancelled();
  }
}

Error Cancellation::error() const {
  if (state_ == State::kLate) return make_error(Code::kUnavailable, "not done in the time that was given");
  return make_error(Code::kCancelled, "given up on request");
}

}  // namespace millrace::net
