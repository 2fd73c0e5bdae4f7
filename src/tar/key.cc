// Splits names by the rule of WebDataset's base_plus_ext, ^((?:.*/|)[^.]+)[.]([^/]*)$, without running a
// regular expression.
#include "tar/key.h"

#include <algorithm>

namespace millrace::tar {

namespace {

// The expression accepts a name only if some start s exists (0, or behind a slash with no newline before
// it) such that [s, dot) is not empty and free of dots; the key is always [0, dot).
bool first_dot_accepts(std::string_view name, size_t dot) {
  const size_t newline = name.find('\n');
  const std::string_view reachable = name.substr(0, std::min(newline, dot));
  size_t start = reachable.rfind('/');
  if (start != std::string_view::npos && start + 1 == dot) {
    start = start == 0 ? std::string_view::npos : reachable.rfind('/', start - 1);
  }
  start = start == std::string_view::npos ? 0 : start + 1;
  return start < dot && name.substr(start, dot - start).find('.') == std::string_view::npos;
}

}  // namespace

std::optional<SplitName> split_name(std::string_view name, KeyRule rule) {
  const size_t slash = name.rfind('/');
  const size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  if (rule == KeyRule::kLastDot) {
    const size_t dot = name.rfind('.');
    if (dot == std::string_view::npos || dot <= base) return std::nullopt;
    return SplitName{name.substr(0, dot), name.substr(dot + 1)};
  }
  const size_t dot = name.find('.', base);
  if (dot == std::string_view::npos) return std::nullopt;
  // Only a directory that follows a newline can spoil a name whose last part is in order.
  const bool plain = dot > base && (base == 0 || name.find('\n') == std::string_view::npos);
  if (!plain && !first_dot_accepts(name, dot)) return std::nullopt;
  return SplitName{name.substr(0, dot), name.substr(dot + 1)};
}

bool is_archive_metadata(std::string_view name) {
  if (!name.starts_with("__")) return false;
  const size_t slash = name.find('/');
  if (slash == std::string_view::npos) {
    // "$" of the original also matches before a final newline.
    return (name.size() >= 4 && name.ends_with("__")) || (name.size() >= 5 && name.ends_with("__\n"));
  }
  return slash >= 4 && name.substr(0, slash).ends_with("__");
}

Result<KeyRule> parse_key_rule(std::string_view text) {
  if (text == "first-dot") return KeyRule::kFirstDot;
  if (text == "last-dot") return KeyRule::kLastDot;
  return make_error(Code::kInvalid, "unknown key rule \"{}\"", text).with_hint("use first-dot or last-dot");
}

std::string_view key_rule_name(KeyRule rule) {
  return rule == KeyRule::kFirstDot ? "first-dot" : "last-dot";
}

}  // namespace millrace::tar
