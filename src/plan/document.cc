// Reads TOML with toml++ and copies it into our own tree.
#include "plan/document.h"

#include <toml++/toml.h>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/file.h"
#include "base/settings.h"
#include "base/text.h"
#include "base/units.h"

namespace millrace::plan {

namespace {

constexpr double kMostReal = 1e12;
constexpr int kMostDepth = 8;

Position position_of(const toml::source_region& region) {
  return {region.begin.line, region.begin.column};
}

Value copy_node(const toml::node& node, int depth) {
  Value value;
  value.at = position_of(node.source());
  value.kind = Value::Kind::kOther;
  if (depth > kMostDepth) return value;
  if (const auto text = node.value_exact<std::string>()) {
    value.kind = Value::Kind::kText;
    value.text = *text;
  } else if (const auto flag = node.value_exact<bool>()) {
    value.kind = Value::Kind::kFlag;
    value.text = *flag ? "true" : "false";
  } else if (const auto whole = node.value_exact<int64_t>()) {
    value.kind = Value::Kind::kWhole;
    value.whole = *whole;
    value.text = fmt::format("{}", *whole);
  } else if (const auto real = node.value_exact<double>()) {
    value.kind = Value::Kind::kReal;
    value.real = *real;
    value.text = fmt::format("{}", *real);
  } else if (const toml::array* list = node.as_array()) {
    value.kind = Value::Kind::kList;
    for (const toml::node& item : *list) value.items.push_back(copy_node(item, depth + 1));
  } else if (const toml::table* table = node.as_table()) {
    value.kind = Value::Kind::kTable;
    for (const auto& [key, item] : *table)
      value.fields.push_back({std::string(key.str()), position_of(key.source()), copy_node(item, depth + 1)});
  }
  return value;
}

// 24 and 0.3 are numbers, everything else is text.
Value value_of(std::string_view text) {
  Value value;
  const char* end = text.data() + text.size();
  value.text = std::string(text);
  value.kind = Value::Kind::kText;
  if (const auto [rest, bad] = std::from_chars(text.data(), end, value.whole);
      bad == std::errc() && rest == end) {
    value.kind = Value::Kind::kWhole;
  } else if (const auto [behind, wrong] = std::from_chars(text.data(), end, value.real);
             wrong == std::errc() && behind == end) {
    value.kind = Value::Kind::kReal;
  }
  return value;
}

Value* find_named(Value& list, std::string_view name) {
  for (Value& item : list.items) {
    const Value* its_name = item.find("name");
    if (its_name != nullptr && its_name->text == name) return &item;
  }
  return nullptr;
}

Value& field_of(Value& table, std::string_view key) {
  for (Value::Field& field : table.fields) {
    if (field.key == key) return field.value;
  }
  table.fields.push_back({std::string(key), {}, {}});
  return table.fields.back().value;
}

std::string sentence_about(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kList:
      return "a list";
    case Value::Kind::kTable:
      return "a table";
    case Value::Kind::kOther:
      return "a date or something deeply nested";
    default:
      return "\"" + printable(value.text, 64) + "\"";
  }
}

}  // namespace

const Value* Value::find(std::string_view key) const {
  for (const Field& field : fields) {
    if (field.key == key) return &field.value;
  }
  return nullptr;
}

std::string Document::place(Position at) const {
  return at.line == 0 ? name : fmt::format("{}:{}:{}", name, at.line, at.column);
}

Result<Document> parse_document(std::string_view toml, std::string name) {
  if (toml.size() > kMostDocumentBytes)
    return make_error(Code::kTooLarge, "{}: more than {} bytes", name, kMostDocumentBytes);
  try {
    const toml::table table = toml::parse(toml, name);
    return Document{name, copy_node(table, 0)};
  } catch (const toml::parse_error& failure) {
    const auto place = failure.source().begin;
    return make_error(Code::kInvalid, "{}:{}:{}: {}", name, place.line, place.column, failure.description());
  }
}

Result<Document> read_document(const std::string& path) {
  const std::string text = MR_TRY(read_file(path, kMostDocumentBytes));
  return parse_document(text, path);
}

