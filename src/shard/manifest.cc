// Parses manifests: TSV with a header line, one JSON object a line, or one JSON document with images and
// annotations.
#include "shard/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/text.h"

namespace millrace::shard {

namespace {

using Json = nlohmann::json;

// Where a record stands.
struct At {
  std::string_view kind;  // "line", "image"
  uint64_t number = 0;    // from 1
};

Error bad_record(At at, std::string_view why) {
  return make_error(Code::kInvalid, "manifest {} {}: {}", at.kind, at.number, why)
      .with_hint("see docs/formats/manifest.md");
}

Error bad_line(uint64_t line, std::string_view why) {
  return bad_record({"line", line}, why);
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
  Status add(const std::string& key, At at) {
    if (const auto fault = key_fault(key)) return bad_record(at, *fault);
    if (!seen_.insert(key).second) return bad_record(at, fmt::format("key \"{}\" came before", key));
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
    MR_TRY(keys.add(sample.key, {"line", line}));
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

// Printing a value recurses once per level, so levels are bounded while it is read.
struct Parsed {
  Json value;  // discarded where the text is not JSON
  bool too_deep = false;
};
Parsed parse_bounded(std::string_view text) {
  constexpr int kMaxDepth = 64;
  Parsed parsed;
  parsed.value = Json::parse(
      text,
      [&](int depth, Json::parse_event_t, Json&) {
        parsed.too_deep |= depth > kMaxDepth;
        return depth <= kMaxDepth;
      },
      false);
  return parsed;
}

// Keys are text or whole numbers: 7 and "7" are the same key.
std::optional<std::string> key_text(const Json& record, const std::string& column) {
  const auto found = record.find(column);
  if (found == record.end()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  return found->is_number_integer() ? std::optional(found->dump()) : std::nullopt;
}

Status add_fields(SampleRecipe& sample, const Json& record, const std::string& key_column, At at) {
  for (const auto& [field, value] : record.items()) {
    if (field == key_column) continue;
    if (const auto fault = field_fault(field)) return bad_record(at, *fault);
    std::optional<FieldRecipe> recipe = field_of_json(field, value);
    if (!recipe) {
      return bad_record(
          at,
          fmt::format("field {} must be text, a number, {{\"file\": path}} or {{\"json\": value}}", field));
    }
    sample.fields.push_back(std::move(*recipe));
  }
  return {};
}

// The file becomes the field that its ending names, the record itself the field json.
Status add_file_and_record(SampleRecipe& sample, const Json& record, const std::string& column, At at) {
  const auto file = record.find(column);
  if (file == record.end() || !file->is_string())
    return bad_record(at, fmt::format("has no text {}, which --file names", column));
  const std::string path = file->get<std::string>();
  const size_t dot = path.rfind('.');
  const std::string field = dot == std::string::npos ? "" : lower_case(path.substr(dot + 1));
  if (field_fault(field))
    return bad_record(at,
                      fmt::format("the file \"{}\" has no ending that could name a field", printable(path)));
  if (field == "json")
    return bad_record(
        at, fmt::format("the file \"{}\" would be field json, which the record is", printable(path)));
  sample.fields.push_back({field, FieldRecipe::Kind::kFile, path, 0});
  std::string text = record.dump();
  const size_t size = text.size();
  sample.fields.push_back({"json", FieldRecipe::Kind::kLiteral, std::move(text), size});
  return {};
}

Result<SampleRecipe> sample_of(const Json& record, const ManifestColumns& columns, At at) {
  if (!record.is_object()) return bad_record(at, "not a JSON object");
  std::optional<std::string> key = key_text(record, columns.key);
  if (!key) return bad_record(at, fmt::format("has no text or whole number {}", columns.key));
  SampleRecipe sample;
  sample.key = std::move(*key);
  if (columns.file.empty())
    MR_TRY(add_fields(sample, record, columns.key, at));
  else
    MR_TRY(add_file_and_record(sample, record, columns.file, at));
  if (sample.fields.empty()) return bad_record(at, "the sample has no field");
  return sample;
}

Result<std::vector<SampleRecipe>> parse_json_lines(std::string_view text, const ManifestColumns& columns) {
  std::vector<SampleRecipe> samples;
  KeyCheck keys;
  for (uint64_t line = 1; !text.empty(); ++line) {
    const std::string_view row = take_line(text);
    if (row.find_first_not_of(" \t") == std::string_view::npos) continue;
    const Parsed parsed = parse_bounded(row);
    if (parsed.too_deep) return bad_line(line, "nested too deeply");
    SampleRecipe sample = MR_TRY(sample_of(parsed.value, columns, {"line", line}));
    MR_TRY(keys.add(sample.key, {"line", line}));
    samples.push_back(std::move(sample));
  }
  return samples;
}

// Each annotation goes into the list "annotations" of the image that its image_id names.
Status hand_out_annotations(Json& images, Json& annotations, const std::string& key_column) {
  std::unordered_map<std::string, Json*> by_key;
  for (Json& image : images) {
    if (!image.is_object()) continue;  // told of when its sample is made
    if (image.contains("annotations"))
      return make_error(Code::kInvalid,
                        "images have annotations already, and there is a list of them beside");
    image["annotations"] = Json::array();
    if (const auto key = key_text(image, key_column)) by_key.emplace(*key, &image);
  }
  uint64_t number = 0;
  for (Json& annotation : annotations) {
    const At at{"annotation", ++number};
    const auto image = annotation.is_object() ? key_text(annotation, "image_id") : std::nullopt;
    if (!image) return bad_record(at, "has no image_id");
    const auto found = by_key.find(*image);
    if (found == by_key.end())
      return bad_record(at, fmt::format("image_id {} is no {} of an image", printable(*image), key_column));
    (*found->second)["annotations"].push_back(std::move(annotation));
  }
  return {};
}

Result<std::vector<SampleRecipe>> parse_json_document(std::string_view text, const ManifestColumns& columns) {
  Parsed parsed = parse_bounded(text);
  if (parsed.too_deep) return make_error(Code::kInvalid, "the manifest is nested too deeply");
  Json& document = parsed.value;
  if (document.is_discarded())
    return make_error(Code::kInvalid, "the manifest is not JSON")
        .with_hint("a file with one JSON object a line must be called .jsonl");
  const bool has_images =
      document.is_object() && document.contains("images") && document["images"].is_array();
  if (!has_images && !document.is_array())
    return make_error(Code::kInvalid, "the manifest is neither a list nor an object with a list of images")
        .with_hint("see docs/formats/manifest.md");
  Json& images = document.is_array() ? document : document["images"];
  if (has_images && document.contains("annotations")) {
    if (!document["annotations"].is_array())
      return make_error(Code::kInvalid, "the manifest's annotations are no list");
    MR_TRY(hand_out_annotations(images, document["annotations"], columns.key));
  }
  std::vector<SampleRecipe> samples;
  KeyCheck keys;
  for (Json& image : images) {
    const At at{"image", samples.size() + 1};
    samples.push_back(MR_TRY(sample_of(image, columns, at)));
    MR_TRY(keys.add(samples.back().key, at));
    image = Json();  // its text is enough, and a data set has hundreds of megabytes of this
  }
  return samples;
}

}  // namespace

Result<std::vector<SampleRecipe>> parse_manifest(std::string_view text, ManifestSyntax syntax,
                                                 const ManifestColumns& columns) {
  switch (syntax) {
    case ManifestSyntax::kTsv:
      return parse_tsv(text);
    case ManifestSyntax::kJsonLines:
      return parse_json_lines(text, columns);
    case ManifestSyntax::kJson:
      return parse_json_document(text, columns);
  }
  return make_error(Code::kInvalid, "unknown syntax of a manifest");
}

}  // namespace millrace::shard
