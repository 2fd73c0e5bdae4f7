// Writing and reading the end of an object's file.
#include "store/trailer.h"

#include <unistd.h>
#include <cerrno>
#include <span>

#include "base/crc.h"
#include "store/coding.h"

namespace millrace::store {

namespace {

constexpr std::string_view kMagic = "MRobject";
constexpr uint32_t kFormat = 1;
// magic, format, data size, index size, body size, checksum of index, checksum of body, checksum of the
// footer.
constexpr size_t kFooterBytes = 8 + 4 + 8 + 8 + 8 + 4 + 4 + 4;

Error broken(const File& file, std::string_view why) {
  return make_error(Code::kCorrupt, "{}: {}", file.name(), why);
}

Result<std::string> read_exactly(const File& file, uint64_t offset, uint64_t size) {
  std::string bytes(size, '\0');
  MR_TRY(file.read_exactly(offset, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

Result<Trailer> decode_body(const File& file, std::string_view body) {
  Decoder in(body);
  Trailer trailer;
  const uint8_t kind = in.u8();
  trailer.file = in.u64();
  trailer.data_size = in.u64();
  trailer.bucket = in.text();
  trailer.key = in.text();
  trailer.upload = in.text();
  trailer.part_number = in.u32();
  trailer.initiated_ms = static_cast<int64_t>(in.u64());
  trailer.upload_headers = in.pairs();
  trailer.upload_tags = in.pairs();
  const std::string_view record = in.text();
  const uint32_t blocks = in.u32();
  const std::string_view crcs = in.raw(size_t{blocks} * 4);
  if (!in.good() || in.left() != 0) return broken(file, "its trailer's parts do not add up");
  if (kind < 1 || kind > 3) return broken(file, "its trailer is of an unknown kind");
  if (blocks != (trailer.data_size + kBlockBytes - 1) / kBlockBytes) {
    return broken(file, "it has not one checksum per block");
  }
  trailer.kind = static_cast<FileKind>(kind);
  trailer.record = MR_TRY(decode_record(record).within(file.name()));
  Decoder crc_in(crcs);
  for (uint32_t i = 0; i < blocks; ++i) trailer.block_crcs.push_back(crc_in.u32());
  return trailer;
}

}  // namespace

std::string encode_trailer(Trailer& trailer) {
  trailer.record.shard_index_size = trailer.shard_index.size();
  trailer.record.shard_index_offset = trailer.shard_index.empty() ? 0 : padded_to_page(trailer.data_size);
  Encoder out;
  out.u8(static_cast<uint8_t>(trailer.kind));
  out.u64(trailer.file);
  out.u64(trailer.data_size);
  out.text(trailer.bucket);
  out.text(trailer.key);
  out.text(trailer.upload);
  out.u32(trailer.part_number);
  out.u64(static_cast<uint64_t>(trailer.initiated_ms));
  out.pairs(trailer.upload_headers);
  out.pairs(trailer.upload_tags);
  out.text(encode_record(trailer.record));
  out.u32(static_cast<uint32_t>(trailer.block_crcs.size()));
  for (const uint32_t crc : trailer.block_crcs) out.u32(crc);
  const std::string body = std::move(out).take();

  Encoder footer;
  footer.raw(kMagic);
  footer.u32(kFormat);
  footer.u64(trailer.data_size);
  footer.u64(trailer.shard_index.size());
  footer.u64(body.size());
  footer.u32(crc32c(trailer.shard_index));
  footer.u32(crc32c(body));
  footer.u32(crc32c(footer.bytes()));
  return trailer.shard_index + body + footer.bytes();
}

Result<Trailer> read_trailer(const File& file, TrailerParts parts) {
  const uint64_t size = MR_TRY(file.size());
  if (size < kFooterBytes) return make_error(Code::kTruncated, "{}: it has no footer", file.name());
  const std::string footer = MR_TRY(read_exactly(file, size - kFooterBytes, kFooterBytes));
  Decoder in(footer);
  const std::string_view magic = in.raw(kMagic.size());
  const uint32_t format = in.u32();
  const uint64_t data_size = in.u64();
  const uint64_t index_size = in.u64();
  const uint64_t body_size = in.u64();
  const uint32_t index_crc = in.u32();
  const uint32_t body_crc = in.u32();
  const uint32_t footer_crc = in.u32();
  if (magic != kMagic) return broken(file, "it has no footer");
  if (footer_crc != crc32c(std::string_view(footer).substr(0, kFooterBytes - 4))) {
    return broken(file, "its footer's checksum is wrong");
  }
  if (format != kFormat) {
    return make_error(Code::kUnsupported, "{}: unknown file format {}", file.name(), format);
  }
  if (data_size > kMaxObjectBytes || index_size > kMaxShardIndexBytes || body_size > kMaxTrailerBytes ||
      padded_to_page(data_size) + index_size + body_size + kFooterBytes != size) {
    return broken(file, "its size is not what the footer says");
  }
  const uint64_t index_at = padded_to_page(data_size);
  const std::string body = MR_TRY(read_exactly(file, index_at + index_size, body_size));
  if (crc32c(body) != body_crc) return broken(file, "its trailer's checksum is wrong");
  Trailer trailer = MR_TRY(decode_body(file, body));
  if (trailer.data_size != data_size) return broken(file, "its trailer and footer disagree");
  if (parts == TrailerParts::kAll && index_size > 0) {
    trailer.shard_index = MR_TRY(read_exactly(file, index_at, index_size));
    if (crc32c(trailer.shard_index) != index_crc) return broken(file, "its shard index's checksum is wrong");
  }
  return trailer;
}

}  // namespace millrace::store
