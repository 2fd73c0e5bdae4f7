// Cancellation: a scope of waits that end together, on request or at a time.
//
// Streams and pauses subscribe to it. cancel() ends each of their waits at once, inside the call, and for
// good: what begins to wait later ends at once too. A scope inside another ends with it. Everything here
// belongs to the loop's thread; another thread posts the cancel() to the loop. A scope outlives the waits in
// it; the last of them may end it inside cancel().
#pragma once

#include <cstdint>

#include "base/result.h"
#include "net/timer.h"

namespace millrace::net {

class Loop;

class Cancellation;

// A place in a scope's circular list.
class CancellationLink {
 public:
  CancellationLink() = default;
  CancellationLink(const CancellationLink&) = delete;
  CancellationLink& operator=(const CancellationLink&) = delete;

 protected:
  friend class Cancellation;
  void insert_before(CancellationLink& other);
  void unlink();
  bool is_linked() const { return next_ != this; }

  CancellationLink* next_ = this;
  CancellationLink* previous_ = this;
};

class CancellationSubscriber : protected CancellationLink {
 protected:
  ~CancellationSubscriber() { unlink(); }
  // False: the scope is cancelled already, and was not subscribed to. No scope is never cancelled.
  [[nodiscard]] bool subscribe(Cancellation* scope);
  void unsubscribe() { unlink(); }

 private:
  friend class Cancellation;
  // Called once, unsubscribed. May destroy the subscriber.
  virtual void cancelled() = 0;
};

class Cancellation final : private Timer, private CancellationSubscriber {
 public:
  explicit Cancellation(Cancellation* outer = nullptr);
  // Also ends at a time.
  Cancellation(Loop& loop, uint64_t until_us, Cancellation* outer = nullptr);
  ~Cancellation();

  void cancel();
  bool is_cancelled() const { return state_ != State::kOpen; }
  // Why waits ended: kCancelled on request, kUnavailable at the scope's time.
  Error error() const;

 private:
  friend class CancellationSubscriber;
  enum class State { kOpen, kCancelled, kLate };
  void due() override { end(State::kLate); }
  void cancelled() override { end(outer_->state_); }
  void end(State state);

  const Cancellation* const outer_;
  State state_ = State::kOpen;
  CancellationLink first_;
};

}  // namespace millrace::net
