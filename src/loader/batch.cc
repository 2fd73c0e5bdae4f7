// Slots moved and memory given back.
#include "loader/batch.h"

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
