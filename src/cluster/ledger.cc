// The encoding of ledgers.
#include "cluster/ledger.h"

#include <algorithm>

namespace millrace::cluster {

namespace {

constexpr uint8_t kFormat = 1;
constexpr uint8_t kHasMark = 1;
constexpr uint8_t kComplete = 2;
constexpr uint8_t kHasSlice = 4;

Error cut() {
  return make_error(Code::kCorrupt, "ledger: it is cut short");
}

}  // namespace

std::vector<unsigned> Ledger::slots_of(std::string_view write_id) const {
  std::vector<unsigned> slots;
  if (mark && mark->has_slice && mark->record.spread.write_id == write_id)
    slots.push_back(mark->record.spread.slot);
  for (const Prepared& one : prepared) {
    if (one.spread.write_id == write_id) slots.push_back(one.spread.slot);
  }
  return slots;
}

std::optional<unsigned> Ledger::held_slot(const store::Spread& spread, uint64_t drive) const {
  for (const unsigned slot : slots_of(spread.write_id)) {
    if (slot < spread.holders.size() && spread.holders[slot] == drive) return slot;
  }
  return std::nullopt;
}

const std::string* Ledger::find_bytes(std::string_view write_id) const {
  if (mark && mark->has_slice && mark->record.spread.write_id == write_id) return &mark->bytes;
  const auto found =
      std::ranges::find_if(prepared, [&](const Prepared& one) { return one.spread.write_id == write_id; });
  return found == prepared.end() ? nullptr : &found->bytes;
}

void encode_ledger(store::Encoder& out, const Ledger& ledger) {
  uint8_t flags = ledger.mark ? kHasMark : 0;
  if (ledger.mark && ledger.mark->complete) flags |= kComplete;
  if (ledger.mark && ledger.mark->has_slice) flags |= kHasSlice;
  out.u8(kFormat);
  out.u8(flags);
  out.u8(static_cast<uint8_t>(ledger.prepared.size()));
  for (const Prepared& slice : ledger.prepared) {
    store::Record record;  // a spread has no encoding of its own
    record.spread = slice.spread;
    out.text(store::encode_record(record));
    out.text(slice.bytes);
  }
  if (!ledger.mark) return;
  out.text(store::encode_record(ledger.mark->record));
  out.text(ledger.mark->bytes);
}

namespace {

// The first bytes of a ledger: its flags and how many slices are prepared.
struct Head {
  uint8_t flags = 0;
  uint8_t prepared = 0;
};

Result<Head> decode_head(store::Decoder& in) {
  const uint8_t format = in.u8();
  const Head head{in.u8(), in.u8()};
  if (!in.good()) return cut();
  if (format != kFormat) return make_error(Code::kUnsupported, "ledger: unknown format {}", format);
  return head;
}

}  // namespace

Result<Ledger> decode_ledger(store::Decoder& in) {
  const Head head = MR_TRY(decode_head(in));
  Ledger ledger;
  for (uint8_t left = head.prepared; left > 0; --left) {
    const store::Record record = MR_TRY(store::decode_record(in.text()).within("ledger: a prepared slice"));
    ledger.prepared.push_back({record.spread, std::string(in.text())});
  }
  if ((head.flags & kHasMark) != 0) {
    Mark mark;
    mark.record = MR_TRY(store::decode_record(in.text()).within("ledger: the mark"));
    mark.complete = (head.flags & kComplete) != 0;
    mark.has_slice = (head.flags & kHasSlice) != 0;
    mark.bytes = in.text();
    ledger.mark = std::move(mark);
  }
  if (!in.good()) return cut();
  return ledger;
}

Result<std::optional<LedgerSummary>> summarize_ledger(std::string_view ledger) {
  store::Decoder in(ledger);
  const Head head = MR_TRY(decode_head(in));
  if ((head.flags & kHasMark) == 0) return std::optional<LedgerSummary>();
  for (uint8_t left = head.prepared; left > 0; --left) {
    in.text();
    in.text();
  }
  LedgerSummary summary;
  summary.record = in.text();
  if (!in.good()) return cut();
  summary.object = MR_TRY(store::summarize_record(summary.record).within("ledger: the mark"));
  summary.complete = (head.flags & kComplete) != 0;
  return std::optional(summary);
}

}  // namespace millrace::cluster
