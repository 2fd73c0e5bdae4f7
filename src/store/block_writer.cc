// Writes full blocks to one drive through an io_uring.
#include "store/block_writer.h"

#include <liburing.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "base/assert.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/mutex.h"
#include "store/drive.h"
#include "store/unfinished_file.h"

namespace millrace::store {

struct BlockWriter::Pending {
  BlockWrite write;
  size_t written = 0;
  uint64_t started_us = 0;
};

// Closes the ring on every way out.
struct BlockWriter::Ring {
  io_uring ring{};
  bool good = false;
  uint64_t wake_value = 0;

  Ring() { good = io_uring_queue_init(2 * kMostInFlight, &ring, 0) == 0; }
  ~Ring() {
    if (good) io_uring_queue_exit(&ring);
  }
  void submit(Pending* pending) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring);
    MR_ASSERT(entry != nullptr);
    io_uring_prep_write(entry, pending->write.file->descriptor(),
                        pending->write.buffer.get() + pending->written,
                        static_cast<unsigned>(pending->write.size - pending->written),
                        pending->write.offset + pending->written);
    io_uring_sqe_set_data(entry, pending);
  }
  void watch(int wake) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring);
    MR_ASSERT(entry != nullptr);
    io_uring_prep_read(entry, wake, &wake_value, sizeof(wake_value), 0);
    io_uring_sqe_set_data(entry, nullptr);
  }
};

BlockWriter::BlockWriter(Drive& drive) : drive_(drive), wake_(::eventfd(0, EFD_CLOEXEC)) {
  MR_ASSERT(wake_ >= 0, errno);
  thread_ = std::jthread([this] { run(); });
}

BlockWriter::~BlockWriter() {
  stop();
  ::close(wake_);
}

void BlockWriter::push(BlockWrite write) {
  bool wake = false;
  {
    UniqueLock lock(mutex_);
    if (stopped_) {
      lock.unlock();
      write.buffer.reset();
      write.done(make_error(Code::kCancelled, "the drive is being closed"));
      return;
    }
    wake = queue_.empty();
    queue_.push_back(std::move(write));
  }
  ++drive_.queue_writes;
  if (wake) static_cast<void>(::eventfd_write(wake_, 1));
}

void BlockWriter::stop() {
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
  }
  static_cast<void>(::eventfd_write(wake_, 1));
  if (thread_.joinable()) thread_.join();
}

std::deque<BlockWrite> BlockWriter::take_queue() {
  const MutexLock lock(mutex_);
  return std::exchange(queue_, {});
}

void BlockWriter::complete(BlockWrite& write, Status status, uint64_t started_us) {
  --drive_.queue_writes;
  if (status) {
    drive_.writes.count(write.size, steady_us() - started_us);
  } else {
    drive_.writes.count_error();
  }
  write.buffer.reset();
  write.file.reset();
  write.done(std::move(status));
}

void BlockWriter::run() {
  Ring ring;
  if (!ring.good) {
    run_blocking();
    return;
  }
  std::deque<BlockWrite> waiting;
  unsigned in_flight = 0;
  bool ending = false;
  ring.watch(wake_);
  while (true) {
    for (BlockWrite& write : take_queue()) waiting.push_back(std::move(write));
    while (!waiting.empty() && in_flight < kMostInFlight) {
      auto pending = std::make_unique<Pending>();
      pending->write = std::move(waiting.front());
      waiting.pop_front();
      pending->started_us = steady_us();
      Status room = pending->write.file->make_room(pending->write.offset + pending->write.size);
      if (!room) {
        complete(pending->write, std::move(room), pending->started_us);
        continue;
      }
      ring.submit(pending.release());
      ++in_flight;
    }
    {
      const MutexLock lock(mutex_);
      ending = stopped_ && queue_.empty();
    }
    if (ending && waiting.empty() && in_flight == 0) return;
    if (in_flight > 0) {
      drive_.writing.begin();
    } else {
      drive_.writing.end();
    }
    const int submitted = io_uring_submit_and_wait(&ring.ring, 1);
    MR_ASSERT(submitted >= 0 || submitted == -EINTR || submitted == -EAGAIN || submitted == -EBUSY,
              submitted);

    io_uring_cqe* completion = nullptr;
    while (io_uring_peek_cqe(&ring.ring, &completion) == 0) {
      auto* data = static_cast<Pending*>(io_uring_cqe_get_data(completion));
      const int result = completion->res;
      io_uring_cqe_seen(&ring.ring, completion);
      if (data == nullptr) {
        ring.watch(wake_);
        continue;
      }
      std::unique_ptr<Pending> pending(data);
      if (result == -EINTR || result == -EAGAIN) {
        ring.submit(pending.release());
        continue;
      }
      if (result > 0 && pending->written + static_cast<size_t>(result) < pending->write.size) {
        pending->written += static_cast<size_t>(result);
        ring.submit(pending.release());
        continue;
      }
      --in_flight;
      MR_FAULT("put.block");
      Status status;
      if (result <= 0) status = drive_.failed_call(result < 0 ? -result : EIO, "writing a block");
      complete(pending->write, std::move(status), pending->started_us);
    }
  }
}

void BlockWriter::run_blocking() {
  while (true) {
    std::deque<BlockWrite> batch = take_queue();
    if (batch.empty()) {
      {
        const MutexLock lock(mutex_);
        if (stopped_ && queue_.empty()) return;
      }
      eventfd_t value = 0;
      static_cast<void>(::eventfd_read(wake_, &value));
      continue;
    }
    drive_.writing.begin();
    for (BlockWrite& write : batch) {
      const uint64_t started_us = steady_us();
      Status status = write.file->make_room(write.offset + write.size);
      size_t written = 0;
      while (status && written < write.size) {
        const ssize_t now = ::pwrite(write.file->descriptor(), write.buffer.get() + written,
                                     write.size - written, static_cast<off_t>(write.offset + written));
        if (now < 0 && errno == EINTR) continue;
        if (now <= 0) status = drive_.failed_call(now < 0 ? errno : EIO, "writing a block");
        if (now > 0) written += static_cast<size_t>(now);
      }
      complete(write, std::move(status), started_us);
    }
    drive_.writing.end();
  }
}

}  // namespace millrace::store
