// Reads and writes pax records. The length in front counts itself, which makes writing the harder half.
#include "tar/pax.h"

#include "base/number.h"

namespace millrace::tar {

Result<std::vector<PaxRecord>> parse_pax(std::string_view text) {
  std::vector<PaxRecord> records;
  const std::string_view whole = text;
  while (!text.empty()) {
    // Some writers pad the records with NULs up to the block.
    if (text[0] == 0) break;
    const auto bad = [&](std::string_view why) {
      return make_error(Code::kCorrupt, "pax record at byte {} {}", text.data() - whole.data(), why);
    };
    std::string_view behind = text;
    const auto length = take_number<uint64_t>(behind);
    const size_t digits = text.size() - behind.size();
    if (!length) return bad("has no length");
    if (*length > text.size()) return bad("is longer than its block");
    if (*length < digits + 3 || text[digits] != ' ') return bad("has a wrong length");
    if (text[*length - 1] != '\n') return bad("does not end with a newline");
    const std::string_view body = text.substr(digits + 1, *length - digits - 2);
    const size_t equals = body.find('=');
    if (equals == std::string_view::npos || equals == 0) return bad("has no key");
    records.push_back({body.substr(0, equals), body.substr(equals + 1)});
    text.remove_prefix(*length);
  }
  return records;
}

void append_pax(std::string& text, std::string_view key, std::string_view value) {
  const size_t body = key.size() + value.size() + 3;  // space, equals sign, newline
  size_t length = body + 1;
  while (body + std::to_string(length).size() != length) length = body + std::to_string(length).size();
  text += std::to_string(length);
  text += ' ';
  text += key;
  text += '=';
  text += value;
  text += '\n';
}

}  // namespace millrace::tar
