// Parses descriptions, each kind by the names that it knows.
#include "transform/description.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/text.h"
#include "decode/image_description.h"
#include "net/url.h"

namespace millrace::transform {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<std::string_view, Kind> kKinds[] = {{"images", Kind::kImages},
                                                        {"command", Kind::kCommand},
                                                        {"filter", Kind::kFilter},
                                                        {"python", Kind::kPython},
                                                        {"service", Kind::kService}};
constexpr std::pair<std::string_view, OnError> kOnErrors[] = {
    {"abort", OnError::kAbort}, {"skip", OnError::kSkip}, {"keep", OnError::kKeep}};
constexpr std::pair<std::string_view, ImageOutput> kOutputs[] = {
    {"npy", ImageOutput::kNpy}, {"jpg", ImageOutput::kJpeg}, {"png", ImageOutput::kPng}};

template <typename Table>
auto choose(std::string_view name, std::string_view value, const Table& table)
    -> Result<typename std::remove_cvref_t<decltype(*std::begin(table))>::second_type> {
  std::string known;
  for (const auto& [word, meaning] : table) {
    if (word == value) return meaning;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", word);
  }
  return make_error(Code::kInvalid, "\"{}\" is one of {}, not {}", name, known, printable(value, 40));
}

template <typename Table, typename Meaning>
std::string_view word_of(const Table& table, Meaning wanted) {
  const auto found = std::ranges::find_if(table, [&](const auto& entry) { return entry.second == wanted; });
  return found == std::end(table) ? std::string_view() : found->first;
}

Error wrong(std::string_view name, std::string_view what) {
  return make_error(Code::kInvalid, "\"{}\" is {}", printable(name, 40), what);
}

Result<std::string> take_text(std::string_view name, const Json& value, size_t most) {
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) return wrong(name, "text");
  std::string text = value.get<std::string>();
  if (text.size() > most) return wrong(name, fmt::format("at most {} bytes long", most));
  if (text.find('\0') != std::string::npos) return wrong(name, "text without zero bytes");
  return text;
}

Result<uint64_t> take_count(std::string_view name, const Json& value, std::pair<uint64_t, uint64_t> range) {
  const bool is_good = value.is_number_unsigned() && value.get<uint64_t>() >= range.first &&
                       value.get<uint64_t>() <= range.second;
  if (!is_good) return wrong(name, fmt::format("a whole number from {} to {}", range.first, range.second));
  return value.get<uint64_t>();
}

Result<bool> take_flag(std::string_view name, const Json& value) {
  if (!value.is_boolean()) return wrong(name, "true or false");
  return value.get<bool>();
}

Status set_limit(Limits& limits, const std::string& name, const Json& value) {
  constexpr uint64_t kMiB = 1 << 20;
  constexpr uint64_t kDay = 86'400;
  struct Row {
    std::string_view name;
    uint64_t Limits::* member;
    std::pair<uint64_t, uint64_t> range;
  };
  constexpr Row kRows[] = {{"memory", &Limits::memory, {16 * kMiB, uint64_t{1} << 40}},
                           {"disk", &Limits::disk, {kMiB, uint64_t{1} << 40}},
                           {"output", &Limits::output, {1024, uint64_t{1} << 44}},
                           {"cpu_seconds", &Limits::cpu_seconds, {1, kDay}},
                           {"seconds", &Limits::seconds, {1, kDay}},
                           {"processes", &Limits::processes, {1, 4096}}};
  for (const Row& row : kRows) {
    if (row.name != name) continue;
    limits.*row.member = MR_TRY(take_count(name, value, row.range));
    return {};
  }
  return make_error(Code::kInvalid, "\"{}\" is not a limit", printable(name, 40))
      .with_hint("limits are memory, disk, output, cpu_seconds, seconds, processes");
}

Status set_limits(Limits& limits, const Json& value) {
  if (!value.is_object()) return wrong("limits", "an object");
  for (const auto& [name, limit] : value.items()) MR_TRY(set_limit(limits, name, limit));
  return {};
}

// "jpg;png" and "size=224,crop=center".
Status set_image_options(ImageWork& image, const std::string& text) {
  decode::ImageDescription description;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view option = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const size_t equals = std::min(option.find('='), option.size());
    MR_TRY(description.set(option.substr(0, equals), option.substr(std::min(equals + 1, option.size()))));
  }
  image.options = text;
  image.spec = MR_TRY(description.finish());
  return {};
}

