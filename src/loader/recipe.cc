// Checks recipes, so that impossible ones are refused before any thread starts.
#include "loader/recipe.h"

#include <unordered_set>

#include "base/threads.h"

namespace millrace::loader {

Result<OnError> parse_on_error(std::string_view text) {
  if (text == "fail") return OnError::kFail;
  if (text == "skip") return OnError::kSkip;
  if (text == "substitute") return OnError::kSubstitute;
  return make_error(Code::kInvalid, "what happens on errors is fail, skip or substitute, not {}", text);
}

Status check(const Recipe& recipe) {
  constexpr uint64_t kMostBatch = uint64_t{1} << 32;
  if (recipe.batch == 0 || recipe.batch > kMostBatch)
    return make_error(Code::kInvalid, "a batch of {} samples is not possible", recipe.batch);
  if (recipe.fields.empty())
    return make_error(Code::kInvalid, "the recipe asks for no field")
        .with_hint("add one: image, label, bytes …");
  if (recipe.threads > kMaxThreads || recipe.fetch_threads > kMaxThreads)
    return make_error(Code::kInvalid, "at most {} threads of a kind", kMaxThreads);
  if (!recipe.bucket_by.empty() && (recipe.bucket_batches == 0 || !recipe.weights.empty()))
    return make_error(Code::kInvalid, "buckets need at least one batch, and cannot be had of mixtures");
  std::unordered_set<std::string> names;
  for (const FieldSpec& field : recipe.fields) {
    if (!names.insert(field.name).second)
      return make_error(Code::kInvalid, "two fields are called {}", field.name);
    if (field.kind != FieldKind::kKey && field.any_of.empty())
      return make_error(Code::kInvalid, "field {} names no field of the samples", field.name);
    if (field.kind == FieldKind::kImage) {
      auto made = decode::Transform::make(field.image);
      if (!made) return std::move(made).within("image " + field.name).take_error();
    }
  }
  return {};
}

}  // namespace millrace::loader
