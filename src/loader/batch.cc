// Implements Batch: moves slots and gives memory back to the pool.
#include "loader/batch.h"

#include <algorithm>
#include <cstring>

namespace millrace::loader {

Batch::~Batch() {
  for (Column& column : columns) {
    if (column.memory.memory) pool_->give_back(std::move(column.memory));
  }
}

void Batch::copy_slot(size_t from, size_t to) {
  for (Column& column : columns) {
    std::byte* const memory = column.memory.memory.get();
    if (column.item_bytes > 0)
      std::memcpy(memory + to * column.item_bytes, memory + from * column.item_bytes, column.item_bytes);
    if (!column.pieces.empty()) column.pieces[to] = column.pieces[from];
    if (!column.arrays.empty()) column.arrays[to] = column.arrays[from];
    if (!column.images.empty()) column.images[to] = column.images[from];
    if (!column.texts.empty()) column.texts[to] = column.texts[from];
  }
  samples[to] = samples[from];
}

namespace {

bool are_alike(const std::vector<ArrayPlace>& arrays) {
  return std::all_of(arrays.begin(), arrays.end(), [&](const ArrayPlace& one) {
    return one.dtype == arrays[0].dtype && one.shape == arrays[0].shape && !one.fortran;
  });
}

// Each lies behind the end of where it goes, and nothing that is still to be moved is written over.
bool can_move_in_place(const std::vector<ArrayPlace>& arrays) {
  return std::is_sorted(arrays.begin(), arrays.end(), [](const ArrayPlace& a, const ArrayPlace& b) {
    return a.elements.offset < b.elements.offset;
  });
}

}  // namespace

void Batch::join_arrays() {
  for (Column& column : columns) {
    const std::vector<ArrayPlace>& arrays = column.arrays;
    if (column.kind != FieldKind::kArray || arrays.empty() || !are_alike(arrays)) continue;
    const uint64_t bytes = arrays[0].elements.size;
    MemoryPool::Block joined;
    const bool in_place = can_move_in_place(arrays);
    if (!in_place) joined = pool_->take(bytes * size);
    std::byte* const from = column.memory.memory.get();
    std::byte* const to = in_place ? from : joined.memory.get();
    for (size_t i = 0; i < arrays.size(); ++i) {
      if (bytes > 0) std::memmove(to + i * bytes, from + arrays[i].elements.offset, bytes);
    }
    if (!in_place) {
      pool_->give_back(std::move(column.memory));
      column.memory = std::move(joined);
    }
    column.dtype = arrays[0].dtype;
    column.item_shape = arrays[0].shape;
    column.item_bytes = bytes;
    column.is_dense = true;
  }
}

void Batch::resize(uint64_t wanted) {
  for (Column& column : columns) {
    if (!column.pieces.empty()) column.pieces.resize(wanted);
    if (!column.arrays.empty()) column.arrays.resize(wanted);
    if (!column.images.empty()) column.images.resize(wanted);
    if (!column.texts.empty()) column.texts.resize(wanted);
  }
  samples.resize(wanted);
  size = wanted;
}

}  // namespace millrace::loader
