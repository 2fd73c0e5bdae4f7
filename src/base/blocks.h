// Blocks: memory for bytes on their way through a node, used again while it is warm.
//
// Memory that is fresh from the system costs a page fault for every 4 KiB, and a string clears it before it
// is written: for cells of a mebibyte that took more time than sending them. A block is neither cleared nor
// given back to the system at once. Blocks of kBytes are kept, at most kMostKept; others are made and freed.
//
// No limit is enforced here: whoever takes blocks charges a budget (base/buffer.h). Any thread. A copy of a
// Blocks gives out the same ones. A block may outlive all of them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "base/bytes.h"

namespace millrace {

// Memory that one writer fills, then Bytes that many read.
class Block {
 public:
  Block() = default;
  Block(std::shared_ptr<std::byte> memory, size_t size) : memory_(std::move(memory)), size_(size) {}

  explicit operator bool() const { return memory_ != nullptr; }
  size_t size() const { return size_; }
  std::span<std::byte> span() const { return {memory_.get(), size_}; }
  std::string_view view(size_t bytes) const { return {reinterpret_cast<const char*>(memory_.get()), bytes}; }
  // The first bytes. Nobody writes into them from now on.
  Bytes share(size_t bytes) const { return {memory_, view(bytes)}; }

 private:
  std::shared_ptr<std::byte> memory_;
  size_t size_ = 0;
};

class Blocks {
 public:
  static constexpr size_t kBytes = (1 << 20) + 4096;  // a cell, and what a message says of it
  static constexpr size_t kLeastKept = 512 << 10;     // smaller ones would hold much more than is asked for
  static constexpr size_t kMostKept = 32;

  Blocks();

  // Of at least so many bytes, which may hold anything.
  Block take(size_t bytes);
  // That wait to be used again.
  size_t kept() const;

 private:
  class Shelf;
  std::shared_ptr<Shelf> shelf_;
};

}  // namespace millrace
