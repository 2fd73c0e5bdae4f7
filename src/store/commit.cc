// The committer's thread.
#include "store/commit.h"

#include "base/fault.h"
#include "base/mutex.h"
#include "store/commit_batch.h"
#include "store/core.h"

namespace millrace::store {

Committer::Committer(Core& core) : core_(core), thread_([this] { run(); }) {}

Committer::~Committer() {
  stop();
}

void Committer::push(Change change) {
  {
    UniqueLock lock(mutex_);
    if (stopped_) {
      lock.unlock();
      change.done(make_error(Code::kCancelled, "the store is being closed"));
      return;
    }
    queue_.push_back(std::move(change));
  }
  filled_.notify_one();
}

std::deque<Change> Committer::take_all() {
  const MutexLock lock(mutex_);
  return std::exchange(queue_, {});
}

void Committer::stop() {
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
  }
  filled_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Committer::gather(size_t last_size) {
  // The writers that were just answered are about to come again: let them, or this flush is for one and the
  // next for all others. With one writer nothing is waited for.
  constexpr int kMostYields = 4;
  for (int i = 0; i < kMostYields; ++i) {
    {
      const MutexLock lock(mutex_);
      if (2 * queue_.size() >= last_size) return;
    }
    std::this_thread::yield();
  }
}

void Committer::run() {
  size_t last_size = 0;
  while (true) {
    {
      UniqueLock lock(mutex_);
      filled_.wait(lock, [&]() MR_REQUIRES(mutex_) { return stopped_ || !queue_.empty(); });
      if (queue_.empty()) return;
    }
    gather(last_size);
    std::vector<std::unique_ptr<CommitBatch>> done;
    {
      // Taken under the lock: when the drives change, what waits goes to other committers.
      const ReadLock topology(core_.topology);
      std::deque<Change> changes = take_all();
      last_size = changes.size();
      const std::shared_ptr<const DriveMap> map = core_.map();
      while (!changes.empty()) {
        auto batch = std::make_unique<CommitBatch>(core_, map);
        while (!changes.empty() && batch->admits(changes.front())) {
          batch->add(std::move(changes.front()));
          changes.pop_front();
        }
        // A bug on purpose, for the tests of the tests.
        if (broken("early-ack")) batch->answer();
        batch->write();
        done.push_back(std::move(batch));
      }
    }
    if (broken("early-ack")) continue;
    for (const auto& batch : done) batch->answer();
  }
}

}  // namespace millrace::store
