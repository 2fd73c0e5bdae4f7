// extract_shard: a shard's files into a directory that they cannot leave.
//
// Names that are absolute or climb with ".." are refused, no link is ever created or followed, and set-user
// bits are dropped. Links and devices in the archive are passed over and counted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "shard/input.h"

namespace millrace::shard {

enum class Existing { kRefuse, kReplace };

struct ExtractOptions {
  InputOptions input;
  std::vector<std::string> fields;  // only these; empty: all files, those of no sample included
  Existing existing = Existing::kRefuse;
  bool dry_run = false;  // names are checked and counted, nothing is written
};

struct ExtractReport {
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t passed_over = 0;  // links, devices
};

Result<ExtractReport> extract_shard(const std::string& shard, const std::string& directory,
                                    const ExtractOptions& options);

}  // namespace millrace::shard
