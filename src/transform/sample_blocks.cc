// Headers, bytes, padding.
#include "transform/sample_blocks.h"

#include "base/text.h"
#include "tar/format.h"
#include "tar/key.h"
#include "tar/writer.h"

namespace millrace::transform {

Status append_sample(std::string& into, std::string_view key, std::span<const MadeField> fields) {
  if (fields.empty()) return make_error(Code::kInvalid, "sample {} has no fields", printable(key, 256));
  size_t bytes = into.size();
  for (const MadeField& field : fields) bytes += tar::padded(field.bytes.size()) + 3 * tar::kBlock;
  into.reserve(bytes);
  for (const MadeField& field : fields) {
    const std::string name = fmt::format("{}.{}", key, field.field);
    const auto split = tar::split_name(name, tar::KeyRule::kFirstDot);
    const bool is_good = split && split->key == key && split->field == field.field &&
                         lower_case(field.field) == field.field && !tar::is_archive_metadata(name);
    if (!is_good)
      return make_error(Code::kInvalid, "\"{}\" is not the name of a field of a sample",
                        printable(name, 256));
    for (const MadeField* other = fields.data(); other != &field; ++other) {
      if (other->field == field.field)
        return make_error(Code::kInvalid, "sample {} has the field {} twice", printable(key, 256),
                          printable(field.field, 64));
    }
    into += MR_TRY(tar::make_header({.name = name, .size = field.bytes.size()}));
    into += field.bytes;
    into.append(tar::padded(field.bytes.size()) - field.bytes.size(), '\0');
  }
  return {};
}

}  // namespace millrace::transform
