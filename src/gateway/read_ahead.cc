// Readers that were given their first stretch early.
#include "gateway/read_ahead.h"

#include <functional>
#include <utility>

namespace millrace::gateway {

class ReadAhead::Arrival {
 public:
  void arrive(Result<store::Extent> extent) {
    store::Done<store::Extent> waiting;
    {
      const MutexLock lock(mutex_);
      waiting = std::exchange(waiting_, nullptr);
      if (!waiting) extent_ = std::move(extent);
    }
    if (waiting) waiting(std::move(extent));
  }
  void wait(store::Done<store::Extent> done) {
    std::optional<Result<store::Extent>> extent;
    {
      const MutexLock lock(mutex_);
      extent = std::exchange(extent_, std::nullopt);
      if (!extent) waiting_ = std::move(done);
    }
    if (extent) done(std::move(*extent));
  }

 private:
  Mutex mutex_;
  std::optional<Result<store::Extent>> extent_ MR_GUARDED_BY(mutex_);
  store::Done<store::Extent> waiting_ MR_GUARDED_BY(mutex_);
};

void ReadAhead::begin(store::ObjectPointer object, ByteRange range) {
  Begun begun;
  begun.reader = objects_.open(std::move(object), store::Comparing::kAsBucketSays);
  begun.first = std::make_shared<Arrival>();
  begun.range = range;
  bytes_ += range.size;
  if (auto ready = begun.reader->find_ready(range.offset, range.size)) {
    begun.first->arrive(std::move(*ready));
  } else {
    begun.reader->prepare(range.offset, range.size, [first = begun.first](Result<store::Extent> extent) {
      first->arrive(std::move(extent));
    });
  }
  begun_.push_back(std::move(begun));
}

net::Task<Status> ReadAhead::send_next(Call& call) {
  const Begun next = std::move(begun_.front());
  begun_.pop_front();
  bytes_ -= next.range.size;
  std::function<void(store::Done<store::Extent>)> wait =
      [first = next.first](store::Done<store::Extent> done) { first->wait(std::move(done)); };
  auto extent = co_await call.ask<store::Extent>(std::move(wait));
  if (!extent) {
    note_unread(call, extent.error());
    co_return extent.take_error();
  }
  co_return co_await send_brought(call, *next.reader, extent.take(), next.range);
}

}  // namespace millrace::gateway
