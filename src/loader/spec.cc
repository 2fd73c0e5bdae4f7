// Parses field specifications: each word is one field.
#include "loader/spec.h"

#include <charconv>
#include <utility>

#include "base/text.h"

namespace millrace::loader {

namespace {

using decode::TransformSpec;

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

Result<uint32_t> parse_side(std::string_view text) {
  constexpr uint32_t kMostSide = 65'535;
  uint32_t side = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), side);
  if (problem != std::errc() || end != text.data() + text.size() || side == 0 || side > kMostSide)
    return make_error(Code::kInvalid, "\"{}\" is not a number of pixels from 1 to {}", printable(text, 40),
                      kMostSide);
  return side;
}

Status set_crop(TransformSpec& image, std::string_view value) {
  constexpr std::pair<std::string_view, TransformSpec::Crop> kCrops[] = {
      {"none", TransformSpec::Crop::kNone},
      {"center", TransformSpec::Crop::kCenter},
      {"random", TransformSpec::Crop::kRandom},
      {"random_resized", TransformSpec::Crop::kRandomResized}};
  for (const auto& [name, crop] : kCrops) {
    if (name != value) continue;
    image.crop = crop;
    return {};
  }
  return unknown("a crop", value, "none, center, random, random_resized");
}

Status set_normalize(TransformSpec& image, std::string_view value) {
  if (value == "imagenet") {
    image.mean = {0.485F, 0.456F, 0.406F, 0};
    image.deviation = {0.229F, 0.224F, 0.225F, 1};
  } else if (value == "half") {
    image.mean = {0.5F, 0.5F, 0.5F, 0.5F};
    image.deviation = {0.5F, 0.5F, 0.5F, 0.5F};
  } else {
    return unknown("a normalisation", value, "imagenet, half");
  }
  image.type = TransformSpec::Type::kFloat32;
  return {};
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
  if (parts.size() > 2) {
    if (field.kind != FieldKind::kImage || parts.size() > 3)
      return make_error(Code::kInvalid, "{}: only images have options", printable(word, 80));
    for (const std::string_view option : split(parts[2], ',')) {
      const size_t equals = std::min(option.find('='), option.size());
      MR_TRY(set_image_option(field.image, option.substr(0, equals),
                              option.substr(std::min(equals + 1, option.size()))));
    }
  }
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

Status set_image_option(TransformSpec& image, std::string_view name, std::string_view value) {
  if (name == "size") {
    const auto sides = split(value, 'x');
    if (sides.size() > 2) return unknown("a size", value, "224, 224x160 (width x height)");
    image.size.width = MR_TRY(parse_side(sides.front()));
    image.size.height = MR_TRY(parse_side(sides.back()));
    return {};
  }
  if (name == "resize") {
    image.resize = MR_TRY(parse_side(value));
    return {};
  }
  if (name == "crop") return set_crop(image, value);
  if (name == "normalize") return set_normalize(image, value);
  if (name == "flip" && value.empty()) {
    image.flip = true;
    return {};
  }
  if (name == "layout" && (value == "HWC" || value == "CHW")) {
    image.layout = value == "HWC" ? TransformSpec::Layout::kHwc : TransformSpec::Layout::kChw;
    return {};
  }
  if (name == "dtype" && (value == "uint8" || value == "float32" || value == "float16")) {
    image.type = value == "uint8"     ? TransformSpec::Type::kUint8
                 : value == "float32" ? TransformSpec::Type::kFloat32
                                      : TransformSpec::Type::kFloat16;
    return {};
  }
  if (name == "channels" && (value == "gray" || value == "rgb" || value == "rgba")) {
    image.channels = value == "gray"  ? decode::Channels::kGray
                     : value == "rgb" ? decode::Channels::kRgb
                                      : decode::Channels::kRgba;
    return {};
  }
  return unknown("an option of images", fmt::format("{}={}", name, value),
                 "size=N, resize=N, crop=, flip, normalize=, layout=HWC|CHW, dtype=uint8|float32|float16, "
                 "channels=gray|rgb|rgba");
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
