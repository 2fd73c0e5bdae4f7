// Implements Shelf: finds a chunk that is held, or asks for it.
#include "loader/shelf.h"

namespace millrace::loader {

Element Shelf::take(SampleRef sample) {
  const Shard& shard = catalogue_.shards()[sample.shard];
  if (supply_.has_kept(sample)) return kept_sample(catalogue_, sample);
  if (limits_.most_bytes == 0 || is_compressed(shard)) return fetch_sample(catalogue_, sample, supply_);
  const auto [first, end] = samples_around(shard, sample.ordinal, limits_.chunk_bytes);
  const Name name{sample.shard, first};
  const auto [found, is_new] = held_.try_emplace(name);
  Held& held = found->second;
  if (is_new) {
    held.stretch = stretch_of(catalogue_, {sample.shard, first}, end - first);
    held.chunk = std::make_shared<Chunk>(supply_.pool);
    supply_.fetcher.fetch(held.stretch, held.chunk);
    bytes_ += held.stretch.size;
  } else {
    by_use_.erase(held.used);
  }
  held.used = ++uses_;
  by_use_.emplace(held.used, name);
  const tar::Index::Range range = shard.range(sample.ordinal);
  Element element{held.chunk, range.offset - held.stretch.offset, range.size, sample, {}, 0, {}};
  put_away();
  return element;
}

// Elements that are under way keep what they need.
void Shelf::put_away() {
  while (bytes_ > limits_.most_bytes) {
    const auto oldest = by_use_.begin();
    const auto found = held_.find(oldest->second);
    bytes_ -= found->second.stretch.size;
    held_.erase(found);
    by_use_.erase(oldest);
  }
}

}  // namespace millrace::loader
