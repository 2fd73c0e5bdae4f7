// scan_shard: what is in a shard, from its headers alone.
//
// Data is passed over (by seeking, where the input allows), so any size of member needs the same memory.
// Faults are marked on the groups, not errors; damage is an error. For ls, stat and extract.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "shard/input.h"
#include "tar/group.h"

namespace millrace::shard {

struct ScanCalls {
  std::function<Status(const tar::Member&)> member;  // every member, in order; may be empty
  std::function<Status(const tar::Group&)> sample;   // may be empty
};

struct ScanReport {
  uint64_t samples = 0;
  uint64_t members = 0;
  uint64_t loose_members = 0;
};

Result<ScanReport> scan_shard(const std::string& name, InputOptions options, const ScanCalls& calls);

}  // namespace millrace::shard
