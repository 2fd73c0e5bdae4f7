// Ledger: what one drive knows of one key: slices that are prepared, and the newest mark.
//
// A mark says that a write was committed. It carries the object's whole record, so that every holder can
// answer HEAD and list. Values; docs/formats/drive.md has the encoding.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "store/coding.h"
#include "store/record.h"

namespace millrace::cluster {

struct ObjectName {
  std::string bucket;
  std::string key;
  auto operator<=>(const ObjectName&) const = default;
};

// A durable slice of a write that is not committed, or not known as such.
struct Prepared {
  store::Spread spread;
  std::string bytes;  // of a small object; of others they are a slice of its own (Shelf)
  bool operator==(const Prepared&) const = default;
};

struct Mark {
  store::Record record;    // with version and spread; a tombstone where it says deleted
  bool complete = false;   // enough holders have this mark: no commit is left to be finished
  bool has_slice = false;  // false: a pointer, the slices are with the spread's holders
  std::string bytes;       // of a small object
  bool operator==(const Mark&) const = default;
};

// Whether a slice of the object lies beside the ledger: not that of a small object, nor that of one that is
// nothing but parts.
inline bool has_slice_beside(const store::Record& record) {
  return !record.pieces.empty() && record.upload.empty();
}

struct Ledger {
  static constexpr size_t kMaxPrepared = 64;

  std::vector<Prepared> prepared;
  std::optional<Mark> mark;

  bool is_empty() const { return prepared.empty() && !mark; }
  // Which slices of the write are here: one, and during a move perhaps another.
  std::vector<unsigned> slots_of(std::string_view write_id) const;
  // The slot of the slice that the spread puts on this drive, if it is here.
  std::optional<unsigned> held_slot(const store::Spread& spread, uint64_t drive) const;
  // Null where the slice is not here.
  const std::string* find_bytes(std::string_view write_id) const;
  bool operator==(const Ledger&) const = default;
};

void encode_ledger(store::Encoder& out, const Ledger& ledger);
Result<Ledger> decode_ledger(store::Decoder& in);

// What a list needs of a ledger, read without copying the rest: views into the encoded one.
struct LedgerSummary {
  store::RecordSummary object;
  bool complete = false;
  std::string_view record;  // encoded
};
// Nothing where there is no mark.
Result<std::optional<LedgerSummary>> summarize_ledger(std::string_view ledger);

}  // namespace millrace::cluster
