// How a member's name splits into a sample's key and a field, and which names are no sample's at all.
//
// The first-dot rule is WebDataset's to the letter: everything up to the first dot of the last path
// component is the key, the rest is the field. Pure; safe from any thread.
#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"

namespace millrace::tar {

enum class KeyRule {
  kFirstDot,  // a/b.seg.png -> key a/b, field seg.png
  kLastDot,   // a/b.seg.png -> key a/b.seg, field png
};

struct SplitName {
  std::string_view key;
  std::string_view field;  // as spelled; samples carry it in lower case
};

// Nothing where the name has no key or no dot.
std::optional<SplitName> split_name(std::string_view name, KeyRule rule);

// Names such as __meta__/x or __index__ describe the archive rather than a sample.
bool is_archive_metadata(std::string_view name);

Result<KeyRule> parse_key_rule(std::string_view text);
std::string_view key_rule_name(KeyRule rule);

}  // namespace millrace::tar
