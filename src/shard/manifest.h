// Manifests: lists of samples as text: TSV, JSON lines, or annotations as COCO has them. The syntax is in
// docs/formats/manifest.md.
//
// parse_manifest is pure and believes nothing; files it names are looked for later, below a root.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "shard/recipe.h"

namespace millrace::shard {

enum class ManifestSyntax { kTsv, kJsonLines, kJson };

// How records that were not written for Millrace name things. With a file column the file becomes the field
// of its ending, and the whole record the field json.
struct ManifestColumns {
  std::string key = "__key__";
  std::string file;  // empty: records are written as docs/formats/manifest.md says
};

inline constexpr uint64_t kMaxManifestBytes = uint64_t{4} << 30;

// Errors name the line, or the image. Keys must differ; each sample needs one field at least.
Result<std::vector<SampleRecipe>> parse_manifest(std::string_view text, ManifestSyntax syntax,
                                                 const ManifestColumns& columns = {});

}  // namespace millrace::shard
