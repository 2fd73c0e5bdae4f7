// Batch: the fields of some samples, collated, each field in one piece of 64-byte aligned memory.
//
// Filled by many threads, each writing its own slots; read by whoever took it. The memory goes back to its
// pool when the batch dies, whichever thread that happens in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "decode/array.h"
#include "decode/transform.h"
#include "loader/chunk.h"
#include "loader/order.h"
#include "loader/recipe.h"

namespace millrace::loader {

struct Piece {
  uint64_t offset = 0;  // in the column's memory
  uint64_t size = 0;
};

// A .npy field: what its header said, and where its elements lie in the column's memory.
struct ArrayPlace {
  decode::DType dtype = decode::DType::kUint8;
  std::vector<uint64_t> shape;
  bool fortran = false;
  Piece elements;
};

struct Column {
  FieldKind kind = FieldKind::kBytes;
  // Dense (images of one size, labels, arrays of one shape): `size` items of `item_bytes`, one after the
  // other.
  decode::DType dtype = decode::DType::kUint8;
  std::vector<uint64_t> item_shape;
  size_t item_bytes = 0;  // 0: not dense
  bool is_dense = false;  // arrays that were joined, also empty ones
  MemoryPool::Block memory;
  std::vector<Piece> pieces;                // bytes and arrays: as stored
  std::vector<ArrayPlace> arrays;           // arrays
  std::vector<decode::RaggedImage> images;  // images of their own sizes
  std::vector<std::string> texts;           // keys
};

class Batch {
 public:
  explicit Batch(std::shared_ptr<MemoryPool> pool) : pool_(std::move(pool)) {}
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  uint64_t epoch = 0;
  uint64_t number = 0;  // in its epoch
  uint64_t size = 0;    // samples
  std::vector<Column> columns;
  std::vector<SampleRef> samples;

  MemoryPool& pool() { return *pool_; }
  // Slot `to` becomes a copy of slot `from`.
  void copy_slot(size_t from, size_t to);
  void resize(uint64_t samples);
  // Arrays of one type and shape become one: their elements lie behind each other, without headers and gaps.
  void join_arrays();

 private:
  const std::shared_ptr<MemoryPool> pool_;
};

}  // namespace millrace::loader
