// Encodes spots and reads samples at them.
#include "shard/reread.h"

#include <sys/stat.h>

#include <cstring>
#include <optional>

#include "base/memory_info.h"

namespace millrace::shard {

namespace {

constexpr size_t kMostOpen = 256;

std::optional<Spot> spot_of(const RunRecord& record) {
  if (record.blocks.size() != sizeof(Spot)) return std::nullopt;
  Spot spot;
  std::memcpy(&spot, record.blocks.data(), sizeof spot);
  return spot;
}

}  // namespace

Reread choose_reread(const std::vector<std::string>& shards) {
  uint64_t bytes = 0;
  for (const std::string& name : shards) {
    struct stat found{};
    if (::stat(name.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return Reread::kNever;
    bytes += static_cast<uint64_t>(found.st_size);
  }
  // The output goes through the page cache too.
  return bytes <= available_memory() / 4 ? Reread::kAlways : Reread::kNever;
}

uint64_t sample_bytes(const RunRecord& record) {
  const std::optional<Spot> spot = spot_of(record);
  return spot ? spot->bytes : record.blocks.size();
}

Result<File*> SampleFinder::open(uint64_t shard) {
  files_.resize(shards_.size());
  File& file = files_.at(shard);
  if (file.is_open()) return &file;
  if (open_files_ == kMostOpen) {
    for (File& other : files_) other = File();
    open_files_ = 0;
  }
  file = MR_TRY(File::open_read(shards_[shard]));
  ++open_files_;
  return &file;
}

Result<std::string_view> SampleFinder::read(const Spot& spot, uint64_t shard) {
  File* file = MR_TRY(open(shard));
  if (blocks_.size() < spot.bytes) blocks_.resize(spot.bytes);
  const auto into = std::as_writable_bytes(std::span(blocks_)).first(spot.bytes);
  if (MR_TRY(file->read_at(spot.offset, into)) < into.size())
    return make_error(Code::kTruncated, "{} became shorter while it was being read", file->name());
  return std::string_view(blocks_).substr(0, spot.bytes);
}

Result<const tar::Sample*> SampleFinder::find(const RunRecord& record) {
  const std::optional<Spot> spot = spot_of(record);
  if (!spot) return parser_.parse(record.blocks);
  const std::string_view blocks = MR_TRY(read(*spot, record.place.shard));
  auto sample = parser_.parse(blocks);
  if (!sample || (*sample)->key_hash != spot->key_hash) {
    return make_error(Code::kCorrupt,
                      "{} changed while it was being read: at byte {} another sample lies now",
                      shards_[record.place.shard], spot->offset)
        .with_hint("leave the inputs alone until the end, or say --reread never");
  }
  return sample;
}

}  // namespace millrace::shard
