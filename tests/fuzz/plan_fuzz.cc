// What a person may write as a plan: TOML, units, names, figures; and what becomes of it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/toml_document.h"
#include "plan/check.h"
#include "plan/picture.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  namespace plan = millrace::plan;
  const auto document = millrace::parse_toml({reinterpret_cast<const char*>(bytes), size}, "fuzz");
  if (!document) return 0;
  const auto installation = plan::read_installation(*document);
  if (!installation) {
    if (installation.error().message().empty()) __builtin_trap();
    return 0;
  }
  const auto checked = plan::check(*installation);
  if (!checked) return 0;
  if (checked->samples_per_second <= 0 || checked->ladder.empty()) __builtin_trap();
  for (const plan::Resource& one : checked->path.resources) {
    if (checked->used(one) > one.total()) __builtin_trap();
  }
  if (plan::flow_picture(installation->name, *checked).empty()) __builtin_trap();
  return 0;
}
