// POST bucket?prefetch: has objects of a bucket in front of other storage fetched before they are read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/call.h"

namespace millrace::gateway {

inline constexpr size_t kMaxPrefetchKeys = 1000;

// {"keys": ["train-000000.tar", …]}
Result<std::vector<std::string>> parse_prefetch(std::string_view text);

// The answer says how far each object is; whoever asks again sees progress.
net::Task<Status> prefetch_objects(Call& call);

}  // namespace millrace::gateway
