// Names of hidden buckets, uploads and parts.
#include "cluster/hidden_bucket.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/ids.h"
#include "base/number.h"
#include "cluster/places.h"
#include "net/digest.h"

namespace millrace::cluster {

namespace {

constexpr unsigned kRandomBits = 48;
constexpr size_t kFileDigits = 16;

bool is_hex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

std::string uploads_of(std::string_view bucket) {
  return fmt::format("{}/uploads", bucket);
}

std::string parts_of(std::string_view bucket) {
  return fmt::format("{}/parts", bucket);
}

std::string indexes_of(std::string_view bucket) {
  return fmt::format("{}/indexes", bucket);
}

std::string next_hidden(std::string_view name) {
  const std::string_view bucket = real_bucket(name);
  if (name == bucket) return indexes_of(bucket);
  if (name == indexes_of(bucket)) return parts_of(bucket);
  if (name == parts_of(bucket)) return uploads_of(bucket);
  return "";
}

std::string index_key(const store::Record& shard) {
  return net::to_hex(shard.spread.write_id);
}

bool keeps_index(const store::Record& record) {
  return record.shard == store::ShardState::kReady && record.size > kCopiedBytes;
}

std::string_view real_bucket(std::string_view name) {
  return name.substr(0, name.find('/'));
}

std::string target_of(const store::Record& record) {
  const auto found = std::ranges::find(record.headers, kTargetHeader, &store::NameValue::first);
  return found == record.headers.end() ? "" : found->second;
}

std::string make_upload_id() {
  return make_id() + make_id();
}

bool is_upload_id(std::string_view id) {
  return id.size() == kUploadIdBytes && is_hex(id);
}

uint64_t make_part_file(unsigned number) {
  const std::string bytes = net::random_bytes(sizeof(uint64_t));
  uint64_t random = 0;
  std::memcpy(&random, bytes.data(), sizeof(random));
  return (uint64_t{number} << kRandomBits) | (random & ((uint64_t{1} << kRandomBits) - 1));
}

unsigned part_number_of(uint64_t file) {
  return static_cast<unsigned>(file >> kRandomBits);
}

std::string part_key(std::string_view upload, uint64_t file) {
  return fmt::format("{}/{:016x}", upload, file);
}

std::optional<PartName> parse_part_key(std::string_view key) {
  if (key.size() != kUploadIdBytes + 1 + kFileDigits || key[kUploadIdBytes] != '/') return std::nullopt;
  const std::string_view upload = key.substr(0, kUploadIdBytes);
  const std::string_view digits = key.substr(kUploadIdBytes + 1);
  if (!is_upload_id(upload) || !is_hex(digits)) return std::nullopt;
  const auto file = parse_number<uint64_t>(digits, 16);
  if (!file) return std::nullopt;
  return PartName{std::string(upload), *file};
}

}  // namespace millrace::cluster
