// A bucket and its settings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/upstream_settings.h"

namespace millrace::store {

enum class Durability : uint8_t { kFlush, kOs };
enum class EtagMode : uint8_t { kAuto, kMd5, kFast };
// When checksums are compared: when a block is first read after it came from the drive, on every read, or by
// the scrubber alone. The numbers are those of the bucket's record.
enum class Compare : uint8_t { kFirst = 0, kRead = 1, kScrub = 2 };

// How many slices an object has: any k of k + m give it. Copies have k = 1.
struct Redundancy {
  uint8_t k = 1;
  uint8_t m = 0;
  uint8_t floor = 1;   // a write with fewer holders is refused
  uint32_t since = 0;  // the epoch of a cluster before which no object was written with it

  size_t slices() const { return size_t{k} + m; }
  // Of small objects: k tiny slices cost more than copies. As many losses are survived.
  Redundancy small() const { return {1, m, static_cast<uint8_t>(floor - k + 1), since}; }
  bool operator==(const Redundancy&) const = default;
};

// What all objects of a bucket may take together; 0: no limit.
struct Quota {
  uint64_t bytes = 0;
  uint64_t objects = 0;

  bool is_set() const { return bytes > 0 || objects > 0; }
  bool operator==(const Quota&) const = default;
};

struct BucketSettings {
  Durability durability = Durability::kFlush;
  EtagMode etag = EtagMode::kAuto;
  Compare verify = Compare::kFirst;
  bool anonymous_read = false;
  Redundancy redundancy{};  // of a cluster's buckets; the store of one machine knows 1+0 alone
  Quota quota{};
  std::optional<UpstreamSettings> upstream{};  // the storage that the bucket is in front of
  // Names of transforms that keys without the right `admin` may use here, separated by commas; "*": all;
  // empty: none.
  std::string transforms{};
  bool operator==(const BucketSettings&) const = default;
};

// Whether the setting names it.
bool allows_transform(const BucketSettings& settings, std::string_view transform);

struct Bucket {
  std::string name;
  int64_t created_ms = 0;
  uint64_t version = 0;
  BucketSettings settings;
  bool closing = false;  // of a cluster: it is being removed, and nothing new is put into it
};

// Holds slices of a cluster's objects. No client can name it.
inline constexpr std::string_view kSliceBucket = "_slices";

// 1 to 63 of a-z 0-9 . -; kS3: 3 at least, and none of the forms that S3 keeps for addresses and for itself.
enum class NameRule : uint8_t { kShort, kS3 };
Status check_bucket_name(std::string_view name, NameRule rule);
// 1 to 1024 bytes of UTF-8.
Status check_key(std::string_view key);

}  // namespace millrace::store
