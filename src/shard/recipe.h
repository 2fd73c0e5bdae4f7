// Recipes: what samples to make of which files, before any of them is read.
//
// A recipe comes from a directory tree or from a manifest; all recipes are in memory (names only, some 200
// bytes per file). From their sizes the shards are planned first and then written in parallel, so the result
// does not depend on the number of threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "shard/output.h"
#include "shard/writer.h"
#include "tar/key.h"

namespace millrace::shard {

struct FieldRecipe {
  enum class Kind { kFile, kLiteral };
  std::string field;
  Kind kind = Kind::kLiteral;
  std::string text;   // the literal's bytes, or the path below the recipe book's root
  uint64_t size = 0;  // of a file, as found when the recipe was made
};

struct SampleRecipe {
  std::string key;
  std::vector<FieldRecipe> fields;
};

struct RecipeBook {
  std::string root;  // files are opened below this directory
  // Whether links may lead out of the root: a tree that the user named, not a manifest somebody wrote.
  enum class Reach { kInsideRoot, kFollowLinks } reach = Reach::kInsideRoot;
  std::vector<SampleRecipe> samples;
  uint64_t loose_files = 0;  // names that are no sample's
};

// Every regular file below `directory`, in name order, grouped by key.
Result<RecipeBook> recipes_of_directory(const std::string& directory, tar::KeyRule key_rule);

// Gives each sample a field `cls`: the number of its top directory in `classes`. An empty `classes` is filled
// with the directories there are, sorted; a directory that is not in a given list is an error.
Status add_classes(RecipeBook& book, std::vector<std::string>& classes);

// Finds each file's size. An error names the sample, the field and the path.
Status measure_files(RecipeBook& book);

struct BuildOptions {
  OutputName name;
  ShardLimits limits;
  OutputOptions output;
  unsigned jobs = 1;
  Progress* progress = nullptr;
};
Result<std::vector<ShardSummary>> build_shards(const RecipeBook& book, const BuildOptions& options);

}  // namespace millrace::shard
