// Images by sample, spread over parts so that threads seldom meet.
#include "loader/keep.h"

#include <cstring>

#include "base/random.h"

namespace millrace::loader {

size_t PixelKeep::NameHash::operator()(const Name& name) const {
  return mix(mix(name.sample.shard + (static_cast<uint64_t>(name.field) << 32)) + name.sample.ordinal);
}

uint64_t PixelKeep::images() const {
  uint64_t total = 0;
  for (const Part& part : parts_) {
    std::lock_guard lock(part.mutex);
    total += part.kept.size();
  }
  return total;
}

std::optional<decode::PixelsView> PixelKeep::find(SampleRef sample, size_t field) const {
  const Name key{sample, field};
  const Part& part = parts_[NameHash()(key) % parts_.size()];
  std::lock_guard lock(part.mutex);
  const auto found = part.kept.find(key);
  if (found == part.kept.end()) return std::nullopt;
  const Kept& kept = found->second;
  return decode::PixelsView{kept.bytes.get(), kept.size, kept.channels,
                            kept.size.width * decode::count(kept.channels)};
}

void PixelKeep::keep(SampleRef sample, size_t field, const decode::Pixels& pixels) {
  const uint64_t size = pixels.byte_count();
  if (bytes_.fetch_add(size) + size > most_bytes_) {
    bytes_ -= size;
    return;
  }
  Kept kept{std::make_unique_for_overwrite<uint8_t[]>(size), pixels.size(), pixels.channels()};
  std::memcpy(kept.bytes.get(), pixels.row(0), size);
  const Name key{sample, field};
  Part& part = parts_[NameHash()(key) % parts_.size()];
  std::lock_guard lock(part.mutex);
  if (!part.kept.emplace(key, std::move(kept)).second) bytes_ -= size;
}

}  // namespace millrace::loader
