// Signature version 2, as far as presigned links to read an object go.
#include <algorithm>
#include <charconv>

#include "net/digest.h"
#include "net/signing.h"
#include "net/url.h"

namespace millrace::net {

namespace {

// Parts of the query that change what is read, and so are signed with the path.
constexpr std::string_view kSignedParts[] = {"acl",
                                             "partNumber",
                                             "response-cache-control",
                                             "response-content-disposition",
                                             "response-content-encoding",
                                             "response-content-language",
                                             "response-content-type",
                                             "response-expires",
                                             "tagging",
                                             "uploadId",
                                             "uploads",
                                             "versionId"};

std::string canonical_resource(const SignedRequest& request, std::vector<QueryItem> items) {
  std::string resource = request.path;
  std::sort(items.begin(), items.end());
  char joint = '?';
  for (const auto& [name, value] : items) {
    if (std::find(std::begin(kSignedParts), std::end(kSignedParts), name) == std::end(kSignedParts)) continue;
    resource += joint + name;
    if (!value.empty()) resource += "=" + value;
    joint = '&';
  }
  return resource;
}

}  // namespace

std::optional<OldLink> find_old_link(const SignedRequest& request) {
  const auto items = parse_query(request.query);
  if (!items) return std::nullopt;
  OldLink link;
  for (const auto& [name, value] : *items) {
    if (name == "AWSAccessKeyId") link.access_key = value;
    if (name == "Signature") link.signature = value;
    if (name != "Expires") continue;
    int64_t seconds = 0;
    const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), seconds);
    if (problem != std::errc() || end != value.data() + value.size() || seconds < 0 ||
        seconds > INT64_MAX / 1000)
      return std::nullopt;
    link.expires_ms = seconds * 1000;
  }
  if (link.access_key.empty() || link.signature.empty() || link.expires_ms == 0) return std::nullopt;
  return link;
}

SignatureProblem judge_old_link(const SignedRequest& request, const OldLink& link,
                                std::string_view secret_key, int64_t wall_ms) {
  if (request.method != "GET" && request.method != "HEAD") return SignatureProblem::kMalformed;
  auto items = parse_query(request.query);
  if (!items) return SignatureProblem::kMalformed;
  const std::string text = fmt::format("{}\n\n\n{}\n{}", request.method, link.expires_ms / 1000,
                                       canonical_resource(request, items.take()));
  if (!equal_secrets(to_base64(hmac_sha1(secret_key, text)), link.signature))
    return SignatureProblem::kMismatch;
  return wall_ms > link.expires_ms ? SignatureProblem::kExpired : SignatureProblem::kNone;
}

}  // namespace millrace::net
