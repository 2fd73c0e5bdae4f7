// BlockWriter: brings full blocks to one drive, many at a time, without holding up whoever sends them.
//
// One thread per drive owns the ring (io_uring); others only push and wake it. Each block goes to its place
// in its file by one direct write; `done` is called from the ring's thread. Where the kernel has no io_uring
// the thread writes the blocks itself. stop() finishes what was pushed.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "base/mutex.h"
#include "base/result.h"
#include "store/buffers.h"

namespace millrace::store {

class Drive;
class UnfinishedFile;

struct BlockWrite {
  std::shared_ptr<UnfinishedFile> file;
  std::shared_ptr<std::byte> buffer;
  uint64_t offset = 0;
  size_t size = 0;
  std::function<void(Status)> done;
};

class BlockWriter {
 public:
  static constexpr unsigned kMostInFlight = 32;  // per drive; the others wait in the queue

  explicit BlockWriter(Drive& drive);
  ~BlockWriter();

  // After stop() `done` gets an error at once.
  void push(BlockWrite write);
  void stop();

 private:
  struct Ring;
  struct Pending;
  void run();
  void run_blocking();
  std::deque<BlockWrite> take_queue();
  void complete(BlockWrite& write, Status status, uint64_t started_us);

  Drive& drive_;
  int wake_ = -1;  // eventfd
  Mutex mutex_;
  std::deque<BlockWrite> queue_ MR_GUARDED_BY(mutex_);  // at most Writer::kMaxInFlight per writer
  bool stopped_ MR_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace millrace::store