Status set_value(Document& document, std::string_view key, std::string_view text) {
  const auto wrong = [&](std::string_view why) {
    return make_error(Code::kInvalid, "setting {}: {}", printable(key, 64), why)
        .with_hint("such as store.shelf.drives=24, workload.fraction=0.3 or part.nvme.read=5GB/s");
  };
  const size_t last_dot = key.rfind('.');
  if (last_dot == std::string_view::npos) {
    field_of(document.root, key) = value_of(text);
    return {};
  }
  const std::string_view path = key.substr(0, last_dot);
  const size_t dot = path.find('.');
  Value& first = field_of(document.root, path.substr(0, dot));
  Value* table = &first;
  if (first.kind == Value::Kind::kList) {
    table = dot == std::string_view::npos ? (first.items.size() == 1 ? &first.items[0] : nullptr)
                                          : find_named(first, path.substr(dot + 1));
    if (table == nullptr) return wrong(fmt::format("there is no {} of that name", path.substr(0, dot)));
  } else if (dot != std::string_view::npos && first.kind == Value::Kind::kTable) {
    table = &field_of(first, path.substr(dot + 1));
  }
  if (table->kind != Value::Kind::kTable) return wrong("it is not a table");
  field_of(*table, key.substr(last_dot + 1)) = value_of(text);
  return {};
}

const Value* Fields::ask(std::string_view key) {
  known_.emplace_back(key);
  return table_.find(key);
}

bool Fields::has(std::string_view key) {
  return ask(key) != nullptr;
}

std::string Fields::place(std::string_view key) const {
  for (const Value::Field& field : table_.fields) {
    if (field.key == key) return document_.place(field.value.at.line != 0 ? field.value.at : field.at);
  }
  return document_.place(table_.at);
}

Error Fields::wrong(std::string_view key, std::string_view why) const {
  return make_error(Code::kInvalid, "{}: {}: {} {}", place(key), what_, key, why);
}

void Fields::fail(Error error) {
  if (!error_) error_ = std::move(error);
}

std::string Fields::text(std::string_view key, std::string fallback) {
  const Value* value = ask(key);
  if (value == nullptr) return fallback;
  if (value->kind != Value::Kind::kText || value->text.empty() || !is_utf8(value->text) ||
      printable(value->text, 200) != value->text) {
    fail(wrong(key, fmt::format("is {}, not a word in quotes of at most 200 printable characters",
                                sentence_about(*value))));
    return fallback;
  }
  return value->text;
}

std::string Fields::word(std::string_view key, const std::vector<std::string>& words) {
  const std::string found = text(key, words.front());
  if (std::find(words.begin(), words.end(), found) != words.end()) return found;
  std::string all;
  for (const std::string& one : words) all += (all.empty() ? "" : ", ") + one;
  const std::string near = nearest_word(found, words);
  fail(wrong(key, fmt::format("is \"{}\", but must be one of: {}", found, all))
           .with_hint(near.empty() ? all : fmt::format("did you mean \"{}\"?", near)));
  return words.front();
}

uint64_t Fields::count(std::string_view key, uint64_t fallback) {
  const Value* value = ask(key);
  if (value == nullptr) return fallback;
  constexpr int64_t kMost = 1'000'000'000'000'000;
  if (value->kind != Value::Kind::kWhole || value->whole < 0 || value->whole > kMost) {
    fail(wrong(key, fmt::format("is {}, not a whole number from 0 to 10^15", sentence_about(*value))));
    return fallback;
  }
  return static_cast<uint64_t>(value->whole);
}

uint64_t Fields::bytes(std::string_view key, uint64_t fallback) {
  const Value* value = ask(key);
  if (value == nullptr) return fallback;
  if (value->kind == Value::Kind::kText || (value->kind == Value::Kind::kWhole && value->whole >= 0)) {
    auto parsed = parse_bytes(value->text);
    if (parsed) return parsed.take();
    fail(wrong(key, parsed.error().message()).with_hint(parsed.error().hint()));
  } else {
    fail(wrong(key, fmt::format("is {}, not a size such as \"8TB\" or \"256MiB\"", sentence_about(*value))));
  }
  return fallback;
}

uint64_t Fields::rate(std::string_view key, uint64_t fallback) {
  const Value* value = ask(key);
  if (value == nullptr) return fallback;
  auto parsed = parse_rate(value->kind == Value::Kind::kText ? value->text : "");
  if (parsed && *parsed > 0) return parsed.take();
  fail(wrong(key, fmt::format("is {}, not a rate above nothing", sentence_about(*value)))
           .with_hint("such as 200MB/s, 8GiB/s or 10Gb/s"));
  return fallback;
}

double Fields::real(std::string_view key, double fallback) {
  const Value* value = ask(key);
  if (value == nullptr) return fallback;
  const double number = value->kind == Value::Kind::kWhole ? static_cast<double>(value->whole) : value->real;
  const bool is_number = value->kind == Value::Kind::kWhole || value->kind == Value::Kind::kReal;
  if (is_number && std::isfinite(number) && number >= 0 && number <= kMostReal) return number;
  fail(wrong(key, fmt::format("is {}, not a number from 0 to 10^12", sentence_about(*value))));
  return fallback;
}

Status Fields::finish() {
  for (const Value::Field& field : table_.fields) {
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

}  // namespace millrace::plan
