// The encoding of a record: docs/formats/drive.md.
#include "store/record.h"

#include "base/crc.h"
#include "store/coding.h"

namespace millrace::store {

namespace {

constexpr uint8_t kFormat = 1;
constexpr uint8_t kDeleted = 1;
constexpr size_t kChecksumBytes = 4;

Error broken(std::string_view why) {
  return make_error(Code::kCorrupt, "record: {}", why);
}

}  // namespace

std::string encode_record(const Record& record) {
  Encoder out;
  out.u8(kFormat);
  out.u8(record.deleted ? kDeleted : 0);
  out.u64(record.version);
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
  out.u32(crc32c(out.bytes()));
  return std::move(out).take();
}

Result<RecordSummary> summarize_record(std::string_view bytes) {
  Decoder in(bytes);
  const uint8_t format = in.u8();
  RecordSummary summary;
  summary.deleted = (in.u8() & kDeleted) != 0;
  summary.version = in.u64();
  summary.head = in.u64();
  summary.size = in.u64();
  summary.modified_ms = static_cast<int64_t>(in.u64());
  summary.etag = in.text();
  if (!in.good()) return broken("it is cut short");
  if (format != kFormat) return make_error(Code::kUnsupported, "record: unknown format {}", format);
  return summary;
}

Result<Record> decode_record(std::string_view bytes) {
  const RecordSummary summary = MR_TRY(summarize_record(bytes));
  if (bytes.size() < kChecksumBytes) return broken("it is cut short");
  const size_t body = bytes.size() - kChecksumBytes;
  if (Decoder(bytes.substr(body)).u32() != crc32c(bytes.substr(0, body))) {
    return broken("its checksum is wrong");
  }

  Record record;
  record.version = summary.version;
  record.head = summary.head;
  record.size = summary.size;
  record.modified_ms = summary.modified_ms;
  record.deleted = summary.deleted;
  record.etag = summary.etag;
  Decoder in(bytes.substr(0, body));
  in.raw(2 + 4 * 8);
  in.text();
  record.crc32c = in.u32();
  record.headers = in.pairs();
  record.tags = in.pairs();
  const uint32_t pieces = in.u32();
  if (pieces > kMaxParts) return broken("it has too many pieces");
  uint64_t total = 0;
  for (uint32_t i = 0; i < pieces && in.good(); ++i) {
    Piece piece;
    piece.file = in.u64();
    piece.size = in.u64();
    if (piece.size > kMaxObjectBytes) return broken("a piece is too large");
    total += piece.size;
    record.pieces.push_back(piece);
  }
  const uint8_t shard = in.u8();
  record.shard = static_cast<ShardState>(shard);
  record.shard_samples = in.u64();
  record.shard_index_offset = in.u64();
  record.shard_index_size = in.u64();
  if (!in.good() || in.left() != 0) return broken("its parts do not add up");
  if (shard > static_cast<uint8_t>(ShardState::kInvalid)) return broken("unknown shard state");
  if (!record.pieces.empty() && total != record.size) return broken("its pieces are not its size");
  if (record.pieces.empty() && record.size > kInlineBytes) return broken("it has no pieces");
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
