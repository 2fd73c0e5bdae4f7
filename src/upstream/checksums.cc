// Reads the headers in which servers say checksums.
#include "upstream/checksums.h"

#include <algorithm>

#include "base/text.h"

namespace millrace::upstream {

namespace {

using net::DigestKind;

// In the order of what they cost.
constexpr DigestKind kCheapestFirst[] = {DigestKind::kCrc32c, DigestKind::kCrc64Nvme, DigestKind::kCrc32,
                                         DigestKind::kSha1,   DigestKind::kSha256,    DigestKind::kMd5};

class Finder {
 public:
  void offer(DigestKind kind, Result<std::string> raw, std::string_view header) {
    if (!raw || raw->size() != net::digest_bytes(kind)) return;
    if (best_ && cost(kind) >= cost(best_->kind)) return;
    best_ = Checksum{kind, raw.take(), std::string(header)};
  }
  std::optional<Checksum> take() { return std::move(best_); }

 private:
  static size_t cost(DigestKind kind) {
    return static_cast<size_t>(std::ranges::find(kCheapestFirst, kind) - std::begin(kCheapestFirst));
  }
  std::optional<Checksum> best_;
};

// "crc32c=n03x6A==,md5=Ojk9c3dhfxgoKVVHYwFbHQ=="
void offer_google(Finder& finder, std::string_view text) {
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = trim(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (item.starts_with("crc32c="))
      finder.offer(DigestKind::kCrc32c, net::from_base64(item.substr(7)), "x-goog-hash");
    if (item.starts_with("md5="))
      finder.offer(DigestKind::kMd5, net::from_base64(item.substr(4)), "x-goog-hash");
  }
}

const std::string* find(const std::vector<net::HeaderField>& headers, std::string_view name) {
  const auto found = std::ranges::find(headers, name, &net::HeaderField::first);
  return found == headers.end() ? nullptr : &found->second;
}

// Encrypted with keys of the customer or of a key service, the ETag of S3 is no MD5 of the content.
bool hides_md5(const std::vector<net::HeaderField>& headers) {
  const std::string* encryption = find(headers, "x-amz-server-side-encryption");
  return (encryption != nullptr && encryption->starts_with("aws:kms")) ||
         find(headers, "x-amz-server-side-encryption-customer-algorithm") != nullptr;
}

}  // namespace

std::string crc32c_bytes(uint32_t crc32c) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(crc32c >> shift);
  return bytes;
}

std::optional<Checksum> find_checksum(const std::vector<net::HeaderField>& headers, Etags etags) {
  Finder finder;
  const std::string* type = find(headers, "x-amz-checksum-type");
  const bool composite = type != nullptr && *type == "COMPOSITE";
  // A coding that the server adds on the way changes the bytes that come, not those that its checksums mean.
  if (find(headers, "content-encoding") != nullptr && etags == Etags::kOpaque) return std::nullopt;
  for (const auto& [name, value] : headers) {
    const auto kind = net::find_checksum_kind(name);
    // A checksum of checksums says nothing about the bytes in a row.
    if (kind && !composite && value.find('-') == std::string::npos)
      finder.offer(*kind, net::from_base64(value), name);
    if (name == "x-millrace-crc32c") finder.offer(DigestKind::kCrc32c, net::from_base64(value), name);
    if (name == "content-md5") finder.offer(DigestKind::kMd5, net::from_base64(value), name);
    if (name == "x-goog-hash") offer_google(finder, value);
  }
  const std::string* tag = find(headers, "etag");
  const bool is_hex = tag != nullptr && tag->size() == 34 && tag->front() == '"' && tag->back() == '"';
  if (etags == Etags::kMayBeMd5 && is_hex && !hides_md5(headers))
    finder.offer(DigestKind::kMd5, net::from_hex(std::string_view(*tag).substr(1, 32)), "etag");
  return finder.take();
}

Verifier::Verifier(std::optional<Checksum> expected) : expected_(std::move(expected)) {
  if (expected_ && expected_->kind != DigestKind::kCrc32c) digest_.emplace(expected_->kind);
}

void Verifier::add(std::string_view bytes) {
  if (digest_) digest_->add(bytes);
}

Status Verifier::finish(uint32_t crc32c) {
  if (!expected_) return {};
  const std::string actual = digest_ ? digest_->finish() : crc32c_bytes(crc32c);
  if (actual == expected_->value) return {};
  return make_error(Code::kCorrupt, "the bytes that came have {} {}, and {} says {}",
                    net::checksum_algorithm(expected_->kind), net::to_hex(actual), expected_->header,
                    net::to_hex(expected_->value));
}

}  // namespace millrace::upstream
