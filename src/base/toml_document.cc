// Reads TOML with toml++ and copies it into our own tree.
#include "base/toml_document.h"

#include <toml++/toml.h>
#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/number.h"
#include "base/settings.h"
#include "base/text.h"
#include "base/units.h"

namespace millrace {

namespace {

constexpr double kMostReal = 1e12;
constexpr int kMostDepth = 8;

TomlPosition position_of(const toml::source_region& region) {
  return {region.begin.line, region.begin.column};
}

TomlValue copy_node(const toml::node& node, int depth) {
  TomlValue value;
  value.at = position_of(node.source());
  value.kind = TomlValue::Kind::kOther;
  if (depth > kMostDepth) return value;
  if (const auto text = node.value_exact<std::string>()) {
    value.kind = TomlValue::Kind::kText;
    value.text = *text;
  } else if (const auto flag = node.value_exact<bool>()) {
    value.kind = TomlValue::Kind::kFlag;
    value.text = *flag ? "true" : "false";
  } else if (const auto whole = node.value_exact<int64_t>()) {
    value.kind = TomlValue::Kind::kWhole;
    value.whole = *whole;
    value.text = fmt::format("{}", *whole);
  } else if (const auto real = node.value_exact<double>()) {
    value.kind = TomlValue::Kind::kReal;
    value.real = *real;
    value.text = fmt::format("{}", *real);
  } else if (const toml::array* list = node.as_array()) {
    value.kind = TomlValue::Kind::kList;
    for (const toml::node& item : *list) value.items.push_back(copy_node(item, depth + 1));
  } else if (const toml::table* table = node.as_table()) {
    value.kind = TomlValue::Kind::kTable;
    for (const auto& [key, item] : *table)
      value.fields.push_back({std::string(key.str()), position_of(key.source()), copy_node(item, depth + 1)});
  }
  return value;
}

std::string sentence_about(const TomlValue& value) {
  switch (value.kind) {
    case TomlValue::Kind::kList:
      return "a list";
    case TomlValue::Kind::kTable:
      return "a table";
    case TomlValue::Kind::kOther:
      return "a date or something deeply nested";
    default:
      return "\"" + printable(value.text, 64) + "\"";
  }
}

}  // namespace

const TomlValue* TomlValue::find(std::string_view key) const {
  for (const Field& field : fields) {
    if (field.key == key) return &field.value;
  }
  return nullptr;
}

TomlValue& TomlValue::field(std::string_view key) {
  for (Field& field : fields) {
    if (field.key == key) return field.value;
  }
  fields.push_back({std::string(key), {}, {}});
  return fields.back().value;
}

bool TomlValue::is_plain() const {
  return kind == Kind::kText || kind == Kind::kWhole || kind == Kind::kReal || kind == Kind::kFlag;
}

TomlValue make_toml_value(std::string_view word) {
  TomlValue value;
  value.text = std::string(word);
  value.kind = TomlValue::Kind::kText;
  if (const auto whole = parse_number<int64_t>(word)) {
    value.whole = *whole;
    value.kind = TomlValue::Kind::kWhole;
  } else if (const auto real = parse_number<double>(word)) {
    value.real = *real;
    value.kind = TomlValue::Kind::kReal;
  }
  return value;
}

std::string TomlDocument::place(TomlPosition at) const {
  return at.line == 0 ? name : fmt::format("{}:{}:{}", name, at.line, at.column);
}

Result<TomlDocument> parse_toml(std::string_view toml, std::string name) {
  if (toml.size() > kMostTomlBytes)
    return make_error(Code::kTooLarge, "{}: more than {} bytes", name, kMostTomlBytes);
  try {
    const toml::table table = toml::parse(toml, name);
    return TomlDocument{name, copy_node(table, 0)};
  } catch (const toml::parse_error& failure) {
    const auto place = failure.source().begin;
    return make_error(Code::kInvalid, "{}:{}:{}: {}", name, place.line, place.column, failure.description());
  }
}

Result<TomlDocument> read_toml(const std::string& path) {
  const std::string text = MR_TRY(read_file(path, kMostTomlBytes));
  return parse_toml(text, path);
}

const TomlValue* TomlFields::ask(std::string_view key) {
  known_.emplace_back(key);
  return table_.find(key);
}

bool TomlFields::has(std::string_view key) {
  return ask(key) != nullptr;
}

std::string TomlFields::place(std::string_view key) const {
  for (const TomlValue::Field& field : table_.fields) {
    if (field.key == key) return document_.place(field.value.at.line != 0 ? field.value.at : field.at);
  }
  return document_.place(table_.at);
}

Error TomlFields::wrong(std::string_view key, std::string_view why) const {
  return make_error(Code::kInvalid, "{}: {}: {} {}", place(key), what_, key, why);
}

void TomlFields::fail(Error error) {
  if (!error_) error_ = std::move(error);
}

std::string TomlFields::text(std::string_view key, std::string fallback) {
  const TomlValue* value = ask(key);
  if (value == nullptr) return fallback;
  if (value->kind != TomlValue::Kind::kText || value->text.empty() || !is_utf8(value->text) ||
      printable(value->text, 200) != value->text) {
    fail(wrong(key, fmt::format("is {}, not a word in quotes of at most 200 printable characters",
                                sentence_about(*value))));
    return fallback;
  }
  return value->text;
}

std::string TomlFields::word(std::string_view key, const std::vector<std::string>& words) {
  const std::string found = text(key, words.front());
  if (std::find(words.begin(), words.end(), found) != words.end()) return found;
  std::string all;
  for (const std::string& one : words) all += (all.empty() ? "" : ", ") + one;
  const std::string near = nearest_word(found, words);
  fail(wrong(key, fmt::format("is \"{}\", but must be one of: {}", found, all))
           .with_hint(near.empty() ? all : fmt::format("did you mean \"{}\"?", near)));
  return words.front();
}

uint64_t TomlFields::count(std::string_view key, uint64_t fallback) {
  const TomlValue* value = ask(key);
  if (value == nullptr) return fallback;
  constexpr int64_t kMost = 1'000'000'000'000'000;
  if (value->kind != TomlValue::Kind::kWhole || value->whole < 0 || value->whole > kMost) {
    fail(wrong(key, fmt::format("is {}, not a whole number from 0 to 10^15", sentence_about(*value))));
    return fallback;
  }
  return static_cast<uint64_t>(value->whole);
}

uint64_t TomlFields::bytes(std::string_view key, uint64_t fallback) {
  const TomlValue* value = ask(key);
  if (value == nullptr) return fallback;
  if (value->kind == TomlValue::Kind::kText ||
      (value->kind == TomlValue::Kind::kWhole && value->whole >= 0)) {
    auto parsed = parse_bytes(value->text);
    if (parsed) return parsed.take();
    fail(wrong(key, parsed.error().message()).with_hint(parsed.error().hint()));
  } else {
    fail(wrong(key, fmt::format("is {}, not a size such as \"8TB\" or \"256MiB\"", sentence_about(*value))));
  }
  return fallback;
}

uint64_t TomlFields::rate(std::string_view key, uint64_t fallback) {
  const TomlValue* value = ask(key);
  if (value == nullptr) return fallback;
  auto parsed = parse_rate(value->kind == TomlValue::Kind::kText ? value->text : "");
  if (parsed && *parsed > 0) return parsed.take();
  fail(wrong(key, fmt::format("is {}, not a rate above nothing", sentence_about(*value)))
           .with_hint("such as 200MB/s, 8GiB/s or 10Gb/s"));
  return fallback;
}

double TomlFields::real(std::string_view key, double fallback) {
  const TomlValue* value = ask(key);
  if (value == nullptr) return fallback;
  const double number =
      value->kind == TomlValue::Kind::kWhole ? static_cast<double>(value->whole) : value->real;
  const bool is_number = value->kind == TomlValue::Kind::kWhole || value->kind == TomlValue::Kind::kReal;
  if (is_number && std::isfinite(number) && number >= 0 && number <= kMostReal) return number;
  fail(wrong(key, fmt::format("is {}, not a number from 0 to 10^12", sentence_about(*value))));
  return fallback;
}

Status TomlFields::finish() {
  for (const TomlValue::Field& field : table_.fields) {
    if (error_) break;
    if (std::find(known_.begin(), known_.end(), field.key) != known_.end()) continue;
    const std::string near = nearest_word(field.key, known_);
    std::string all;
    for (const std::string& one : known_) all += (all.empty() ? "one of: " : ", ") + one;
    error_ = make_error(Code::kInvalid, "{}: {} has no key \"{}\"", document_.place(field.at), what_,
                        printable(field.key, 64))
                 .with_hint(near.empty() ? all : fmt::format("did you mean \"{}\"?", near));
  }
  if (!error_) return {};
  Error first = std::move(*error_);
  error_.reset();
  return first;
}

}  // namespace millrace
