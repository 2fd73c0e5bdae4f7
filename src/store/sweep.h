// Sweep: after an unclean stop, or after a drive failed, files that no record knows are removed, and records
// without file are reported.
//
// Files whose commit is not decided yet are left alone (FileKeeper), so it runs beside everything else.
// Blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "store/core.h"

namespace millrace::store {

struct SweepReport {
  uint64_t files = 0;
  uint64_t removed = 0;
  uint64_t removed_bytes = 0;
  uint64_t missing = 0;
};

// `go_on` is asked now and then.
Result<SweepReport> sweep_drive(Core& core, Drive& drive, const std::function<bool()>& go_on);

// The file's number, from its name; nothing where it is not one of ours.
std::optional<uint64_t> parse_file_name(std::string_view name);

}  // namespace millrace::store
