// Signature version 4: canonical requests, derived keys, claims and their judgement.
#include "net/signing.h"

#include <algorithm>
#include <ctime>

#include "base/clock.h"
#include "base/number.h"
#include "base/text.h"
#include "net/digest.h"
#include "net/url.h"

namespace millrace::net {

namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";
constexpr std::string_view kTerminator = "aws4_request";
constexpr std::string_view kService = "s3";
constexpr size_t kMaxSignedHeaders = 100;
constexpr size_t kDateBytes = 16;  // 20261115T225034Z

std::string basic_date(int64_t wall) {
  const std::time_t seconds = wall / 1000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::optional<int64_t> find_basic_date(std::string_view text) {
  if (text.size() != kDateBytes || text[8] != 'T' || text[15] != 'Z') return std::nullopt;
  const auto number = [&](size_t at, size_t count) {
    int value = 0;
    for (size_t i = at; i < at + count; ++i) {
      if (text[i] < '0' || text[i] > '9') return -1;
      value = value * 10 + (text[i] - '0');
    }
    return value;
  };
  const int parts[6] = {number(0, 4), number(4, 2), number(6, 2), number(9, 2), number(11, 2), number(13, 2)};
  for (const int part : parts) {
    if (part < 0) return std::nullopt;
  }
  if (parts[0] < 1970 || parts[1] < 1 || parts[1] > 12 || parts[2] < 1 || parts[2] > 31 || parts[3] > 23 ||
      parts[4] > 59 || parts[5] > 60)
    return std::nullopt;
  std::tm time{};
  time.tm_year = parts[0] - 1900;
  time.tm_mon = parts[1] - 1;
  time.tm_mday = parts[2];
  time.tm_hour = parts[3];
  time.tm_min = parts[4];
  time.tm_sec = parts[5];
  return static_cast<int64_t>(::timegm(&time)) * 1000;
}

std::string_view find_header(const std::vector<HeaderField>& headers, std::string_view name) {
  for (const HeaderField& header : headers) {
    if (header.first == name) return header.second;
  }
  return {};
}

// Outer spaces gone, inner runs of them one.
std::string squeezed(std::string_view value) {
  std::string text;
  bool space = false;
  for (const char c : value) {
    if (c == ' ' || c == '\t') {
      space = !text.empty();
      continue;
    }
    if (space) text += ' ';
    space = false;
    text += c;
  }
  return text;
}

// A path that cannot be decoded is signed as it is: the peer may have done no better.
std::string canonical_path(std::string_view path) {
  auto decoded = percent_decode(path);
  return decoded ? percent_encode(*decoded, Encode::kPath) : std::string(path);
}

Result<std::string> canonical_query(std::string_view query) {
  std::vector<QueryItem> items = MR_TRY(parse_query(query));
  std::erase_if(items, [](const QueryItem& item) { return item.first == "X-Amz-Signature"; });
  for (QueryItem& item : items) {
    item.first = percent_encode(item.first, Encode::kAll);
    item.second = percent_encode(item.second, Encode::kAll);
  }
  std::ranges::sort(items);
  std::string text;
  for (const QueryItem& item : items) {
    if (!text.empty()) text += '&';
    text += item.first + "=" + item.second;
  }
  return text;
}

std::string canonical_headers(const SignedRequest& request, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += name + ":";
    bool first = true;
    for (const HeaderField& header : request.headers) {
      if (header.first != name) continue;
      if (!first) text += ',';
      first = false;
      text += squeezed(header.second);
    }
    text += '\n';
  }
  return text;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ";") + name;
  return text;
}

Result<std::string> canonical_request(const SignedRequest& request,
                                      const std::vector<std::string>& signed_headers,
                                      std::string_view payload_hash) {
  const std::string query = MR_TRY(canonical_query(request.query));
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, canonical_path(request.path), query,
                     canonical_headers(request, signed_headers), joined(signed_headers), payload_hash);
}

std::string string_to_sign(std::string_view date, std::string_view scope, std::string_view canonical) {
  return fmt::format("{}\n{}\n{}\n{}", kAlgorithm, date, scope,
                     to_hex(digest(DigestKind::kSha256, canonical)));
}

