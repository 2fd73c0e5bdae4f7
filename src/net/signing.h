// AWS Signature Version 4, both sides: signing requests and judging them. Pure but for the clock it is
// handed.
//
// Canonicalisation follows what S3 does, not the general rule: the path is encoded once and never normalised.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace millrace::net {

using HeaderField = std::pair<std::string, std::string>;  // name, value

inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";
inline constexpr std::string_view kStreamingPayload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
inline constexpr std::string_view kStreamingPayloadTrailer = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER";
inline constexpr std::string_view kStreamingUnsignedTrailer = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
inline constexpr int64_t kMaxClockSkewMs = 15 * 60 * 1000;
inline constexpr int64_t kMaxExpiresSeconds = 7 * 24 * 3600;  // of presigned links, as S3 has it

struct Credentials {
  std::string access_key;
  std::string secret_key;
  std::string session_token;  // empty: none
  std::string region = "us-east-1";
};

// A request as signatures see it.
struct SignedRequest {
  std::string method;
  std::string path;                  // as on the wire, percent-encoded
  std::string query;                 // as on the wire, without "?"
  std::vector<HeaderField> headers;  // lower-case names
  std::string host_bucket = {};      // the bucket, where it is in the host and not in the path
};

// Adds x-amz-date, x-amz-content-sha256, (x-amz-security-token) and authorization to the headers. `host` must
// be there. `payload_hash` is hex SHA-256 or one of the words above.
void sign(SignedRequest& request, const Credentials& credentials, std::string_view payload_hash,
          int64_t wall_ms);
// The query of a presigned URL (with everything that was in request.query), valid for so many seconds.
std::string presign(SignedRequest request, const Credentials& credentials, int64_t expires_seconds,
                    int64_t wall_ms);

// What a request says about who signed it; the signature is not yet judged.
struct SignatureClaim {
  std::string access_key;
  std::string date;   // 20261115T225034Z
  std::string scope;  // 20261115/us-east-1/s3/aws4_request
  std::vector<std::string> signed_headers;
  std::string signature;
  std::string payload_hash;                // x-amz-content-sha256, or UNSIGNED-PAYLOAD for presigned
  std::optional<int64_t> expires_seconds;  // presigned
};
enum class SignatureProblem { kNone, kMalformed, kSkewed, kExpired, kMismatch };
// Nothing: the request is not signed at all. An error: it tries, but cannot be read.
Result<std::optional<SignatureClaim>> read_claim(const SignedRequest& request);
SignatureProblem judge(const SignedRequest& request, const SignatureClaim& claim, std::string_view secret_key,
                       int64_t wall_ms);

// Links of the older form (signature version 2), which clients still make for the first region:
// ?AWSAccessKeyId=…&Expires=…&Signature=…. They cover the method, Content-MD5, Content-Type and x-amz-…
struct OldLink {
  std::string access_key;
  int64_t expires_ms = 0;
  std::string signature;  // base64
};
std::optional<OldLink> find_old_link(const SignedRequest& request);
SignatureProblem judge_old_link(const SignedRequest& request, const OldLink& link,
                                std::string_view secret_key, int64_t wall_ms);

// The signatures of aws-chunked bodies, one after the other.
class ChunkSigner {
 public:
  ChunkSigner(const SignatureClaim& claim, std::string_view secret_key);
  std::string next(std::string_view chunk_sha256_hex);               // signature of the next chunk, hex
  std::string trailer(std::string_view trailer_headers_sha256_hex);  // of the trailing headers

 private:
  std::string key_;
  std::string date_;
  std::string scope_;
  std::string previous_;
};

}  // namespace millrace::net
