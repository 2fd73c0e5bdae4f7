// Decodes S3's aws-chunked bodies and checks their signatures and trailers.
#include "net/aws_chunked.h"

#include <algorithm>

#include "base/number.h"
#include "base/text.h"

namespace millrace::net {

namespace {

constexpr size_t kMaxLineBytes = 4096;
constexpr size_t kMaxTrailers = 16;
constexpr size_t kMaxSizeDigits = 12;  // 256 TiB: more than any object
constexpr std::string_view kSignatureExtension = "chunk-signature=";
// minio-go puts a second empty line behind trailing headers that end with LF.
constexpr std::string_view kExtraEnd = "\r\n";
constexpr std::string_view kTrailerSignature = "x-amz-trailer-signature";

Error bad_form(std::string_view why) {
  return make_error(Code::kCorrupt, "the aws-chunked body: {}", why);
}

Error bad_signature(std::string_view what) {
  return make_error(Code::kDenied, "the signature of {} is wrong", what);
}

}  // namespace

AwsChunkedDecoder::AwsChunkedDecoder(std::optional<ChunkSigner> signer, Trailers trailers)
    : signer_(std::move(signer)), expect_(trailers) {}

bool AwsChunkedDecoder::finished() const {
  return state_ == State::kEnd && (extra_.empty() || extra_ == kExtraEnd);
}

Result<AwsChunkedDecoder::Step> AwsChunkedDecoder::decode(std::string_view input) {
  if (input.empty()) return Step{};
  if (state_ == State::kEnd) {
    if (extra_.empty() || extra_[0] != input[0]) return bad_form("there is more behind its end");
    extra_.remove_prefix(1);
    return Step{1, {}};
  }
  if (state_ != State::kData) return take_line(input);
  const std::string_view plain = input.substr(0, std::min<uint64_t>(left_, input.size()));
  left_ -= plain.size();
  if (sha256_) sha256_->add(plain);
  if (left_ == 0) MR_TRY(end_chunk());
  return Step{plain.size(), plain};
}

Result<AwsChunkedDecoder::Step> AwsChunkedDecoder::take_line(std::string_view input) {
  const size_t end = input.find('\n');
  const std::string_view part = input.substr(0, end);
  if (line_.size() + part.size() > kMaxLineBytes) return bad_form("a line is too long");
  line_ += part;
  if (end == std::string_view::npos) return Step{input.size(), {}};
  const bool bare = !line_.ends_with('\r');
  if (!bare) line_.pop_back();
  const std::string line = std::move(line_);
  line_.clear();
  // Lines end with CR and LF. Only a trailing header may end with LF alone, as minio-go writes it.
  if (bare && (state_ != State::kTrailer || line.empty())) return bad_form("a line ends without CR and LF");
  if (bare) extra_ = kExtraEnd;
  switch (state_) {
    case State::kDataEnd:
      if (!line.empty()) return bad_form("a chunk is longer than it says");
      state_ = State::kChunkLine;
      break;
    case State::kChunkLine:
      MR_TRY(take_chunk_line(line));
      break;
    default:
      MR_TRY(take_trailer_line(line));
  }
  return Step{end + 1, {}};
}

Status AwsChunkedDecoder::take_chunk_line(std::string_view line) {
  const size_t digits = std::min(line.find(';'), line.size());
  const std::string_view size = trim(line.substr(0, digits));
  const auto bytes = parse_number<uint64_t>(size, 16);
  if (!bytes || size.size() > kMaxSizeDigits) return bad_form("the size of a chunk is not a hex number");
  left_ = *bytes;
  signature_.clear();
  std::string_view rest = line.substr(digits);
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const size_t next = std::min(rest.find(';'), rest.size());
    const std::string_view extension = trim(rest.substr(0, next));
    if (extension.starts_with(kSignatureExtension)) signature_ = extension.substr(kSignatureExtension.size());
    rest.remove_prefix(next);
  }
  if (signer_) {
    if (signature_.empty()) return bad_signature("a chunk (it has none)");
    sha256_.emplace(DigestKind::kSha256);
  }
  if (left_ > 0) {
    state_ = State::kData;
    return {};
  }
  MR_TRY(end_chunk());
  state_ = State::kTrailer;
  return {};
}

Status AwsChunkedDecoder::end_chunk() {
  state_ = State::kDataEnd;
  if (!signer_) return {};
  if (!equal_secrets(signer_->next(to_hex(sha256_->finish())), signature_)) return bad_signature("a chunk");
  sha256_.reset();
  return {};
}

Status AwsChunkedDecoder::take_trailer_line(std::string_view line) {
  const bool wants_signature = signer_ && expect_ == Trailers::kExpected;
  // Nothing may follow the signature that it does not cover.
  if (state_ == State::kTrailerEnd && !line.empty())
    return bad_form("there is more behind the last signature");
  if (line.empty()) {
    if (state_ == State::kTrailerEnd) {
      state_ = State::kEnd;
      return {};
    }
    // Some clients put an empty line before the signature of the trailers too.
    if (wants_signature && !trailers_.empty()) return {};
    if (wants_signature) return bad_signature("the trailing headers (there is none)");
    state_ = State::kEnd;
    return {};
  }
  if (expect_ == Trailers::kNone) return bad_form("there are trailing headers that were not announced");
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return bad_form("a trailing header has no name");
  const std::string name = lower_case(trim(line.substr(0, colon)));
  const std::string_view value = trim(line.substr(colon + 1));
  if (name == kTrailerSignature) {
    if (!wants_signature) return {};
    if (!equal_secrets(signer_->trailer(to_hex(digest(DigestKind::kSha256, trailer_text_))), value))
      return bad_signature("the trailing headers");
    state_ = State::kTrailerEnd;
    return {};
  }
  if (expect_ == Trailers::kExpected && trailers_.size() == kMaxTrailers)
    return bad_form("too many trailing headers");
  trailer_text_ += fmt::format("{}:{}\n", name, value);
  trailers_.emplace_back(name, value);
  return {};
}

}  // namespace millrace::net