// Scope is day/region/service/aws4_request; anything else gives a key that fits nothing.
std::string signing_key(std::string_view secret_key, std::string_view scope) {
  std::string key = "AWS4" + std::string(secret_key);
  while (true) {
    const size_t slash = scope.find('/');
    key = hmac_sha256(key, scope.substr(0, slash));
    if (slash == std::string_view::npos) return key;
    scope.remove_prefix(slash + 1);
  }
}

std::string scope_of(std::string_view date, std::string_view region) {
  return fmt::format("{}/{}/{}/{}", date.substr(0, 8), region, kService, kTerminator);
}

// Everything that is there, but for what proxies on the way may change.
std::vector<std::string> headers_to_sign(const SignedRequest& request) {
  std::vector<std::string> names;
  for (const HeaderField& header : request.headers) {
    const bool changes = header.first == "user-agent" || header.first == "connection" ||
                         header.first == "expect" || header.first == "content-length" ||
                         header.first == "transfer-encoding" || header.first == "accept-encoding" ||
                         header.first == "authorization";
    if (!changes) names.push_back(header.first);
  }
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

// A query that nobody can decode gets a signature that fits nothing: the server, not we, refuses the request.
std::string canonical_or_nothing(const SignedRequest& request, const std::vector<std::string>& names,
                                 std::string_view payload_hash) {
  auto canonical = canonical_request(request, names, payload_hash);
  return canonical ? canonical.take() : std::string();
}

}  // namespace

void sign(SignedRequest& request, const Credentials& credentials, std::string_view payload_hash,
          int64_t wall) {
  // A retry is signed anew.
  std::erase_if(request.headers, [](const HeaderField& header) {
    return header.first == "x-amz-date" || header.first == "x-amz-content-sha256" ||
           header.first == "authorization" || header.first == "x-amz-security-token";
  });
  const std::string date = basic_date(wall);
  request.headers.emplace_back("x-amz-date", date);
  request.headers.emplace_back("x-amz-content-sha256", payload_hash);
  if (!credentials.session_token.empty())
    request.headers.emplace_back("x-amz-security-token", credentials.session_token);
  const std::vector<std::string> names = headers_to_sign(request);
  const std::string scope = scope_of(date, credentials.region);
  const std::string canonical = canonical_or_nothing(request, names, payload_hash);
  const std::string signature =
      to_hex(hmac_sha256(signing_key(credentials.secret_key, scope), string_to_sign(date, scope, canonical)));
  request.headers.emplace_back("authorization",
                               fmt::format("{} Credential={}/{},SignedHeaders={},Signature={}", kAlgorithm,
                                           credentials.access_key, scope, joined(names), signature));
}

std::string presign(SignedRequest request, const Credentials& credentials, int64_t expires_seconds,
                    int64_t wall) {
  const std::string date = basic_date(wall);
  const std::string scope = scope_of(date, credentials.region);
  std::vector<std::string> names = headers_to_sign(request);
  if (!request.query.empty()) request.query += '&';
  request.query += fmt::format(
      "X-Amz-Algorithm={}&X-Amz-Credential={}&X-Amz-Date={}&X-Amz-Expires={}&X-Amz-SignedHeaders={}",
      kAlgorithm, percent_encode(credentials.access_key + "/" + scope, Encode::kAll), date, expires_seconds,
      percent_encode(joined(names), Encode::kAll));
  if (!credentials.session_token.empty())
    request.query += "&X-Amz-Security-Token=" + percent_encode(credentials.session_token, Encode::kAll);
  const std::string canonical = canonical_or_nothing(request, names, kUnsignedPayload);
  const std::string signature =
      to_hex(hmac_sha256(signing_key(credentials.secret_key, scope), string_to_sign(date, scope, canonical)));
  return request.query + "&X-Amz-Signature=" + signature;
}

