// Url: an address taken apart, and percent-encoding. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace millrace::net {

struct Url {
  std::string scheme;  // lower case: http, https, s3, mr, mr+ALIAS
  std::string host;    // without brackets; the bucket for s3 and mr; of an alias alone it is empty
  uint16_t port = 0;   // 0: the scheme's own
  std::string path;    // as written, percent-encoded, "/" at least for http
  std::string query;   // as written, without "?"
  std::string text() const;
};
Result<Url> parse_url(std::string_view text);
bool is_url(std::string_view text);  // has a scheme that we fetch by

// Unreserved characters (A-Z a-z 0-9 - . _ ~) stay; kPath also keeps "/".
enum class Encode { kAll, kPath };
std::string percent_encode(std::string_view bytes, Encode what);
// An error for "%" without two hex digits. "+" stays "+".
Result<std::string> percent_decode(std::string_view text);

// The same with "+" as a blank: queries, and names in headers that S3 reads like them.
Result<std::string> decode_form(std::string_view text);

using QueryItem = std::pair<std::string, std::string>;
// Decoded, in the order of the text; "a" without "=" has an empty value.
Result<std::vector<QueryItem>> parse_query(std::string_view query);

}  // namespace millrace::net
