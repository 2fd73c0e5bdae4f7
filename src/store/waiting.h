// Waiting for the answers of Objects, on threads that may block.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/objects.h"

namespace millrace::store {

// What `start` will be answered with, so that several can be under way.
template <typename T>
std::future<Result<T>> ask_for(const std::function<void(Done<T>)>& start) {
  // Shared: the one who waits may be gone before set_value has returned.
  auto outcome = std::make_shared<std::promise<Result<T>>>();
  auto waiting = outcome->get_future();
  start([outcome](Result<T> result) { outcome->set_value(std::move(result)); });
  return waiting;
}

// What `start` is answered with. Never on a thread that the answer needs.
template <typename T>
Result<T> wait_for(const std::function<void(Done<T>)>& start) {
  return ask_for<T>(start).get();
}

// Puts as many bytes into the writer as it has space for now; how many.
Result<size_t> fill_some(Writer& writer, std::string_view bytes);
// Puts all bytes into the writer, and waits for space where it must.
Status fill(Writer& writer, std::string_view bytes);

// The bytes of an extent. They are ready, so this waits for nothing.
Status copy_bytes(const Extent& extent, uint64_t within, std::span<std::byte> into);

// The bytes of one object, copied. Reads that follow each other share what was brought. One thread at a time.
class WaitingReader {
 public:
  WaitingReader(Objects& objects, ObjectPointer object, Comparing comparing = Comparing::kAsBucketSays);
  // With a reader of the object; none where it is inline.
  WaitingReader(ObjectPointer object, std::unique_ptr<Reader> reader)
      : object_(std::move(object)), reader_(std::move(reader)) {}

  // As many bytes from `offset` on as there is room for; fewer only at the object's end.
  Result<size_t> read(uint64_t offset, std::span<std::byte> into);
  // The same as a string.
  Result<std::string> read(uint64_t offset, uint64_t size);

 private:
  Status bring(uint64_t offset, uint64_t size);

  const ObjectPointer object_;
  const std::unique_ptr<Reader> reader_;  // none where the object is inline
  Extent extent_;
  uint64_t begin_ = 0;  // of the extent, in the object
};

}  // namespace millrace::store
