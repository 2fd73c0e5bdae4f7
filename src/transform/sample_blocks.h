// New samples as blocks of tar.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "tar/sample.h"

namespace millrace::transform {

struct MadeField {
  std::string_view field;
  std::string_view bytes;
};

// Under fixed owner, mode and time. kInvalid where a reader would not make this key and field of the name,
// where a field is given twice, or where there is none.
Status append_sample(std::string& into, std::string_view key, std::span<const MadeField> fields);

}  // namespace millrace::transform
