// Receives a request body into a writer, and checks it against all that the client claims.
#include "gateway/upload_body.h"

#include <algorithm>
#include <cstring>

#include "base/number.h"
#include "base/text.h"

namespace millrace::gateway {

namespace {

constexpr size_t kChunkBuffer = 128 << 10;

Result<std::string> decode_digest(std::string_view text, net::DigestKind kind, std::string_view name) {
  auto raw = net::from_base64(text);
  const size_t length = net::digest_bytes(kind);
  if (!raw || raw->size() != length) {
    return make_error(kInvalidDigest, "{} is not the base64 of {} bytes", name, length);
  }
  return raw;
}

// Whether the Content-Encoding says that the body comes in aws-chunked form.
bool says_aws_chunked(const net::RequestHead& request) {
  for (const std::string& word : split_words(request.get("content-encoding"))) {
    if (net::equal_names(word, "aws-chunked")) return true;
  }
  return false;
}

}  // namespace

std::vector<store::NameValue> claimed_checksums(const Call& call) {
  std::vector<store::NameValue> claims;
  for (const net::HeaderView& header : call.request().headers) {
    if (header.name.size() < 15) continue;
    std::string name = lower_case(header.name);
    if (net::find_checksum_kind(name)) claims.emplace_back(std::move(name), header.value);
  }
  for (const auto& [name, value] : call.query) {
    std::string lower = lower_case(name);
    if (net::find_checksum_kind(lower)) claims.emplace_back(std::move(lower), value);
  }
  return claims;
}

namespace {

enum class OwnChecksum : uint8_t { kNo, kYes };

// Up to which size the etag is an MD5.
uint64_t most_md5(const Call& call, store::EtagMode mode, OwnChecksum own) {
  if (mode == store::EtagMode::kMd5) return store::kMaxObjectBytes;
  if (mode == store::EtagMode::kFast) return 0;
  return own == OwnChecksum::kNo && looks_signed(call.request()) ? kMd5Bytes : kMd5AlwaysBytes;
}

}  // namespace

Status UploadBody::expect_checksums(const Call& call) {
  if (const auto md5 = call.request().find("content-md5")) {
    std::string raw = MR_TRY(decode_digest(*md5, net::DigestKind::kMd5, "Content-MD5"));
    expected_.push_back({net::Digest(net::DigestKind::kMd5), std::move(raw), "", &kBadDigest});
  }
  for (const auto& [name, value] : claimed_checksums(call)) {
    const net::DigestKind kind = *net::find_checksum_kind(name);
    std::string raw = MR_TRY(decode_digest(value, kind, name));
    expected_.push_back({net::Digest(kind), std::move(raw), name, &kBadDigest});
  }
  for (const std::string& name : split_words(lower_case(call.request().get("x-amz-trailer")))) {
    const auto kind = net::find_checksum_kind(name);
    if (!kind)
      return make_error(kNotImplemented, "trailer {} is not a checksum that is known here",
                        printable(name, 64));
    expected_.push_back({net::Digest(*kind), "", name, &kBadDigest});
  }
  return {};
}

Result<UploadBody> UploadBody::open(const Call& call, store::EtagMode mode) {
  const net::RequestHead& request = call.request();
  UploadBody body;
  body.size_ = request.content_length;
  if (!request.content_length && !request.chunked) {
    return make_error(kMissingContentLength, "the request has neither Content-Length nor chunks");
  }
  const std::string_view payload = request.get("x-amz-content-sha256");
  if (payload.starts_with("STREAMING-")) {
    const bool is_signed = payload == net::kStreamingPayload || payload == net::kStreamingPayloadTrailer;
    if (!is_signed && payload != net::kStreamingUnsignedTrailer) {
      return make_error(kNotImplemented, "payload form {}", printable(payload, 80));
    }
    std::optional<net::ChunkSigner> signer;
    if (is_signed && call.caller.key != nullptr && call.caller.claim) {
      signer.emplace(*call.caller.claim, call.caller.key->secret_key);
    }
    const bool trailers = payload != net::kStreamingPayload;
    body.chunks_.emplace(std::move(signer), trailers ? net::AwsChunkedDecoder::Trailers::kExpected
                                                     : net::AwsChunkedDecoder::Trailers::kNone);
    const std::string_view decoded = request.get("x-amz-decoded-content-length");
    const auto size = parse_number<uint64_t>(decoded);
    if (!size) {
      return make_error(kMissingContentLength, "x-amz-decoded-content-length is missing");
    }
    body.size_ = *size;
  } else if (payload.size() == 64) {
    auto raw = net::from_hex(payload);
    if (!raw) return make_error(Code::kInvalid, "x-amz-content-sha256 is not hexadecimal");
    body.expected_.push_back(
        {net::Digest(net::DigestKind::kSha256), raw.take(), "", &kXAmzContentSHA256Mismatch});
  }
  if (!body.chunks_ && says_aws_chunked(request)) {
    return make_error(kInvalidRequest,
                      "the body is said to be aws-chunked, but x-amz-content-sha256 is not one of "
                      "the STREAMING-… forms");
  }
  MR_TRY(body.expect_checksums(call));
  if (body.size_.value_or(0) > store::kMaxObjectBytes) {
    return make_error(Code::kTooLarge, "objects have at most {} bytes", store::kMaxObjectBytes);
  }
  // The hash that a signature covers is not one: s3cmd sends it and compares the ETag all the same.
  const bool has_own =
      std::ranges::any_of(body.expected_, [](const Expected& one) { return !one.header.empty(); });
  body.most_md5_ = most_md5(call, mode, has_own ? OwnChecksum::kYes : OwnChecksum::kNo);
  if (body.size_.value_or(0) <= body.most_md5_) body.md5_.emplace(net::DigestKind::kMd5);
  // One MD5 is enough: what Content-MD5 asks for is the etag too.
  const bool has_md5 =
      std::any_of(body.expected_.begin(), body.expected_.end(),
                  [](const Expected& expected) { return expected.digest.kind() == net::DigestKind::kMd5; });
  if (has_md5) body.md5_.reset();
  return body;
}

void UploadBody::add_digests(std::string_view bytes, uint64_t total) {
  for (Expected& expected : expected_) expected.digest.add(bytes);
  if (!md5_) return;
  if (total > most_md5_) {
    md5_.reset();
    return;
  }
  md5_->add(bytes);
}

// A checksum that nobody announced is not compared, and must not look as if it were.
Status UploadBody::check_trailers() const {
  if (!chunks_) return {};
  for (const auto& [name, value] : chunks_->trailers()) {
    if (std::ranges::find(expected_, name, &Expected::header) == expected_.end())
      return make_error(kInvalidRequest, "x-amz-trailer does not announce the trailer {}",
                        printable(name, 64));
  }
  return {};
}

Status UploadBody::check() {
  MR_TRY(check_trailers());
  for (Expected& expected : expected_) {
    std::string wanted = expected.value;
    if (wanted.empty()) {
      const auto& trailers = chunks_ ? chunks_->trailers() : std::vector<net::HeaderField>();
      const auto found = std::find_if(trailers.begin(), trailers.end(), [&](const net::HeaderField& trailer) {
        return trailer.first == expected.header;
      });
      if (found == trailers.end()) {
        return make_error(kInvalidRequest, "the announced trailer {} did not come", expected.header);
      }
      wanted = MR_TRY(decode_digest(found->second, expected.digest.kind(), expected.header));
    }
    const std::string actual = expected.digest.finish();
    if (actual != wanted) {
      return make_error(*expected.refusal, "the body has {} {}, not {}",
                        expected.header.empty() ? "digest" : expected.header, net::to_base64(actual),
                        net::to_base64(wanted));
    }
    if (expected.digest.kind() == net::DigestKind::kMd5) etag_ = net::to_hex(actual);
    if (!expected.header.empty()) checksums_.emplace_back(expected.header, net::to_base64(actual));
  }
  if (md5_) etag_ = net::to_hex(md5_->finish());
  return {};
}

namespace {

Status check_document(const Call& call, std::string_view text, Checksums checksums) {
  // The signature covers the digest, not the body: what is not compared here is not signed at all.
  const std::string_view payload = call.request().get("x-amz-content-sha256");
  if (payload.size() == 64) {
    const auto wanted = net::from_hex(payload);
    if (!wanted || net::digest(net::DigestKind::kSha256, text) != *wanted)
      return make_error(kXAmzContentSHA256Mismatch,
                        "the body does not have the digest of x-amz-content-sha256");
  }
  std::vector<store::NameValue> claims;
  if (checksums == Checksums::kOfDocument) claims = claimed_checksums(call);
  if (const auto md5 = call.request().find("content-md5"))
    claims.emplace_back(net::checksum_header(net::DigestKind::kMd5), *md5);
  for (const auto& [name, value] : claims) {
    const net::DigestKind kind = *net::find_checksum_kind(name);
    if (net::digest(kind, text) != MR_TRY(decode_digest(value, kind, name)))
      return make_error(kBadDigest, "the body does not have the checksum of {}", name);
  }
  return {};
}

}  // namespace

net::Task<Result<std::string>> read_document(Call& call, size_t most, Checksums checksums) {
  if (call.request().get("x-amz-content-sha256").starts_with("STREAMING-")) {
    co_return make_error(kNotImplemented, "a document must come whole, not in aws-chunked form");
  }
  auto text = co_await call.connection.read_whole_body(most, call.services.memory.documents, call.document);
  if (!text) co_return text;
  auto checked = check_document(call, *text, checksums);
  if (!checked) co_return checked.take_error();
  co_return text;
}

net::Task<void> wait_for_space(Call& call, store::Writer& writer) {
  std::function<void(std::function<void(int)>)> start = [&writer](std::function<void(int)> done) {
    writer.when_space([done = std::move(done)] { done(0); });
  };
  const int ready = co_await net::await_callback<int>(call.connection.loop(), std::move(start));
  static_cast<void>(ready);
}

net::Task<Result<store::ObjectPointer>> finish_writer(Call& call, store::Writer& writer,
                                                      store::Finish finish) {
  using Answer = Result<store::ObjectPointer>;
  auto kept = std::make_shared<store::Finish>(std::move(finish));
  std::function<void(std::function<void(Answer)>)> start = [&writer, kept](std::function<void(Answer)> done) {
    writer.finish(std::move(*kept), std::move(done));
  };
  co_return co_await net::await_callback<Answer>(call.connection.loop(), std::move(start));
}

net::Task<Result<store::ObjectPointer>> receive_object(Call& call, UploadBody& body, store::Writer& writer) {
  auto received = co_await body.receive(call, writer);
  if (!received) co_return received.take_error();
  store::Finish finish{body.etag(), body.checksums()};
  co_return co_await finish_writer(call, writer, std::move(finish));
}

net::Task<Status> UploadBody::receive(Call& call, store::Writer& writer) {
  Status received;
  if (chunks_) {
    received = co_await receive_chunked(call, writer);
  } else {
    received = co_await receive_plain(call, writer);
  }
  if (!received) co_return received;
  if (size_ && writer.bytes() != *size_) {
    co_return make_error(Code::kTruncated, "the body has {} bytes, {} were announced", writer.bytes(),
                         *size_);
  }
  co_return check();
}

net::Task<Status> UploadBody::receive_plain(Call& call, store::Writer& writer) {
  while (true) {
    std::span<std::byte> space = writer.space();
    if (space.empty()) {
      co_await wait_for_space(call, writer);
      auto healthy = writer.advance(0);
      if (!healthy) co_return healthy;
      continue;
    }
    auto got = co_await call.connection.read_body(space);
    if (!got) co_return got.take_error();
    if (*got == 0) co_return Status();
    if (writer.bytes() + *got > store::kMaxObjectBytes) {
      co_return make_error(Code::kTooLarge, "objects have at most {} bytes", store::kMaxObjectBytes);
    }
    add_digests({reinterpret_cast<const char*>(space.data()), *got}, writer.bytes() + *got);
    auto advanced = writer.advance(*got);
    if (!advanced) co_return advanced;
  }
}

net::Task<Status> UploadBody::receive_chunked(Call& call, store::Writer& writer) {
  std::vector<std::byte> buffer(kChunkBuffer);
  while (true) {
    auto got = co_await call.connection.read_body(buffer);
    if (!got) co_return got.take_error();
    if (*got == 0) break;
    std::string_view input(reinterpret_cast<const char*>(buffer.data()), *got);
    while (!input.empty()) {
      auto step = chunks_->decode(input);
      if (!step) {
        if (step.error().code() == Code::kDenied)
          co_return make_error(kSignatureDoesNotMatch, "{}", step.error().message());
        co_return make_error(kInvalidRequest, "{}", step.error().message());
      }
      input.remove_prefix(step->used);
      std::string_view plain = step->plain;
      if (size_ && writer.bytes() + plain.size() > *size_) {
        co_return make_error(Code::kTruncated, "the body has more than the announced {} bytes", *size_);
      }
      while (!plain.empty()) {
        const std::span<std::byte> space = writer.space();
        if (space.empty()) {
          co_await wait_for_space(call, writer);
          auto healthy = writer.advance(0);
          if (!healthy) co_return healthy;
          continue;
        }
        const size_t take = std::min(space.size(), plain.size());
        std::memcpy(space.data(), plain.data(), take);
        add_digests(plain.substr(0, take), writer.bytes() + take);
        auto advanced = writer.advance(take);
        if (!advanced) co_return advanced;
        plain.remove_prefix(take);
      }
      if (step->used == 0) co_return make_error(kInvalidRequest, "bytes behind the last chunk");
    }
  }
  if (!chunks_->finished()) co_return make_error(Code::kTruncated, "the body ends before its last chunk");
  co_return Status();
}

}  // namespace millrace::gateway
