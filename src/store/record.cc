// The encoding of a record: docs/formats/drive.md.
#include "store/record.h"

#include "base/crc.h"
#include "store/coding.h"

namespace millrace::store {

namespace {

constexpr uint8_t kOldFormat = 1;  // without spread, epoch and node
constexpr uint8_t kFormat = 2;
// Flags. What one machine alone never has takes no room there.
constexpr uint8_t kDeleted = 1;
constexpr uint8_t kHasEpoch = 2;   // epoch and node follow the version's counter
constexpr uint8_t kHasSpread = 4;  // the spread is not 1+0
constexpr uint8_t kHasUpload = 8;  // the object is the parts of an upload
constexpr uint8_t kAllFlags = kDeleted | kHasEpoch | kHasSpread | kHasUpload;
constexpr size_t kChecksumBytes = 4;
constexpr size_t kPieceBytes = 16;         // file and size
constexpr size_t kShardBytes = 1 + 3 * 8;  // state, samples, offset and size of the index

Error broken(std::string_view why) {
  return make_error(Code::kCorrupt, "record: {}", why);
}

uint8_t flags_of(const Record& record) {
  uint8_t flags = record.deleted ? kDeleted : 0;
  if (record.version.epoch != 0 || record.version.node != 0) flags |= kHasEpoch;
  if (record.spread != Spread()) flags |= kHasSpread;
  if (!record.upload.empty()) flags |= kHasUpload;
  return flags;
}

void encode_spread(Encoder& out, const Spread& spread) {
  out.u8(spread.k);
  out.u8(spread.m);
  out.u8(spread.slot);
  out.u32(spread.cell);
  out.text(spread.write_id);
  out.u8(static_cast<uint8_t>(spread.holders.size()));
  for (const uint64_t holder : spread.holders) out.u64(holder);
}

Result<Spread> decode_spread(Decoder& in) {
  Spread spread;
  spread.k = in.u8();
  spread.m = in.u8();
  spread.slot = in.u8();
  spread.cell = in.u32();
  spread.write_id = in.text();
  for (uint8_t left = in.u8(); left > 0 && in.good(); --left) spread.holders.push_back(in.u64());
  const size_t slices = size_t{spread.k} + spread.m;
  if (spread.k == 0 || slices > kMaxSlices || spread.slot >= slices)
    return broken("its slices are impossible");
  if (spread.k > 1 && spread.cell == 0) return broken("its slices have no cells");
  if (spread.holders.size() > slices) return broken("it has more holders than slices");
  if (!spread.write_id.empty() && spread.write_id.size() != kWriteIdBytes)
    return broken("its write id is none");
  return spread;
}

// The head of a record, and where its rest begins.
struct Opening {
  RecordSummary summary;
  uint8_t flags = 0;
  Decoder rest;
};

Result<Opening> open_record(std::string_view bytes) {
  Decoder in(bytes);
  const uint8_t format = in.u8();
  const uint8_t flags = in.u8();
  RecordSummary summary;
  summary.deleted = (flags & kDeleted) != 0;
  summary.version.counter = in.u64();
  if (format == kFormat && (flags & kHasEpoch) != 0) {
    summary.version.epoch = in.u32();
    summary.version.node = in.u32();
  }
  summary.head = in.u64();
  summary.size = in.u64();
  summary.modified_ms = static_cast<int64_t>(in.u64());
  summary.etag = in.text();
  if (!in.good()) return broken("it is cut short");
  if (format != kFormat && format != kOldFormat)
    return make_error(Code::kUnsupported, "record: unknown format {}", format)
        .with_hint("a newer version of this software wrote it");
  if ((flags & ~(format == kFormat ? kAllFlags : kDeleted)) != 0) return broken("unknown flags");
  return Opening{summary, flags, in};
}

}  // namespace

std::string encode_record(const Record& record) {
  Encoder out;
  const uint8_t flags = flags_of(record);
  out.u8(kFormat);
  out.u8(flags);
  out.u64(record.version.counter);
  if ((flags & kHasEpoch) != 0) {
    out.u32(record.version.epoch);
    out.u32(record.version.node);
  }
  out.u64(record.head);
  out.u64(record.size);
  out.u64(static_cast<uint64_t>(record.modified_ms));
  out.text(record.etag);
  out.u32(record.crc32c);
  out.pairs(record.headers);
  out.pairs(record.tags);
  out.u32(static_cast<uint32_t>(record.pieces.size()));
  for (const Piece& piece : record.pieces) {
    out.u64(piece.file);
    out.u64(piece.size);
  }
  out.u8(static_cast<uint8_t>(record.shard));
  out.u64(record.shard_samples);
  out.u64(record.shard_index_offset);
  out.u64(record.shard_index_size);
  if ((flags & kHasSpread) != 0) encode_spread(out, record.spread);
  if ((flags & kHasUpload) != 0) out.text(record.upload);
  out.u32(crc32c(out.bytes()));
  return std::move(out).take();
}

bool is_old_record(std::string_view bytes) {
  return !bytes.empty() && static_cast<uint8_t>(bytes.front()) == kOldFormat;
}

Result<RecordSummary> summarize_record(std::string_view bytes) {
  return MR_TRY(open_record(bytes)).summary;
}

Result<Spread> decode_spread_of(std::string_view record) {
  if (record.size() < kChecksumBytes) return broken("it is cut short");
  Opening opening = MR_TRY(open_record(record.substr(0, record.size() - kChecksumBytes)));
  if ((opening.flags & kHasSpread) == 0) return Spread();
  Decoder& in = opening.rest;
  in.u32();  // crc32c
  in.skip_pairs();
  in.skip_pairs();
  in.raw(size_t{in.u32()} * kPieceBytes);
  in.raw(kShardBytes);
  Spread spread = MR_TRY(decode_spread(in));
  if (!in.good()) return broken("it is cut short");
  return spread;
}

namespace {

Status check_sizes(const Record& record) {
  uint64_t total = 0;
  for (const Piece& piece : record.pieces) total += piece.size;
  if (!record.pieces.empty() && total != record.size) return broken("its pieces are not its size");
  if (record.pieces.empty() && record.size > kInlineBytes) return broken("it has no pieces");
  return {};
}

Result<std::vector<Piece>> decode_pieces(Decoder& in) {
  const uint32_t count = in.u32();
  if (count > kMaxParts) return broken("it has too many pieces");
  std::vector<Piece> pieces;
  for (uint32_t i = 0; i < count && in.good(); ++i) {
    Piece piece;
    piece.file = in.u64();
    piece.size = in.u64();
    if (piece.size > kMaxObjectBytes) return broken("a piece is too large");
    pieces.push_back(piece);
  }
  return pieces;
}

}  // namespace

Result<Record> decode_record(std::string_view bytes) {
  if (bytes.size() < kChecksumBytes) return broken("it is cut short");
  const size_t body = bytes.size() - kChecksumBytes;
  // Before the checksum: a format of tomorrow may have another one.
  Opening opening = MR_TRY(open_record(bytes.substr(0, body)));
  if (Decoder(bytes.substr(body)).u32() != crc32c(bytes.substr(0, body))) {
    return broken("its checksum is wrong");
  }
  const RecordSummary& summary = opening.summary;
  Record record;
  record.version = summary.version;
  record.head = summary.head;
  record.size = summary.size;
  record.modified_ms = summary.modified_ms;
  record.deleted = summary.deleted;
  record.etag = summary.etag;
  Decoder& in = opening.rest;
  record.crc32c = in.u32();
  record.headers = in.pairs();
  record.tags = in.pairs();
  record.pieces = MR_TRY(decode_pieces(in));
  const uint8_t shard = in.u8();
  record.shard = static_cast<ShardState>(shard);
  record.shard_samples = in.u64();
  record.shard_index_offset = in.u64();
  record.shard_index_size = in.u64();
  if ((opening.flags & kHasSpread) != 0) record.spread = MR_TRY(decode_spread(in));
  const bool in_parts = (opening.flags & kHasUpload) != 0;
  if (in_parts) record.upload = in.text();
  if (!in.good() || in.left() != 0) return broken("its parts do not add up");
  if (shard > static_cast<uint8_t>(ShardState::kInvalid)) return broken("unknown shard state");
  if (in_parts &&
      (record.upload.empty() || record.upload.size() > kMaxUploadIdBytes || record.pieces.empty()))
    return broken("its upload is none");
  MR_TRY(check_sizes(record));
  return record;
}

std::vector<uint64_t> files_of(const Record& record) {
  std::vector<uint64_t> files;
  files.reserve(record.pieces.size() + 1);
  bool head_seen = record.head == 0;
  for (const Piece& piece : record.pieces) {
    files.push_back(piece.file);
    if (piece.file == record.head) head_seen = true;
  }
  if (!head_seen) files.push_back(record.head);
  return files;
}

}  // namespace millrace::store
