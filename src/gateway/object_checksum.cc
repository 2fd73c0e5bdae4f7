// Joins the checksums of parts, and shows an object's checksums.
#include "gateway/object_checksum.h"

#include <algorithm>

#include "base/text.h"
#include "gateway/s3_errors.h"
#include "net/http.h"

namespace millrace::gateway {

namespace {

using store::NameValue;

uint64_t from_big_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (const char c : bytes) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

std::string to_big_endian(uint64_t value, size_t size) {
  std::string bytes(size, 0);
  for (size_t i = size; i-- > 0; value >>= 8) bytes[i] = static_cast<char>(value & 0xff);
  return bytes;
}

bool is_composite(std::string_view value) {
  return value.find('-') != std::string_view::npos;  // which base64 does not have
}

}  // namespace

const std::string* find_header(const std::vector<NameValue>& headers, std::string_view name) {
  const auto found = std::ranges::find(headers, name, &NameValue::first);
  return found == headers.end() ? nullptr : &found->second;
}

std::vector<NameValue> object_checksums(const store::Record& record) {
  std::vector<NameValue> shown;
  bool composite = false;
  for (const NameValue& header : record.headers) {
    if (!net::find_checksum_kind(header.first)) continue;
    composite = composite || is_composite(header.second);
    shown.push_back(header);
  }
  if (!shown.empty()) shown.emplace_back(kChecksumType, composite ? "COMPOSITE" : "FULL_OBJECT");
  return shown;
}

std::string whole_crc(const store::Record& record) {
  return net::to_base64(to_big_endian(record.crc32c, sizeof record.crc32c));
}

void add_checksums(XmlWriter& xml, const std::vector<NameValue>& headers) {
  for (const auto& [name, value] : headers) {
    if (name == kChecksumType) xml.add("ChecksumType", value);
    if (const auto kind = net::find_checksum_kind(name))
      xml.add("Checksum" + std::string(net::checksum_algorithm(*kind)), value);
  }
}

Result<std::optional<ChecksumForm>> find_form(const std::vector<NameValue>& upload_headers) {
  const std::string* algorithm = find_header(upload_headers, kChecksumAlgorithm);
  const auto kind = algorithm != nullptr ? net::find_checksum_algorithm(*algorithm) : std::nullopt;
  if (!kind) return std::optional<ChecksumForm>();
  const bool always_whole = *kind == net::DigestKind::kCrc64Nvme;
  const std::string* type = find_header(upload_headers, kChecksumType);
  const bool whole = type == nullptr ? always_whole : *type == "FULL_OBJECT";
  if ((whole && !net::find_crc(*kind)) || (!whole && always_whole)) {
    return make_error(kInvalidRequest, "{} is not possible with {}", whole ? "FULL_OBJECT" : "COMPOSITE",
                      *algorithm);
  }
  return std::optional(ChecksumForm{*kind, whole});
}

std::optional<std::string> join_checksums(ChecksumForm form, const std::vector<store::PartStatus>& parts) {
  net::Digest composite(form.kind);
  uint64_t combined = 0;
  for (const store::PartStatus& part : parts) {
    const std::string* value = find_header(part.headers, net::checksum_header(form.kind));
    auto raw = value == nullptr ? Result<std::string>(std::string()) : net::from_base64(*value);
    if (!raw || raw->size() != net::digest_bytes(form.kind)) return std::nullopt;
    composite.add(*raw);
    if (!form.whole) continue;
    const uint64_t crc = from_big_endian(*raw);
    combined = &part == &parts.front() ? crc : crc_join(*net::find_crc(form.kind), combined, crc, part.size);
  }
  if (form.whole) return net::to_base64(to_big_endian(combined, net::digest_bytes(form.kind)));
  return fmt::format("{}-{}", net::to_base64(composite.finish()), parts.size());
}

Status check_claim(const NameValue& claim, const std::vector<store::PartStatus>& parts) {
  const auto& [name, value] = claim;
  const net::DigestKind kind = *net::find_checksum_kind(name);
  const auto composite = join_checksums({kind, false}, parts);
  if (!composite) {
    return make_error(kInvalidRequest, "the parts came without {}: it cannot be compared", name);
  }
  if (value == *composite || value == composite->substr(0, composite->find('-'))) return {};
  const auto whole = net::find_crc(kind) ? join_checksums({kind, true}, parts) : std::nullopt;
  if (whole && value == *whole) return {};
  return make_error(kBadDigest, "the object has {} {}, not {}", name, whole ? *whole : *composite,
                    printable(value, 96));
}

}  // namespace millrace::gateway