Status set_image(Description& description, const Json& value) {
  if (!value.is_object()) return wrong("image", "an object");
  ImageWork& image = description.image;
  description.has_image = true;
  image.any_of = {"jpg", "jpeg", "png", "webp"};
  MR_TRY(set_image_options(image, ""));
  for (const auto& [name, what] : value.items()) {
    if (name == "fields") {
      const std::string text = MR_TRY(take_text(name, what, 4096));
      const auto choices = MR_TRY(shard::parse_field_choices(text));
      if (choices.size() != 1 || !choices[0].name.empty())
        return wrong(name, "fields separated by semicolons; the first that a sample has is taken");
      image.any_of = choices[0].any_of;
    } else if (name == "options") {
      const std::string text = MR_TRY(take_text(name, what, 4096));
      MR_TRY(set_image_options(image, text));
    } else if (name == "to") {
      const std::string text = MR_TRY(take_text(name, what, 16));
      image.to = MR_TRY(choose(name, text, kOutputs));
    } else if (name == "quality") {
      image.quality = static_cast<int>(MR_TRY(take_count(name, what, {1, 100})));
    } else if (name == "stack") {
      image.stack = MR_TRY(take_count(name, what, {0, kMostStacked}));
    } else if (name == "label") {
      image.label = lower_case(MR_TRY(take_text(name, what, 256)));
    } else {
      return make_error(Code::kInvalid, "\"{}\" is not known of an image", printable(name, 40))
          .with_hint("fields, options, to, quality, stack, label");
    }
  }
  return {};
}

Status set_command(Description& description, const Json& value) {
  if (!value.is_array() || value.empty() || value.size() > kMostCommandWords)
    return wrong("command", fmt::format("a list of 1 to {} words", kMostCommandWords));
  for (const Json& word : value) {
    if (!word.is_string() || word.get_ref<const std::string&>().find('\0') != std::string::npos)
      return wrong("command", "a list of words without zero bytes");
    description.command.push_back(word.get<std::string>());
  }
  if (description.command[0].empty()) return wrong("command", "a program and its arguments");
  return {};
}

Status set_url(Description& description, const std::string& text) {
  const net::Url url = MR_TRY(net::parse_url(text));
  if (url.scheme != "http")
    return make_error(Code::kUnsupported, "a service is reached by http://, not by {}", printable(text, 80))
        .with_hint("put a proxy that speaks TLS beside the node where the service is far");
  description.url = text;
  return {};
}

bool is_of(Kind kind, std::string_view name) {
  switch (kind) {
    case Kind::kImages:
      return name == "select" || name == "image";
    case Kind::kCommand:
      return name == "command" || name == "many" || name == "limits";
    case Kind::kFilter:
      return name == "command" || name == "limits";
    case Kind::kPython:
      return name == "source" || name == "function" || name == "limits";
    case Kind::kService:
      return name == "url" || name == "limits";
  }
  return false;
}

Status set(Description& description, const std::string& name, const Json& value) {
  if (name == "kind") return {};
  if (name == "on_error") {
    const std::string text = MR_TRY(take_text(name, value, 16));
    description.on_error = MR_TRY(parse_on_error(text));
  } else if (name == "keep") {
    description.keep = MR_TRY(take_flag(name, value));
  } else if (name == "note") {
    description.note = MR_TRY(take_text(name, value, 1024));
  } else if (!is_of(description.kind, name)) {
    return make_error(Code::kInvalid, "\"{}\" is not known of a transform of kind {}", printable(name, 40),
                      kind_name(description.kind));
  } else if (name == "select") {
    description.select = MR_TRY(take_text(name, value, 4096));
    description.choices = MR_TRY(shard::parse_field_choices(description.select));
  } else if (name == "image") {
    return set_image(description, value);
  } else if (name == "command") {
    return set_command(description, value);
  } else if (name == "many") {
    description.many = MR_TRY(take_flag(name, value));
  } else if (name == "source") {
    description.source = MR_TRY(take_text(name, value, kMostSourceBytes));
  } else if (name == "function") {
    description.function = MR_TRY(take_text(name, value, 128));
  } else if (name == "url") {
    return set_url(description, MR_TRY(take_text(name, value, 4096)));
  } else {
    return set_limits(description.limits, value);
  }
  return {};
}

bool is_identifier(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [&](const char& c) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    return is_letter || (c >= '0' && c <= '9' && &c != text.data());
  });
}

Status check_image(const Description& description) {
  const ImageWork& image = description.image;
  using Spec = decode::TransformSpec;
  if (image.spec.flip || image.spec.crop == Spec::Crop::kRandom ||
      image.spec.crop == Spec::Crop::kRandomResized)
    return make_error(Code::kInvalid, "a transform gives the same result each time: no random crop, no flip")
        .with_hint("leave chance to the loader, which draws it anew in each epoch");
  MR_TRY(decode::Transform::make(image.spec));
  const bool is_picture = image.to != ImageOutput::kNpy;
  if (is_picture && (image.spec.type != Spec::Type::kUint8 || image.spec.layout != Spec::Layout::kHwc))
    return make_error(Code::kInvalid, "an image is encoded from uint8 in the layout HWC");
  if (image.to == ImageOutput::kJpeg && image.spec.channels == decode::Channels::kRgba)
    return make_error(Code::kInvalid, "JPEG has no opacity").with_hint("channels=rgb, or to png");
  if (image.stack > 0 && (is_picture || image.spec.size == decode::Size{}))
    return make_error(Code::kInvalid, "only npy arrays of one size can be stacked")
        .with_hint("give the option size");
  if (image.stack == 0 && !image.label.empty())
    return make_error(Code::kInvalid, "\"label\" goes with \"stack\"");
  if (image.stack > 0 && description.on_error == OnError::kKeep)
    return make_error(Code::kInvalid, "a sample that failed cannot be kept in a stack: skip it");
  return {};
}

