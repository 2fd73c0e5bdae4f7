// Implements ReadAhead: its thread and its queue.
#include "python/read_ahead.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <thread>

#include "base/mutex.h"

namespace millrace::python {

namespace {
// Large enough that handing over costs nothing per sample, small enough to stay in a processor's cache.
constexpr size_t kBatchBytes = 256 << 10;
constexpr size_t kBatchSamples = 256;
constexpr size_t kSpares = 4;
// A larger batch's memory is given back rather than used again.
constexpr size_t kLargestSpare = 4 << 20;
constexpr std::chrono::seconds kPatienceAtEnd{1};
}  // namespace

struct ReadAhead::Shared {
  Shared(BatchReader its_reader, uint64_t its_memory) : reader(std::move(its_reader)), memory(its_memory) {}

  bool has_room() const MR_REQUIRES(mutex) { return queue.empty() || queued_bytes < memory; }

  void queue_current() MR_REQUIRES(mutex) {
    queued_bytes += current.bytes.size();
    queue.push_back(std::move(current));
    current = Batch();
    if (!spares.empty()) {
      current = std::move(spares.back());
      spares.pop_back();
    }
    changed.notify_all();
  }

  BatchReader reader;  // the thread's alone
  const uint64_t memory;
  const pid_t process = ::getpid();
  std::atomic<bool> hungry = false;  // next() waits: hand over what there is
  std::atomic<bool> stopped = false;

  Mutex mutex;
  ConditionVariable changed;
  Batch current MR_GUARDED_BY(mutex);  // being filled
  std::deque<Batch> queue MR_GUARDED_BY(mutex);
  uint64_t queued_bytes MR_GUARDED_BY(mutex) = 0;
  std::vector<Batch> spares MR_GUARDED_BY(mutex);
  std::optional<Error> failure MR_GUARDED_BY(mutex);
  bool ended MR_GUARDED_BY(mutex) = false;  // the thread is done
};

// The batch under way is shared: while the thread waits for its input, whoever is hungry takes what there is.
void ReadAhead::run(Shared& shared) {
  while (true) {
    {
      UniqueLock lock(shared.mutex);
      shared.changed.wait(lock,
                          [&]() MR_REQUIRES(shared.mutex) { return shared.stopped || shared.has_room(); });
    }
    if (shared.stopped) break;
    auto found = shared.reader.advance();
    const MutexLock lock(shared.mutex);
    if (!found) shared.failure = found.take_error();
    const bool is_end = shared.failure || !*found;
    if (!is_end) shared.reader.add(shared.current);
    const bool is_full =
        shared.current.bytes.size() >= kBatchBytes || shared.current.samples.size() >= kBatchSamples;
    if (!shared.current.samples.empty() && (is_end || is_full || shared.hungry)) shared.queue_current();
    if (is_end) break;
  }
  const MutexLock lock(shared.mutex);
  shared.ended = true;
  shared.changed.notify_all();
}

Result<std::unique_ptr<ReadAhead>> ReadAhead::start(BatchReader reader, uint64_t memory) {
  auto shared = std::make_shared<Shared>(std::move(reader), memory);
  // Signals belong to the interpreter's main thread.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  Status started;
  try {
    std::thread([shared] { run(*shared); }).detach();
  } catch (const std::system_error& error) {
    started = make_error(Code::kUnavailable, "cannot start a thread to read ahead: {}", error.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  MR_TRY(std::move(started));
  return std::unique_ptr<ReadAhead>(new ReadAhead(std::move(shared)));
}

Result<ReadAhead::Got> ReadAhead::next(Batch& batch, std::chrono::milliseconds patience) {
  Shared& shared = *shared_;
  if (shared.process != ::getpid()) {
    return make_error(Code::kInvalid, "this iterator was started in process {}, before the fork to {}",
                      shared.process, ::getpid())
        .with_hint("start iterating in the process that uses the samples");
  }
  batch.clear();
  UniqueLock lock(shared.mutex);
  if (shared.queue.empty() && !shared.current.samples.empty()) shared.queue_current();
  const auto ready = [&]() MR_REQUIRES(shared.mutex) {
    return !shared.queue.empty() || shared.ended || shared.stopped;
  };
  if (!ready()) {
    shared.hungry = true;
    shared.changed.wait_for(lock, patience, ready);
  }
  if (shared.stopped) return Got::kEnd;
  if (shared.queue.empty()) {
    if (!shared.ended) return Got::kNotYet;
    if (shared.failure) return shared.failure->copy();
    return Got::kEnd;
  }
  shared.hungry = false;
  std::swap(batch, shared.queue.front());
  if (shared.queue.front().bytes.capacity() <= kLargestSpare && shared.spares.size() < kSpares) {
    shared.spares.push_back(std::move(shared.queue.front()));
  }
  shared.queue.pop_front();
  shared.queued_bytes -= batch.bytes.size();
  shared.changed.notify_all();
  return Got::kBatch;
}

void ReadAhead::stop() {
  Shared& shared = *shared_;
  if (shared.process != ::getpid()) return;
  UniqueLock lock(shared.mutex);
  shared.stopped = true;
  shared.changed.notify_all();
  shared.changed.wait_for(lock, kPatienceAtEnd, [&]() MR_REQUIRES(shared.mutex) { return shared.ended; });
}

ReadAhead::~ReadAhead() {
  stop();
  // In a forked child the parent's thread does not exist, and its locks may be held for ever.
  if (shared_->process != ::getpid()) new std::shared_ptr<Shared>(std::move(shared_));
}

}  // namespace millrace::python
