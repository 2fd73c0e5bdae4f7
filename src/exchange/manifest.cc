// Reads and writes manifests: fixed little-endian rows between a header and a hash of everything.
#include "exchange/manifest.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "base/random.h"

namespace millrace::exchange {

namespace {

constexpr char kMagic[8] = {'M', 'R', 'P', 'L', 'S', '0', '0', '1'};

struct Header {
  char magic[8];
  uint32_t rank;
  uint32_t world;
  uint64_t epoch;
  uint32_t generation;
  uint32_t redeals;
  uint64_t samples;
  uint32_t classes;
  uint32_t segments;
  uint64_t records;
  uint64_t class_name_bytes;
};
static_assert(sizeof(Header) == 64 && sizeof(Record) == 48 && sizeof(Segment) == 16);

template <typename T>
void append(std::string& to, const T* rows, size_t count) {
  to.append(reinterpret_cast<const char*>(rows), count * sizeof(T));
}

template <typename T>
std::vector<T> take_rows(std::string_view& from, uint64_t count) {
  std::vector<T> rows(count);
  if (count > 0) std::memcpy(rows.data(), from.data(), count * sizeof(T));
  from.remove_prefix(count * sizeof(T));
  return rows;
}

Error damaged(std::string_view why) {
  return make_error(Code::kCorrupt, "the manifest is damaged: {}", why);
}

Status check(const Manifest& manifest) {
  if (manifest.world == 0 || manifest.world > kMaxRanks || manifest.rank >= kMaxRanks)
    return damaged("a world that cannot be");
  if (manifest.redeals > manifest.epoch) return damaged("more redeals than epochs");
  if (manifest.classes > kMaxClasses) return damaged("too many classes");
  for (size_t i = 1; i < manifest.segments.size(); ++i) {
    if (manifest.segments[i - 1].number >= manifest.segments[i].number)
      return damaged("segments out of order");
  }
  for (const Record& record : manifest.records) {
    const Segment* segment = manifest.find_segment(record.segment);
    if (segment == nullptr) return damaged("a record of a segment that is not there");
    if (record.offset > segment->bytes || record.bytes > segment->bytes - record.offset)
      return damaged("a record beyond its segment");
    if (record.ordinal >= segment->samples) return damaged("a record beyond its segment's samples");
    if (record.label != kNoLabel && record.label >= manifest.classes) return damaged("a label out of range");
  }
  return {};
}

}  // namespace

const Segment* Manifest::find_segment(uint32_t number) const {
  const auto found = std::ranges::lower_bound(segments, number, {}, &Segment::number);
  return found != segments.end() && found->number == number ? &*found : nullptr;
}

uint64_t Manifest::live_bytes() const {
  uint64_t sum = 0;
  for (const Record& record : records) sum += record.bytes;
  return sum;
}

std::vector<Resident> Manifest::residents() const {
  std::vector<Resident> found;
  found.reserve(records.size());
  for (const Record& record : records) found.push_back(record.resident());
  return found;
}

std::string encode_manifest(const Manifest& manifest) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.rank = manifest.rank;
  header.world = manifest.world;
  header.epoch = manifest.epoch;
  header.generation = manifest.generation;
  header.redeals = manifest.redeals;
  header.samples = manifest.samples;
  header.classes = manifest.classes;
  header.segments = static_cast<uint32_t>(manifest.segments.size());
  header.records = manifest.records.size();
  header.class_name_bytes = manifest.class_names.size();
  std::string bytes;
  append(bytes, &header, 1);
  append(bytes, manifest.segments.data(), manifest.segments.size());
  append(bytes, manifest.records.data(), manifest.records.size());
  bytes += manifest.class_names;
  const uint64_t hash = hash64(bytes);
  append(bytes, &hash, 1);
  return bytes;
}

Result<Manifest> parse_manifest(std::string_view bytes) {
  Header header;
  if (bytes.size() < sizeof header + sizeof(uint64_t)) return damaged("it is cut short");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return damaged("it is none");
  uint64_t hash = 0;
  std::memcpy(&hash, bytes.data() + bytes.size() - sizeof hash, sizeof hash);
  bytes.remove_suffix(sizeof hash);
  if (hash != hash64(bytes)) return damaged("its hash is another");
  bytes.remove_prefix(sizeof header);
  // Each term is bounded by the length before they are added up.
  const uint64_t left = bytes.size();
  if (header.records > left / sizeof(Record) || header.class_name_bytes > left ||
      header.segments * sizeof(Segment) + header.records * sizeof(Record) + header.class_name_bytes != left) {
    return damaged("its length is another");
  }
  Manifest manifest;
  manifest.rank = header.rank;
  manifest.world = header.world;
  manifest.epoch = header.epoch;
  manifest.generation = header.generation;
  manifest.redeals = header.redeals;
  manifest.samples = header.samples;
  manifest.classes = header.classes;
  manifest.segments = take_rows<Segment>(bytes, header.segments);
  manifest.records = take_rows<Record>(bytes, header.records);
  manifest.class_names = bytes;
  MR_TRY(check(manifest));
  return manifest;
}

std::string manifest_name(uint64_t epoch, uint32_t generation) {
  return fmt::format("manifest.{:08}.{}", epoch, generation);
}

std::string segment_name(uint32_t number) {
  return fmt::format("segment-{:08}.tar", number);
}

uint64_t content_share(const std::vector<Record>& records) {
  uint64_t sum = 0;
  for (const Record& record : records)
    sum += mix(mix(record.id) ^ (uint64_t{record.crc} << 32 | record.label));
  return sum;
}

}  // namespace millrace::exchange
