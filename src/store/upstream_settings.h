// UpstreamSettings: the storage that a bucket is in front of, as the bucket's settings say it.
//
// Values only; upstream/ opens what they name. Keys are among them: what is shown to people or written into a
// log is upstream_json(), never stored_upstream_json().
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace millrace::store {

// kNone: the bucket takes no writes. kThrough: a write is acknowledged when the upstream has it.
enum class UpstreamWrites : uint8_t { kNone, kThrough };

struct UpstreamSettings {
  static constexpr size_t kMaxPins = 64;
  static constexpr uint32_t kMostCheckSeconds = 366 * 86400;

  std::string url;       // s3://bucket/prefix, mr://bucket/prefix, https://host/path
  std::string endpoint;  // of s3 and mr; empty: the scheme's own
  std::string region;
  std::string access_key;  // empty: requests are not signed
  std::string secret_key;
  std::string session_token;
  UpstreamWrites writes = UpstreamWrites::kNone;
  std::optional<uint32_t> check_seconds;  // none: what is stored is never compared with the upstream again
  std::vector<std::string> pinned;        // prefixes of keys that are not evicted
  bool operator==(const UpstreamSettings&) const = default;
};

// Without keys: "signed" says whether there are any.
nlohmann::ordered_json upstream_json(const UpstreamSettings& settings);
// With keys: for the drives and the registry alone.
nlohmann::ordered_json stored_upstream_json(const UpstreamSettings& settings);
// The settings with those changed that the object names. One with a "url" begins anew, so that keys are never
// sent to another place than the one they were given for. "none" and null: no upstream.
Result<std::optional<UpstreamSettings>> change_upstream(const std::optional<UpstreamSettings>& before,
                                                        const nlohmann::ordered_json& json);

}  // namespace millrace::store
