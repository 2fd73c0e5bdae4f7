// Manifests: lists of samples as text, TSV or JSON lines. The syntax is in docs/formats/manifest.md.
//
// parse_manifest is pure and believes nothing; files it names are looked for later, below a root.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "shard/recipe.h"

namespace millrace::shard {

enum class ManifestSyntax { kTsv, kJsonLines };

inline constexpr uint64_t kMaxManifestBytes = uint64_t{4} << 30;

// Errors name the line. Keys must differ; each sample needs one field at least.
Result<std::vector<SampleRecipe>> parse_manifest(std::string_view text, ManifestSyntax syntax);

}  // namespace millrace::shard
