// Images by sample, spread over parts so that threads seldom meet.
#include "loader/keep.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/random.h"

namespace millrace::loader {

Result<std::shared_ptr<PixelKeep>> PixelKeep::open(const Options& options) {
  std::shared_ptr<PixelKeep> keep(new PixelKeep(options));
  if (!options.directory.empty()) MR_TRY(keep->open_file());
  return keep;
}

Status PixelKeep::open_file() {
  const std::string& directory = options_.directory;
  auto made = File::make_temporary(directory);
  if (!made) return made.take_error().within("decoded images in " + directory);
  file_ = made.take();
  const int descriptor = file_.descriptor();
  if (::ftruncate(descriptor, static_cast<off_t>(options_.most_bytes)) != 0)
    return make_system_error(errno, "sizing " + file_.name());
  // Only read through: a page that was written is there, so no full drive can end the process by a signal.
  void* const mapped = ::mmap(nullptr, options_.most_bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) return make_system_error(errno, "mapping " + file_.name());
  mapping_ = static_cast<uint8_t*>(mapped);
  return {};
}

PixelKeep::~PixelKeep() {
  if (mapping_ != nullptr) ::munmap(mapping_, options_.most_bytes);
}

// Where they are now; nothing when the drive does not take them.
const uint8_t* PixelKeep::write(uint64_t offset, const uint8_t* bytes, uint64_t size) {
  for (uint64_t done = 0; done < size;) {
    const ssize_t now =
        ::pwrite(file_.descriptor(), bytes + done, size - done, static_cast<off_t>(offset + done));
    if (now <= 0 && errno == EINTR) continue;
    if (now <= 0) return nullptr;
    done += static_cast<uint64_t>(now);
  }
  return mapping_ + offset;
}

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
  return decode::PixelsView{kept.bytes, kept.size, kept.channels,
                            kept.size.width * decode::count(kept.channels)};
}

void PixelKeep::keep(SampleRef sample, size_t field, const decode::Pixels& pixels) {
  const uint64_t size = pixels.byte_count();
  const uint64_t offset = end_.fetch_add(size);
  if (offset + size > options_.most_bytes) {
    end_ -= size;
    return;
  }
  Kept kept{nullptr, nullptr, pixels.size(), pixels.channels()};
  if (mapping_ != nullptr) {
    kept.bytes = write(offset, pixels.row(0), size);
    if (kept.bytes == nullptr) return;
  } else {
    kept.own = std::make_unique_for_overwrite<uint8_t[]>(size);
    std::memcpy(kept.own.get(), pixels.row(0), size);
    kept.bytes = kept.own.get();
  }
  const Name key{sample, field};
  Part& part = parts_[NameHash()(key) % parts_.size()];
  std::lock_guard lock(part.mutex);
  if (part.kept.emplace(key, std::move(kept)).second) bytes_ += size;
}

}  // namespace millrace::loader
