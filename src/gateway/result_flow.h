// ResultFlow: the bytes of a run on their way from its thread to a connection's.
//
// Holds kMostHeldBytes; then the run waits. The two sides share it: one thread writes, one coroutine reads.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "store/objects.h"
#include "tar/writer.h"

namespace millrace::gateway {

class ResultFlow final : public tar::ByteSink {
 public:
  static constexpr uint64_t kMostHeldBytes = 8 << 20;

  // The run's thread. kCancelled: nobody reads any more.
  Status write(std::string_view bytes) override;
  Status finish() override { return {}; }
  void end(Status outcome);

  // The connection's. The next bytes; empty at the end of a run that went well.
  void next(store::Done<std::string> done);
  // Whether so many bytes are there, or the end: then `ready` is called, once, from any thread.
  void when_held(uint64_t bytes, std::function<void()> ready);
  // How the run failed, where it has ended so.
  std::optional<Error> find_failure() const;
  // The size of the whole, where the run has ended well and all of it is held.
  std::optional<uint64_t> whole_size() const;
  void cancel();

 private:
  static constexpr size_t kPieceBytes = 256 << 10;
  // What is to be called without the lock.
  std::function<void()> answer_waiting() MR_REQUIRES(mutex_);

  mutable Mutex mutex_;
  ConditionVariable room_;
  std::deque<std::string> pieces_ MR_GUARDED_BY(mutex_);
  uint64_t held_ MR_GUARDED_BY(mutex_) = 0;
  uint64_t taken_ MR_GUARDED_BY(mutex_) = 0;
  bool ended_ MR_GUARDED_BY(mutex_) = false;
  bool cancelled_ MR_GUARDED_BY(mutex_) = false;
  Status outcome_ MR_GUARDED_BY(mutex_);
  store::Done<std::string> waiting_ MR_GUARDED_BY(mutex_);
  std::function<void()> ready_ MR_GUARDED_BY(mutex_);
  uint64_t ready_at_ MR_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace::gateway
