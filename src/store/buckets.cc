// Names, records and the snapshot of buckets.
#include "store/buckets.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/crc.h"
#include "base/mutex.h"
#include "base/text.h"
#include "store/coding.h"
#include "store/record.h"

namespace millrace::store {

namespace {

using Json = nlohmann::ordered_json;

constexpr uint8_t kFormat = 1;
// The same, and the upstream's settings as JSON (empty: none) and the quota.
constexpr uint8_t kFormatWithMore = 2;
// The same, and the transforms that are allowed.
constexpr uint8_t kFormatWithTransforms = 3;

bool is_word(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9');
}

constexpr std::string_view kReservedStarts[] = {"xn--", "sthree-", "amzn-s3-demo-"};
constexpr std::string_view kReservedEnds[] = {"-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"};

// What S3 asks of a name beyond its letters.
Status check_s3_name(std::string_view name) {
  const auto bad = [&](std::string_view why) {
    return make_error(Code::kInvalid, "bucket name \"{}\": {}", name, why)
        .with_hint("millrace up --set short_names=on allows it");
  };
  if (name.size() < 3) return bad("it must have 3 to 63 characters");
  if (name.find_first_not_of("0123456789.") == std::string_view::npos && std::ranges::count(name, '.') == 3)
    return bad("it has the form of an address");
  if (name.find(".-") != std::string_view::npos || name.find("-.") != std::string_view::npos)
    return bad("no dash beside a dot");
  for (const std::string_view start : kReservedStarts) {
    if (name.starts_with(start)) return bad(fmt::format("names that begin with {} are not allowed", start));
  }
  for (const std::string_view end : kReservedEnds) {
    if (name.ends_with(end)) return bad(fmt::format("names that end with {} are not allowed", end));
  }
  return {};
}

}  // namespace

Status check_bucket_name(std::string_view name, NameRule rule) {
  if (name.empty() || name.size() > 63) {
    return make_error(Code::kInvalid, "bucket name \"{}\": it must have 1 to 63 characters", name);
  }
  char before = '.';
  for (const char letter : name) {
    if (!is_word(letter) && letter != '-' && letter != '.') {
      return make_error(Code::kInvalid, "bucket name \"{}\": only a-z, 0-9, . and - are allowed", name);
    }
    if (letter == '.' && before == '.') {
      return make_error(Code::kInvalid, "bucket name \"{}\": no dot at the start or behind another", name);
    }
    before = letter;
  }
  if (!is_word(name.front()) || !is_word(name.back())) {
    return make_error(Code::kInvalid, "bucket name \"{}\": it must begin and end with a letter or digit",
                      name);
  }
  return rule == NameRule::kS3 ? check_s3_name(name) : Status();
}

Status check_key(std::string_view key) {
  if (key.empty()) return make_error(Code::kInvalid, "the key is empty");
  if (key.size() > kMaxKeyBytes) {
    return make_error(Code::kInvalid, "the key has {} bytes, {} are allowed", key.size(), kMaxKeyBytes);
  }
  if (!is_utf8(key) || key.find('\0') != std::string_view::npos)
    return make_error(Code::kInvalid, "the key is not UTF-8 without NUL");
  return {};
}

bool allows_transform(const BucketSettings& settings, std::string_view transform) {
  std::string_view rest = settings.transforms;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view name = rest.substr(0, comma);
    if (name == "*" || name == transform) return true;
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return false;
}

std::string encode_bucket(const BucketRecord& record) {
  Encoder out;
  const BucketSettings& settings = record.bucket.settings;
  const bool has_transforms = !settings.transforms.empty();
  const bool has_more = settings.upstream || settings.quota.is_set() || has_transforms;
  out.u8(has_transforms ? kFormatWithTransforms : has_more ? kFormatWithMore : kFormat);
  out.u8(record.removed ? 1 : 0);
  out.u64(record.bucket.version);
  out.u64(static_cast<uint64_t>(record.bucket.created_ms));
  out.text(record.bucket.name);
  out.u8(static_cast<uint8_t>(record.bucket.settings.durability));
  out.u8(static_cast<uint8_t>(record.bucket.settings.etag));
  out.u8(static_cast<uint8_t>(record.bucket.settings.verify));
  out.u8(record.bucket.settings.anonymous_read ? 1 : 0);
  if (has_more) {
    out.text(settings.upstream ? stored_upstream_json(*settings.upstream).dump() : "");
    out.u64(settings.quota.bytes);
    out.u64(settings.quota.objects);
  }
  if (has_transforms) out.text(settings.transforms);
  out.u32(crc32c(out.bytes()));
  return std::move(out).take();
}

Result<BucketRecord> decode_bucket(std::string_view encoded) {
  Decoder in(encoded);
  BucketRecord record;
  const uint8_t format = in.u8();
  record.removed = in.u8() != 0;
  record.bucket.version = in.u64();
  record.bucket.created_ms = static_cast<int64_t>(in.u64());
  record.bucket.name = in.text();
  const uint8_t durability = in.u8();
  const uint8_t etag = in.u8();
  const uint8_t verify = in.u8();
  record.bucket.settings.anonymous_read = in.u8() != 0;
  std::string upstream;
  if (format == kFormatWithMore || format == kFormatWithTransforms) {
    upstream = in.text();
    record.bucket.settings.quota = {in.u64(), in.u64()};
  }
  if (format == kFormatWithTransforms) record.bucket.settings.transforms = in.text();
  const size_t body = encoded.size() - in.left();
  const uint32_t crc = in.u32();
  if (!in.good() || in.left() != 0) return make_error(Code::kCorrupt, "bucket record: it is cut short");
  if (format < kFormat || format > kFormatWithTransforms)
    return make_error(Code::kUnsupported, "bucket record: unknown format {}", format);
  if (crc != crc32c(encoded.substr(0, body))) {
    return make_error(Code::kCorrupt, "bucket record: its checksum is wrong");
  }
  if (durability > 1 || etag > 2 || verify > 2)
    return make_error(Code::kCorrupt, "bucket record: unknown setting");
  record.bucket.settings.durability = static_cast<Durability>(durability);
  record.bucket.settings.etag = static_cast<EtagMode>(etag);
  record.bucket.settings.verify = static_cast<Compare>(verify);
  if (!upstream.empty()) {
    record.bucket.settings.upstream =
        MR_TRY(change_upstream({}, Json::parse(upstream, nullptr, false)).within("bucket record"));
  }
  return record;
}

std::shared_ptr<const Bucket> BucketTable::find(std::string_view name) const {
  const std::shared_ptr<const Map> map = map_.load();
  const auto found = map->find(name);
  return found == map->end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<const Bucket>> BucketTable::all() const {
  const std::shared_ptr<const Map> map = map_.load();
  std::vector<std::shared_ptr<const Bucket>> buckets;
  buckets.reserve(map->size());
  for (const auto& [name, bucket] : *map) buckets.push_back(bucket);
  return buckets;
}

Compare BucketTable::verify_of(std::string_view name) const {
  if (!any_other_verify_.load(std::memory_order_relaxed)) return Compare::kFirst;
  const auto bucket = find(name);
  return bucket == nullptr ? Compare::kFirst : bucket->settings.verify;
}

void BucketTable::learn(const BucketRecord& record) {
  const MutexLock lock(mutex_);
  BucketRecord& known = records_[record.bucket.name];
  if (known.bucket.version >= record.bucket.version && known.bucket.version != 0) return;
  known = record;
  publish();
}

std::vector<BucketRecord> BucketTable::records() const {
  const MutexLock lock(mutex_);
  std::vector<BucketRecord> records;
  for (const auto& [name, record] : records_) records.push_back(record);
  return records;
}

void BucketTable::publish() {
  auto map = std::make_shared<Map>();
  bool other = false;
  for (const auto& [name, record] : records_) {
    if (record.removed) continue;
    map->emplace(name, std::make_shared<const Bucket>(record.bucket));
    other = other || record.bucket.settings.verify != Compare::kFirst;
  }
  map_.store(std::move(map));
  any_other_verify_.store(other, std::memory_order_relaxed);
}

}  // namespace millrace::store
