// A bucket's settings as JSON: what administration shows and changes, and what a cluster's registry keeps.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/bucket.h"

namespace millrace::store {

// For people: keys of an upstream are left out.
nlohmann::ordered_json settings_json(const BucketSettings& settings);
// For the registry: whole.
nlohmann::ordered_json stored_settings_json(const BucketSettings& settings);
// The settings with those changed that the object names. kInvalid for a name or a value that is not known.
Result<BucketSettings> change_settings(BucketSettings settings, const nlohmann::ordered_json& json);

// "none", "copies=3" or "4+2". The floor of what is read is k + 1, or k where m is 0.
std::string redundancy_text(const Redundancy& redundancy);
Result<Redundancy> parse_redundancy(std::string_view text);

}  // namespace millrace::store
