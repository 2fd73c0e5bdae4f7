// Which objects or files are meant: one, a glob over a listing, or everything below a prefix.
//
// Brace ranges are expanded before (shard/names.h). `relative` is what is left of a name below the part that
// was written out, and so where it goes below a destination.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "transfer/objects.h"

namespace millrace::transfer {

struct Choice {
  Location location;
  std::string relative;
  uint64_t size = 0;       // 0 also where it is not known yet
  bool is_listed = false;  // it was there a moment ago; otherwise somebody named it
};

bool has_glob(std::string_view key);
// "*" and "?" do not pass "/".
bool matches_glob(std::string_view key, const std::string& pattern);

enum class Recursion { kNo, kYes };
// An error where a glob or a prefix matches nothing. A single object is not looked for.
Result<std::vector<Choice>> choose_objects(const Location& address, Recursion recursion);

// What must not be made a path below a directory: "..", absolute names, empty parts.
Status check_relative(std::string_view relative);

}  // namespace millrace::transfer
