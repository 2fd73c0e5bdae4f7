// The encoding of ledgers.
#include "cluster/ledger.h"

#include <algorithm>

namespace millrace::cluster {

namespace {

constexpr uint8_t kFormat = 1;
constexpr uint8_t kHasMark = 1;
constexpr uint8_t kComplete = 2;
constexpr uint8_t kHasSlice = 4;

}  // namespace

bool Ledger::has_slice(std::string_view write_id) const {
  if (mark && mark->has_slice && mark->record.spread.write_id == write_id) return true;
  return std::ranges::find(prepared, write_id, &store::Spread::write_id) != prepared.end();
}

void encode_ledger(store::Encoder& out, const Ledger& ledger) {
  uint8_t flags = ledger.mark ? kHasMark : 0;
  if (ledger.mark && ledger.mark->complete) flags |= kComplete;
  if (ledger.mark && ledger.mark->has_slice) flags |= kHasSlice;
  out.u8(kFormat);
  out.u8(flags);
  out.u8(static_cast<uint8_t>(ledger.prepared.size()));
  for (const store::Spread& spread : ledger.prepared) {
    store::Record record;  // a spread has no encoding of its own
    record.spread = spread;
    out.text(store::encode_record(record));
  }
  if (ledger.mark) out.text(store::encode_record(ledger.mark->record));
}

Result<Ledger> decode_ledger(store::Decoder& in) {
  const uint8_t format = in.u8();
  const uint8_t flags = in.u8();
  if (!in.good()) return make_error(Code::kCorrupt, "ledger: it is cut short");
  if (format != kFormat) return make_error(Code::kUnsupported, "ledger: unknown format {}", format);
  Ledger ledger;
  for (uint8_t left = in.u8(); left > 0; --left) {
    const store::Record record = MR_TRY(store::decode_record(in.text()).within("ledger: a prepared slice"));
    ledger.prepared.push_back(record.spread);
  }
  if ((flags & kHasMark) != 0) {
    ledger.mark = Mark{MR_TRY(store::decode_record(in.text()).within("ledger: the mark")),
                       (flags & kComplete) != 0, (flags & kHasSlice) != 0};
  }
  if (!in.good()) return make_error(Code::kCorrupt, "ledger: it is cut short");
  return ledger;
}

}  // namespace millrace::cluster
