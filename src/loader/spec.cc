// Parses field specifications: each word is one field.
#include "loader/spec.h"

#include <utility>

#include "base/text.h"
#include "decode/image_description.h"

namespace millrace::loader {

namespace {

Error unknown(std::string_view what, std::string_view given, std::string_view known) {
  return make_error(Code::kInvalid, "{} is not {}", printable(given, 80), what)
      .with_hint(fmt::format("one of: {}", known));
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Result<FieldSpec> parse_field(std::string_view word) {
  const auto parts = split(word, ':');
  FieldSpec field;
  field.kind = MR_TRY(parse_kind(parts[0]));
  if (parts.size() > 1) {
    for (const std::string_view one : split(parts[1], ';')) {
      if (!one.empty()) field.any_of.push_back(lower_case(one));
    }
  }
  field.name = field.any_of.empty() ? std::string(parts[0]) : field.any_of.front();
  decode::ImageDescription image;
  if (parts.size() > 2) {
    if (field.kind != FieldKind::kImage || parts.size() > 3)
      return make_error(Code::kInvalid, "{}: only images have options", printable(word, 80));
    for (const std::string_view option : split(parts[2], ',')) {
      const size_t equals = std::min(option.find('='), option.size());
      MR_TRY(image.set(option.substr(0, equals), option.substr(std::min(equals + 1, option.size()))));
    }
  }
  if (field.kind == FieldKind::kImage) field.image = MR_TRY(image.finish());
  return field;
}

}  // namespace

Result<FieldKind> parse_kind(std::string_view text) {
  constexpr std::pair<std::string_view, FieldKind> kKinds[] = {{"image", FieldKind::kImage},
                                                               {"label", FieldKind::kLabel},
                                                               {"bytes", FieldKind::kBytes},
                                                               {"array", FieldKind::kArray},
                                                               {"key", FieldKind::kKey}};
  for (const auto& [name, kind] : kKinds) {
    if (name == text) return kind;
  }
  return unknown("a kind of field", text, "image, label, bytes, array, key");
}

Result<std::vector<FieldSpec>> parse_fields(std::string_view text) {
  std::vector<FieldSpec> fields;
  for (const std::string_view word : split(text, ' ')) {
    if (!trim(word).empty()) fields.push_back(MR_TRY(parse_field(trim(word)).within("field specification")));
  }
  Recipe recipe;
  recipe.fields = fields;
  MR_TRY(check(recipe));
  return fields;
}

}  // namespace millrace::loader
