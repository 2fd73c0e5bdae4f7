// What a batch says about an entry that is not there. Pure.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "gateway/batch_request.h"

namespace millrace::gateway {

nlohmann::ordered_json missing_json(const BatchEntry& entry, size_t position, const Error& error);
// A member that says so, in the place where the entry would have been: header, JSON and padding.
Result<std::string> report_missing(const nlohmann::ordered_json& json, size_t position);

}  // namespace millrace::gateway
