// TSV with a header line, or one JSON object a line.
#include "shard/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "base/text.h"

namespace millrace::shard {

namespace {

using Json = nlohmann::json;

Error bad_line(uint64_t line, std::string_view why) {
  return make_error(Code::kInvalid, "manifest line {}: {}", line, why)
      .with_hint("see docs/formats/manifest.md");
}

std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::vector<std::string_view> cells(std::string_view line) {
  std::vector<std::string_view> found;
  while (true) {
    const size_t tab = line.find('\t');
    found.push_back(line.substr(0, tab));
    if (tab == std::string_view::npos) return found;
    line.remove_prefix(tab + 1);
  }
}

// Why a field name cannot be one; nothing if it can.
std::optional<std::string> field_fault(std::string_view field) {
  if (field.empty()) return "a field has no name";
  if (field.starts_with("__")) return fmt::format("unknown special column \"{}\"", field);
  if (field.find('/') != std::string_view::npos || field.find('\0') != std::string_view::npos) {
    return fmt::format("field \"{}\" contains a slash or a NUL", field);
  }
  if (lower_case(field) != field) {
    return fmt::format("field \"{}\" has capitals; fields are lower case", field);
  }
  return std::nullopt;
}

// A key must come back as it is when the shard is read: no dot in its last part, no metadata name.
std::optional<std::string> key_fault(std::string_view key) {
  if (key.empty()) return "the key is empty";
  const std::string name = std::string(key) + ".x";
  const auto split = tar::split_name(name, tar::KeyRule::kFirstDot);
  if (!split || split->key != key || tar::is_archive_metadata(name) ||
      key.find('\0') != std::string_view::npos) {
    return fmt::format("\"{}\" cannot be a key: its last part must have no dot", key);
  }
  const std::string in_slashes = "/" + std::string(key) + "/";
  if (key.starts_with('/') || in_slashes.find("/../") != std::string::npos) {
    return fmt::format("\"{}\" cannot be a key: extracted, it would leave its directory", key);
  }
  return std::nullopt;
}

class KeyCheck {
 public:
  Status add(const std::string& key, uint64_t line) {
    if (const auto fault = key_fault(key)) return bad_line(line, *fault);
    if (!seen_.insert(key).second) return bad_line(line, fmt::format("key \"{}\" came before", key));
    return {};
  }

 private:
  std::unordered_set<std::string> seen_;
};

Result<std::vector<SampleRecipe>> parse_tsv(std::string_view text) {
  struct Column {
    std::string field;
    FieldRecipe::Kind kind;
  };
  std::vector<Column> columns;
  std::optional<size_t> key_column;
  for (const std::string_view cell : cells(take_line(text))) {
    if (cell == "__key__") {
      if (key_column) return bad_line(1, "two columns are __key__");
      key_column = columns.size();
      columns.push_back({"", FieldRecipe::Kind::kLiteral});
      continue;
    }
    const bool is_file = cell.starts_with('@');
    const std::string_view field = is_file ? cell.substr(1) : cell;
    if (const auto fault = field_fault(field)) return bad_line(1, *fault);
    if (std::ranges::any_of(columns, [&](const Column& other) { return other.field == field; })) {
      return bad_line(1, fmt::format("two columns are {}", field));
    }
    columns.push_back({std::string(field), is_file ? FieldRecipe::Kind::kFile : FieldRecipe::Kind::kLiteral});
  }
  if (!key_column) return bad_line(1, "the first line names the columns, and one must be __key__");
  if (columns.size() < 2) return bad_line(1, "there is no column beside __key__");

  std::vector<SampleRecipe> samples;
  KeyCheck keys;
  for (uint64_t line = 2; !text.empty(); ++line) {
    const std::string_view row = take_line(text);
    if (row.empty()) continue;
    const std::vector<std::string_view> values = cells(row);
    if (values.size() != columns.size()) {
      return bad_line(line, fmt::format("{} columns, the first line has {}", values.size(), columns.size()));
    }
    SampleRecipe sample;
    sample.key = values[*key_column];
    MR_TRY(keys.add(sample.key, line));
    for (size_t i = 0; i < columns.size(); ++i) {
      if (i == *key_column) continue;
      const bool is_file = columns[i].kind == FieldRecipe::Kind::kFile;
      // An empty path: the sample does not have this field.
      if (is_file && values[i].empty()) continue;
      sample.fields.push_back({columns[i].field, columns[i].kind, std::string(values[i]), values[i].size()});
    }
    if (sample.fields.empty()) return bad_line(line, "the sample has no field");
    samples.push_back(std::move(sample));
  }
  return samples;
}

std::optional<FieldRecipe> field_of_json(const std::string& field, const Json& value) {
  const auto literal = [&](std::string text) {
    const size_t size = text.size();
    return FieldRecipe{field, FieldRecipe::Kind::kLiteral, std::move(text), size};
  };
  if (value.is_string()) return literal(value.get<std::string>());
  if (value.is_number() || value.is_boolean()) return literal(value.dump());
  if (!value.is_object() || value.size() != 1) return std::nullopt;
  if (value.contains("file") && value["file"].is_string()) {
    return FieldRecipe{field, FieldRecipe::Kind::kFile, value["file"].get<std::string>(), 0};
  }
  if (value.contains("json")) return literal(value["json"].dump());
  return std::nullopt;
}

Result<std::vector<SampleRecipe>> parse_json_lines(std::string_view text) {
  std::vector<SampleRecipe> samples;
  KeyCheck keys;
  for (uint64_t line = 1; !text.empty(); ++line) {
    const std::string_view row = take_line(text);
    if (row.find_first_not_of(" \t") == std::string_view::npos) continue;
    // Printing a value recurses once per level, so levels are bounded while it is read.
    constexpr int kMaxDepth = 64;
    bool too_deep = false;
    const Json object = Json::parse(
        row,
        [&](int depth, Json::parse_event_t, Json&) {
          too_deep |= depth > kMaxDepth;
          return depth <= kMaxDepth;
        },
        false);
    if (too_deep) return bad_line(line, "nested too deeply");
    if (!object.is_object()) return bad_line(line, "not a JSON object");
    if (!object.contains("__key__") || !object["__key__"].is_string())
      return bad_line(line, "has no string __key__");
    SampleRecipe sample;
    sample.key = object["__key__"].get<std::string>();
    MR_TRY(keys.add(sample.key, line));
    for (const auto& [field, value] : object.items()) {
      if (field == "__key__") continue;
      if (const auto fault = field_fault(field)) return bad_line(line, *fault);
      std::optional<FieldRecipe> recipe = field_of_json(field, value);
      if (!recipe) {
        return bad_line(
            line,
            fmt::format("field {} must be text, a number, {{\"file\": path}} or {{\"json\": value}}", field));
      }
      sample.fields.push_back(std::move(*recipe));
    }
    if (sample.fields.empty()) return bad_line(line, "the sample has no field");
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace

Result<std::vector<SampleRecipe>> parse_manifest(std::string_view text, ManifestSyntax syntax) {
  return syntax == ManifestSyntax::kTsv ? parse_tsv(text) : parse_json_lines(text);
}

}  // namespace millrace::shard
