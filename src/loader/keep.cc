// Implements PixelKeep: images by sample, spread over several locks so that threads seldom wait for each
// other.
#include "loader/keep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <ranges>

#include "base/hash.h"
#include "base/mutex.h"
#include "base/random.h"

namespace millrace::loader {

uint64_t pixels_identity(const Catalogue& catalogue, const Recipe& recipe, uint32_t max_side) {
  std::string told = fmt::format("{} {}", catalogue.identity(), max_side);
  for (size_t i = 0; i < recipe.fields.size(); ++i) {
    const FieldSpec& field = recipe.fields[i];
    if (field.kind != FieldKind::kImage) continue;
    told += fmt::format(" {}:{}:{}", i, fmt::join(field.any_of, ";"), decode::count(field.image.channels));
  }
  return hash64(told);
}

Result<std::shared_ptr<PixelKeep>> PixelKeep::open(const Options& options) {
  std::shared_ptr<PixelKeep> keep(new PixelKeep(options));
  if (options.directory.empty()) return keep;
  keep->file_ = MR_TRY(PixelFile::open({options.directory, options.identity, options.most_bytes}));
  // The latest first: an image that was found damaged was added again.
  for (const PixelRecord& record : keep->file_->found() | std::views::reverse) {
    keep->insert({record.sample, record.field},
                 {nullptr, keep->file_->pixels(record), record.size, record.channels, record.pixels_hash});
  }
  return keep;
}

void PixelKeep::insert(const Name& name, Kept kept) {
  const uint64_t size = kept.byte_count();
  Part& part = part_of(name);
  const MutexLock lock(part.mutex);
  if (part.kept.emplace(name, std::move(kept)).second) bytes_ += size;
}

size_t PixelKeep::NameHash::operator()(const Name& name) const {
  return mix(mix(name.sample.shard + (static_cast<uint64_t>(name.field) << 32)) + name.sample.ordinal);
}

uint64_t PixelKeep::images() const {
  uint64_t total = 0;
  for (const Part& part : parts_) {
    const MutexLock lock(part.mutex);
    total += part.kept.size();
  }
  return total;
}

std::optional<decode::PixelsView> PixelKeep::find(SampleRef sample, size_t field) {
  const Name name{sample, field};
  Part& part = part_of(name);
  const MutexLock lock(part.mutex);
  const auto found = part.kept.find(name);
  if (found == part.kept.end()) return std::nullopt;
  Kept& kept = found->second;
  if (kept.hash && hash64({reinterpret_cast<const char*>(kept.bytes), kept.byte_count()}) != *kept.hash) {
    // Its head came to the drive, its pixels did not. It will be decoded and kept anew.
    bytes_ -= kept.byte_count();
    part.kept.erase(found);
    return std::nullopt;
  }
  kept.hash.reset();
  return decode::PixelsView{kept.bytes, kept.size, kept.channels,
                            kept.size.width * decode::count(kept.channels)};
}

void PixelKeep::keep(SampleRef sample, size_t field, const decode::Pixels& pixels) {
  const uint64_t size = pixels.byte_count();
  Kept kept{nullptr, nullptr, pixels.size(), pixels.channels(), std::nullopt};
  if (file_) {
    kept.bytes = file_->add(sample, static_cast<uint32_t>(field), pixels);
    if (kept.bytes == nullptr) return;
  } else {
    if (promised_.fetch_add(size) + size > options_.most_bytes) {
      promised_ -= size;
      return;
    }
    kept.own = std::make_unique_for_overwrite<uint8_t[]>(size);
    std::memcpy(kept.own.get(), pixels.row(0), size);
    kept.bytes = kept.own.get();
  }
  // Another thread may have been quicker; its pixels are the same.
  insert({sample, field}, std::move(kept));
}

}  // namespace millrace::loader
