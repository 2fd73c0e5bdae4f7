// pax extended records: "27 path=some/very/long/name\n", the text inside 'x' and 'g' members.
//
// parse_pax gives views into its input; the caller keeps that alive. Pure; safe from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace::tar {

struct PaxRecord {
  std::string_view key;
  std::string_view value;
};

Result<std::vector<PaxRecord>> parse_pax(std::string_view text);
void append_pax(std::string& text, std::string_view key, std::string_view value);

}  // namespace millrace::tar
