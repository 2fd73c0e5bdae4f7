// The rules for names, values and leases that every registry keeps alike.
#include "cluster/registry.h"

#include <algorithm>

#include "base/text.h"

namespace millrace::cluster {

namespace {

bool is_name_letter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || std::string_view("-._~/").find(letter) != std::string_view::npos;
}

}  // namespace

Status check_prefix(std::string_view prefix) {
  if (prefix.size() <= kMostNameBytes && std::ranges::all_of(prefix, is_name_letter)) return {};
  return make_error(Code::kInvalid, "{} cannot be a name in the registry", printable(prefix, 300))
      .with_hint(fmt::format("names have up to {} of A-Z a-z 0-9 - . _ ~ /", kMostNameBytes));
}

Status check_name(std::string_view name) {
  if (name.empty()) return make_error(Code::kInvalid, "an entry of the registry needs a name");
  return check_prefix(name);
}

Status check_value(std::string_view name, std::string_view value) {
  if (value.size() <= kMostValueBytes) return {};
  return make_error(Code::kTooLarge, "{} has {} bytes; the registry takes {}", name, value.size(),
                    kMostValueBytes);
}

Status check_ttl(std::chrono::milliseconds ttl) {
  if (ttl >= kShortestLease && ttl <= kLongestLease) return {};
  return make_error(Code::kInvalid, "a lease of {} ms is outside of {} to {} ms", ttl.count(),
                    kShortestLease.count(), kLongestLease.count());
}

}  // namespace millrace::cluster
