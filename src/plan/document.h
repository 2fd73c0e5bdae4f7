// A TOML document as a tree that knows where each key and value stands, and Fields, which reads one table of
// it strictly: every value has a kind, and a key that nobody asked for is an error that names the nearest
// one.
//
// Values; no threads. Nothing of the TOML library shows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace millrace::plan {

struct Position {
  uint32_t line = 0;  // 0: not from a file
  uint32_t column = 0;
};

struct Value {
  enum class Kind { kText, kWhole, kReal, kFlag, kList, kTable, kOther };
  Kind kind = Kind::kTable;
  Position at;
  std::string text;  // also numbers as they were understood
  int64_t whole = 0;
  double real = 0;
  std::vector<Value> items;
  struct Field;
  std::vector<Field> fields;

  const Value* find(std::string_view key) const;
};

struct Value::Field {
  std::string key;
  Position at;
  Value value;
};

struct Document {
  std::string name;  // for messages: the file's
  Value root;

  std::string place(Position at) const;  // "plan.toml:3:7"
};

constexpr uint64_t kMostDocumentBytes = 1 << 20;

Result<Document> parse_document(std::string_view toml, std::string name);
Result<Document> read_document(const std::string& path);

// store.shelf.drives=24: the table [[store]] whose name is shelf; workload.fraction=0.3;
// part.nvme.read=5GB/s.
Status set_value(Document& document, std::string_view key, std::string_view text);

class Fields {
 public:
  // `table` outlives this. `what` is for messages: "[[store]] shelf".
  Fields(const Document& document, const Value& table, std::string what)
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
  const Value* ask(std::string_view key);

  const Document& document_;
  const Value& table_;
  std::string what_;
  std::vector<std::string> known_;
  std::optional<Error> error_;
};

}  // namespace millrace::plan
