// A TOML document as a tree that knows where each key and value stands, and TomlFields, which reads one table
// of it strictly: every value has a kind, and a key that nobody asked for is an error that names the nearest
// one.
//
// The only reader of TOML: settings and plans both come through it. Values; no threads. Nothing of the TOML
// library shows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace millrace {

struct TomlPosition {
  uint32_t line = 0;  // 0: not from a file
  uint32_t column = 0;
};

struct TomlValue {
  enum class Kind { kText, kWhole, kReal, kFlag, kList, kTable, kOther };
  Kind kind = Kind::kTable;
  TomlPosition at;
  std::string text;  // also numbers as they were understood
  int64_t whole = 0;
  double real = 0;
  std::vector<TomlValue> items;
  struct Field;
  std::vector<Field> fields;

  // Text, a number or a flag.
  bool is_plain() const;
  const TomlValue* find(std::string_view key) const;
  // The field of this name, made as an empty table where there is none.
  TomlValue& field(std::string_view key);
};

struct TomlValue::Field {
  std::string key;
  TomlPosition at;
  TomlValue value;
};

struct TomlDocument {
  std::string name;  // for messages: the file's
  TomlValue root;

  std::string place(TomlPosition at) const;  // "plan.toml:3:7"
};

constexpr uint64_t kMostTomlBytes = 1 << 20;

Result<TomlDocument> parse_toml(std::string_view toml, std::string name);
Result<TomlDocument> read_toml(const std::string& path);

// 24 and 0.3 are numbers, everything else is text; without a position.
TomlValue make_toml_value(std::string_view word);

class TomlFields {
 public:
  // `table` outlives this. `what` is for messages: "[[store]] shelf".
  TomlFields(const TomlDocument& document, const TomlValue& table, std::string what)
      : document_(document), table_(table), what_(std::move(what)) {}

  bool has(std::string_view key);
  std::string text(std::string_view key, std::string fallback = "");
  // One of several words.
  std::string word(std::string_view key, const std::vector<std::string>& words);
  uint64_t count(std::string_view key, uint64_t fallback);
  uint64_t bytes(std::string_view key, uint64_t fallback = 0);
  uint64_t rate(std::string_view key, uint64_t fallback = 0);
  double real(std::string_view key, double fallback = 0);

  // Where the key stands, or the table where it is missing.
  std::string place(std::string_view key) const;
  Error wrong(std::string_view key, std::string_view why) const;
  void fail(Error error);
  // The first thing that was wrong, or a key that is not known.
  Status finish();

 private:
  const TomlValue* ask(std::string_view key);

  const TomlDocument& document_;
  const TomlValue& table_;
  std::string what_;
  std::vector<std::string> known_;
  std::optional<Error> error_;
};

}  // namespace millrace