namespace {

Error malformed(std::string_view why) {
  return make_error(Code::kInvalid, "the signature cannot be read: {}", why);
}

Status take_credential(SignatureClaim& claim, std::string_view credential) {
  // Access keys may contain slashes; the scope has exactly three of them.
  size_t slash = credential.size();
  for (int part = 0; part < 4; ++part) {
    slash = slash == 0 ? std::string_view::npos : credential.rfind('/', slash - 1);
    if (slash == std::string_view::npos) return malformed("a credential is key/day/region/s3/aws4_request");
  }
  claim.access_key = credential.substr(0, slash);
  claim.scope = credential.substr(slash + 1);
  if (claim.access_key.empty()) return malformed("no access key");
  if (!claim.scope.ends_with(fmt::format("/{}/{}", kService, kTerminator)))
    return malformed("the credential is not for s3");
  return {};
}

Status take_signed_headers(SignatureClaim& claim, std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find(';'), text.size());
    if (end == 0) return malformed("an empty name among the signed headers");
    if (claim.signed_headers.size() == kMaxSignedHeaders) return malformed("too many signed headers");
    claim.signed_headers.push_back(lower_case(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

Status check_claim(const SignatureClaim& claim) {
  if (!find_basic_date(claim.date)) return malformed("the date is not written like 20261115T225034Z");
  if (!claim.scope.starts_with(claim.date.substr(0, 8) + "/"))
    return malformed("date and credential are of two days");
  if (claim.signature.size() != 64) return malformed("a signature has 64 hex digits");
  if (std::ranges::find(claim.signed_headers, "host") == claim.signed_headers.end())
    return malformed("the host header is not signed");
  return {};
}

Result<SignatureClaim> read_header_claim(const SignedRequest& request, std::string_view authorization) {
  SignatureClaim claim;
  authorization.remove_prefix(kAlgorithm.size());
  while (!authorization.empty()) {
    const size_t end = std::min(authorization.find(','), authorization.size());
    const std::string_view part = trim(authorization.substr(0, end), " ");
    authorization.remove_prefix(std::min(end + 1, authorization.size()));
    if (part.starts_with("Credential=")) MR_TRY(take_credential(claim, part.substr(11)));
    if (part.starts_with("SignedHeaders=")) MR_TRY(take_signed_headers(claim, part.substr(14)));
    if (part.starts_with("Signature=")) claim.signature = part.substr(10);
  }
  claim.date = find_header(request.headers, "x-amz-date");
  if (claim.date.empty()) {
    const std::string_view date = find_header(request.headers, "date");
    auto wall = parse_http_date(date);
    claim.date = wall ? basic_date(*wall) : std::string(date);
  }
  claim.payload_hash = find_header(request.headers, "x-amz-content-sha256");
  if (claim.payload_hash.empty()) return malformed("the header x-amz-content-sha256 is missing");
  MR_TRY(check_claim(claim));
  return claim;
}

Result<SignatureClaim> read_query_claim(const SignedRequest& request, const std::vector<QueryItem>& items) {
  SignatureClaim claim;
  claim.payload_hash = kUnsignedPayload;
  for (const auto& [name, value] : items) {
    if (name == "X-Amz-Algorithm" && value != kAlgorithm)
      return malformed("the algorithm is not AWS4-HMAC-SHA256");
    if (name == "X-Amz-Credential") MR_TRY(take_credential(claim, value));
    if (name == "X-Amz-Date") claim.date = value;
    if (name == "X-Amz-SignedHeaders") MR_TRY(take_signed_headers(claim, value));
    if (name == "X-Amz-Signature") claim.signature = value;
    if (name == "X-Amz-Content-Sha256") claim.payload_hash = value;
    if (name == "X-Amz-Expires") {
      const auto seconds = parse_number<int64_t>(value);
      if (!seconds || *seconds < 1 || *seconds > kMaxExpiresSeconds)
        return malformed("X-Amz-Expires is not a number from 1 to 604800");
      claim.expires_seconds = *seconds;
    }
  }
  if (!claim.expires_seconds) return malformed("X-Amz-Expires is missing");
  const std::string_view hash = find_header(request.headers, "x-amz-content-sha256");
  const auto& names = claim.signed_headers;
  if (!hash.empty() && std::ranges::find(names, "x-amz-content-sha256") != names.end())
    claim.payload_hash = hash;
  MR_TRY(check_claim(claim));
  return claim;
}

// What changes the meaning of a request must have been signed with it. Date and hash are, in other lines.
bool all_signed(const SignedRequest& request, const SignatureClaim& claim) {
  for (const HeaderField& header : request.headers) {
    const std::string& name = header.first;
    if (!name.starts_with("x-amz-") || name == "x-amz-date" || name == "x-amz-content-sha256") continue;
    if (std::ranges::find(claim.signed_headers, name) == claim.signed_headers.end()) return false;
  }
  return true;
}

}  // namespace

Result<std::optional<SignatureClaim>> read_claim(const SignedRequest& request) {
  const std::string_view authorization = find_header(request.headers, "authorization");
  if (authorization.starts_with(fmt::format("{} ", kAlgorithm)))
    return std::optional(MR_TRY(read_header_claim(request, authorization)));
  if (authorization.starts_with("AWS ") || authorization.starts_with("AWS4-")) {
    return make_error(Code::kUnsupported, "signatures of this kind are not read")
        .with_hint("sign with AWS4-HMAC-SHA256 (signature version 4)");
  }
  // Cheap for the many requests that are not presigned.
  if (request.query.find("X-Amz-") == std::string::npos) return std::optional<SignatureClaim>();
  const std::vector<QueryItem> items = MR_TRY(parse_query(request.query));
  const bool presigned = std::ranges::any_of(items, [](const QueryItem& item) {
    return item.first == "X-Amz-Algorithm" || item.first == "X-Amz-Signature" ||
           item.first == "X-Amz-Credential";
  });
  if (!presigned) return std::optional<SignatureClaim>();
  return std::optional(MR_TRY(read_query_claim(request, items)));
}

SignatureProblem judge(const SignedRequest& request, const SignatureClaim& claim, std::string_view secret_key,
                       int64_t wall) {
  const auto date = find_basic_date(claim.date);
  if (!date) return SignatureProblem::kMalformed;
  if (claim.expires_seconds) {
    if (*date > wall + kMaxClockSkewMs) return SignatureProblem::kSkewed;
    if (wall > *date + *claim.expires_seconds * 1000) return SignatureProblem::kExpired;
  } else if (wall - *date > kMaxClockSkewMs || *date - wall > kMaxClockSkewMs) {
    return SignatureProblem::kSkewed;
  }
  auto canonical = canonical_request(request, claim.signed_headers, claim.payload_hash);
  if (!canonical) return SignatureProblem::kMalformed;
  const std::string expected = to_hex(
      hmac_sha256(signing_key(secret_key, claim.scope), string_to_sign(claim.date, claim.scope, *canonical)));
  if (!equal_secrets(expected, claim.signature) || !all_signed(request, claim))
    return SignatureProblem::kMismatch;
  return SignatureProblem::kNone;
}

ChunkSigner::ChunkSigner(const SignatureClaim& claim, std::string_view secret_key)
    : key_(signing_key(secret_key, claim.scope)),
      date_(claim.date),
      scope_(claim.scope),
      previous_(claim.signature) {}

std::string ChunkSigner::next(std::string_view chunk_sha256_hex) {
  static const std::string empty_hash = to_hex(digest(DigestKind::kSha256, {}));
  previous_ = to_hex(hmac_sha256(key_, fmt::format("AWS4-HMAC-SHA256-PAYLOAD\n{}\n{}\n{}\n{}\n{}", date_,
                                                   scope_, previous_, empty_hash, chunk_sha256_hex)));
  return previous_;
}

std::string ChunkSigner::trailer(std::string_view trailer_headers_sha256_hex) {
  previous_ = to_hex(hmac_sha256(key_, fmt::format("AWS4-HMAC-SHA256-TRAILER\n{}\n{}\n{}\n{}", date_, scope_,
                                                   previous_, trailer_headers_sha256_hex)));
  return previous_;
}

}  // namespace millrace::net
