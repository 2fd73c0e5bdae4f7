// The manifest parser on any bytes, in both syntaxes: an error or samples whose keys and fields keep the
// rules.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "shard/manifest.h"
#include "tar/key.h"

namespace {

void check(std::string_view text, millrace::shard::ManifestSyntax syntax) {
  const auto samples = millrace::shard::parse_manifest(text, syntax);
  if (!samples) return;
  std::set<std::string> keys;
  for (const auto& sample : *samples) {
    if (sample.fields.empty() || !keys.insert(sample.key).second) std::abort();
    for (const auto& field : sample.fields) {
      // What is written under this name must be read back as this key and field.
      const std::string name = sample.key + "." + field.field;
      const auto split = millrace::tar::split_name(name, millrace::tar::KeyRule::kFirstDot);
      if (!split || split->key != sample.key || split->field != field.field) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  check(text, millrace::shard::ManifestSyntax::kTsv);
  check(text, millrace::shard::ManifestSyntax::kJsonLines);
  return 0;
}
