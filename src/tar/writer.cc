// Implements Writer: makes headers and pads data to blocks.
#include "tar/writer.h"

#include <cstring>

#include "base/text.h"
#include "tar/format.h"
#include "tar/pax.h"

namespace millrace::tar {

namespace {

constexpr char kZeros[2 * kBlock] = {};
constexpr uint64_t kMaxOctal = (uint64_t{1} << 33) - 1;  // of sizes and times: eleven digits

void put_octal(char* field, size_t width, uint64_t value) {
  const std::string digits = fmt::format("{:0{}o}", value, width - 1);
  std::memcpy(field, digits.data(), width - 1);
}

bool time_fits(int64_t mtime) {
  return mtime >= 0 && static_cast<uint64_t>(mtime) <= kMaxOctal;
}

void put_text(char* field, size_t width, std::string_view text) {
  std::memcpy(field, text.data(), std::min(width, text.size()));
}

// Where a name splits into ustar's prefix and name; npos where it does not fit at all.
size_t prefix_size(std::string_view name) {
  constexpr size_t kName = sizeof Header::name;
  constexpr size_t kPrefix = sizeof Header::prefix;
  if (name.size() <= kName) return 0;
  const size_t slash = name.find('/', name.size() - kName - 1);
  const bool fits =
      slash != std::string_view::npos && slash > 0 && slash <= kPrefix && slash + 1 < name.size();
  return fits ? slash : std::string_view::npos;
}

Header base_header(std::string_view name, uint64_t size, char type) {
  Header header = {};
  const size_t prefix = prefix_size(name);
  if (prefix == std::string_view::npos) {
    put_text(header.name, sizeof header.name, name);
  } else {
    put_text(header.prefix, sizeof header.prefix, name.substr(0, prefix));
    put_text(header.name, sizeof header.name, name.substr(prefix == 0 ? 0 : prefix + 1));
  }
  put_octal(header.uid, sizeof header.uid, 0);
  put_octal(header.gid, sizeof header.gid, 0);
  put_octal(header.size, sizeof header.size, size > kMaxOctal ? 0 : size);
  put_octal(header.device_major, sizeof header.device_major, 0);
  put_octal(header.device_minor, sizeof header.device_minor, 0);
  header.type = type;
  std::memcpy(header.magic, "ustar", 6);
  std::memcpy(header.version, "00", 2);
  return header;
}

void append_block(std::string& blocks, Header header, const Entry& entry) {
  put_octal(header.mode, sizeof header.mode, entry.mode & 07777);
  put_octal(header.mtime, sizeof header.mtime,
            time_fits(entry.mtime) ? static_cast<uint64_t>(entry.mtime) : 0);
  const std::string sum = fmt::format("{:06o}", checksum_of(header));
  std::memcpy(header.checksum, sum.data(), 6);
  header.checksum[7] = ' ';
  blocks.append(reinterpret_cast<const char*>(&header), sizeof header);
}

// What does not fit into the header; empty for nearly every member.
std::string pax_records(const Entry& entry) {
  std::string records;
  if (prefix_size(entry.name) == std::string_view::npos) {
    // pax text is UTF-8; names that are not must say so, or readers refuse them.
    if (!is_utf8(entry.name)) append_pax(records, "hdrcharset", "BINARY");
    append_pax(records, "path", entry.name);
  }
  if (entry.size > kMaxOctal) append_pax(records, "size", std::to_string(entry.size));
  if (!time_fits(entry.mtime)) append_pax(records, "mtime", std::to_string(entry.mtime));
  return records;
}

}  // namespace

uint64_t header_bytes(const Entry& entry) {
  const std::string records = pax_records(entry);
  return records.empty() ? kBlock : 2 * kBlock + padded(records.size());
}

Status ByteSink::write(std::string_view first, std::string_view second) {
  MR_TRY(write(first));
  return write(second);
}

Result<std::string> make_header(const Entry& entry) {
  if (entry.name.empty() || entry.name.find('\0') != std::string_view::npos) {
    return make_error(Code::kInvalid, "a member's name must not be empty nor contain a NUL byte");
  }
  std::string blocks;
  const std::string records = pax_records(entry);
  if (!records.empty()) {
    append_block(blocks, base_header("././@PaxHeader", records.size(), kTypePax), entry);
    blocks += records;
    blocks.resize(padded(blocks.size()));
  }
  append_block(blocks, base_header(entry.name, entry.size, kTypeFile), entry);
  return blocks;
}

Status Writer::add(const Entry& entry, std::string_view bytes) {
  MR_ASSERT(entry.size == bytes.size(), entry.size, bytes.size());
  const std::string header = MR_TRY(make_header(entry));
  MR_TRY(sink_.write(header, bytes));
  offset_ += header.size() + bytes.size();
  return end();
}

Status Writer::begin(const Entry& entry) {
  const std::string header = MR_TRY(make_header(entry));
  MR_TRY(sink_.write(header));
  offset_ += header.size();
  data_left_ = entry.size;
  return {};
}

Status Writer::data(std::string_view bytes) {
  MR_ASSERT(bytes.size() <= data_left_, bytes.size(), data_left_);
  data_left_ -= bytes.size();
  offset_ += bytes.size();
  return sink_.write(bytes);
}

Status Writer::end() {
  MR_ASSERT(data_left_ == 0, data_left_);
  const uint64_t padding = padded(offset_) - offset_;
  offset_ += padding;
  return sink_.write(std::string_view(kZeros, padding));
}

Status Writer::copy(std::string_view blocks) {
  MR_ASSERT(blocks.size() % kBlock == 0, blocks.size());
  offset_ += blocks.size();
  return sink_.write(blocks);
}

Status Writer::finish() {
  MR_TRY(sink_.write(std::string_view(kZeros, sizeof kZeros)));
  offset_ += sizeof kZeros;
  return sink_.finish();
}

}  // namespace millrace::tar
