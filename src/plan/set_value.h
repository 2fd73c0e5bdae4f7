// Changes one value of a plan by its name, for --set and --vary.
#pragma once

#include <string_view>

#include "base/result.h"
#include "base/toml_document.h"

namespace millrace::plan {

// store.shelf.drives=24: the table [[store]] whose name is shelf; workload.fraction=0.3;
// part.nvme.read=5GB/s.
Status set_value(TomlDocument& document, std::string_view key, std::string_view text);

}  // namespace millrace::plan