Status check(const Description& description) {
  const bool is_whole = description.kind == Kind::kFilter || description.kind == Kind::kService;
  if (is_whole && description.on_error != OnError::kAbort)
    return make_error(Code::kInvalid,
                      "a {} sees whole shards: when it fails no sample can be skipped or kept",
                      kind_name(description.kind));
  switch (description.kind) {
    case Kind::kImages:
      if (!description.has_image && description.choices.empty())
        return make_error(Code::kInvalid, "a transform of kind images has \"select\", \"image\" or both");
      return description.has_image ? check_image(description) : Status();
    case Kind::kCommand:
    case Kind::kFilter:
      if (description.command.empty()) return make_error(Code::kInvalid, "there is no \"command\"");
      return {};
    case Kind::kPython:
      if (description.source.empty()) return make_error(Code::kInvalid, "there is no \"source\"");
      if (!is_identifier(description.function)) return wrong("function", "the name of a function");
      return {};
    case Kind::kService:
      if (description.url.empty()) return make_error(Code::kInvalid, "there is no \"url\"");
      return {};
  }
  return {};
}

Json limits_json(const Limits& limits) {
  return {{"memory", limits.memory},           {"disk", limits.disk},       {"output", limits.output},
          {"cpu_seconds", limits.cpu_seconds}, {"seconds", limits.seconds}, {"processes", limits.processes}};
}

Json image_json(const ImageWork& image) {
  std::string fields;
  for (const std::string& field : image.any_of) fields += (fields.empty() ? "" : ";") + field;
  Json json = {{"fields", fields}};
  if (!image.options.empty()) json["options"] = image.options;
  json["to"] = word_of(kOutputs, image.to);
  if (image.to == ImageOutput::kJpeg) json["quality"] = image.quality;
  if (image.stack > 0) json["stack"] = image.stack;
  if (!image.label.empty()) json["label"] = image.label;
  return json;
}

}  // namespace

bool is_sandboxed(Kind kind) {
  return kind == Kind::kCommand || kind == Kind::kFilter || kind == Kind::kPython;
}

std::string_view kind_name(Kind kind) {
  return word_of(kKinds, kind);
}

std::string_view on_error_name(OnError on_error) {
  return word_of(kOnErrors, on_error);
}

Result<OnError> parse_on_error(std::string_view text) {
  return choose("on_error", text, kOnErrors);
}

Result<Description> parse_description(std::string_view text) {
  if (text.size() > kMostDescriptionBytes)
    return make_error(Code::kTooLarge, "a transform is described in at most {} bytes", kMostDescriptionBytes);
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return make_error(Code::kInvalid, "a transform is described by a JSON object");
  if (!json.contains("kind"))
    return make_error(Code::kInvalid, "there is no \"kind\"")
        .with_hint("images, command, filter, python or service");
  Description description;
  const std::string kind = MR_TRY(take_text("kind", json.at("kind"), 16));
  description.kind = MR_TRY(choose("kind", kind, kKinds));
  for (const auto& [name, value] : json.items()) MR_TRY(set(description, name, value));
  MR_TRY(check(description));
  return description;
}

Json description_json(const Description& description) {
  Json json = {{"kind", kind_name(description.kind)}};
  if (!description.select.empty()) json["select"] = description.select;
  if (description.has_image) json["image"] = image_json(description.image);
  if (!description.command.empty()) json["command"] = description.command;
  if (description.many) json["many"] = true;
  if (!description.function.empty()) json["function"] = description.function;
  if (!description.source.empty()) json["source"] = description.source;
  if (!description.url.empty()) json["url"] = description.url;
  json["on_error"] = on_error_name(description.on_error);
  if (description.keep) json["keep"] = true;
  if (description.kind != Kind::kImages) json["limits"] = limits_json(description.limits);
  if (!description.note.empty()) json["note"] = description.note;
  return json;
}

Status check_name(std::string_view name) {
  const auto is_letter_or_digit = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const bool is_good = !name.empty() && name.size() <= 64 && is_letter_or_digit(name[0]) &&
                       std::ranges::all_of(name, [&](char c) {
                         return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.';
                       });
  if (is_good) return {};
  return make_error(Code::kInvalid, "\"{}\" is not a name for a transform", printable(name, 80))
      .with_hint("1 to 64 of a-z 0-9 - _ . beginning with a letter or digit");
}

uint64_t Registered::content() const {
  Json json = description_json(description);
  json.erase("note");
  json.erase("keep");
  return hash64(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string Registered::tag() const {
  return fmt::format("v{}-{:016x}", version, content());
}

}  // namespace millrace::transform
