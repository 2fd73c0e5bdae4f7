// Signature version 2, as far as presigned links go.
#include <algorithm>
#include <map>

#include "base/number.h"
#include "net/digest.h"
#include "net/signing.h"
#include "net/url.h"

namespace millrace::net {

namespace {

// Parts of the query that change what is meant, and so are signed with the path.
constexpr std::string_view kSignedParts[] = {"acl",
                                             "cors",
                                             "delete",
                                             "lifecycle",
                                             "location",
                                             "logging",
                                             "notification",
                                             "partNumber",
                                             "policy",
                                             "requestPayment",
                                             "response-cache-control",
                                             "response-content-disposition",
                                             "response-content-encoding",
                                             "response-content-language",
                                             "response-content-type",
                                             "response-expires",
                                             "restore",
                                             "tagging",
                                             "torrent",
                                             "uploadId",
                                             "uploads",
                                             "versionId",
                                             "versioning",
                                             "versions",
                                             "website"};

bool is_signed_part(std::string_view name) {
  return std::ranges::find(kSignedParts, name) != std::end(kSignedParts);
}

// Parts of the link itself. What it repeats of the headers counts only where the header is there too.
bool is_of_link(std::string_view name) {
  return name == "AWSAccessKeyId" || name == "Signature" || name == "Expires" || name == "content-type" ||
         name == "content-md5";
}

std::string_view find_header(const SignedRequest& request, std::string_view name) {
  const auto found = std::ranges::find(request.headers, name, &HeaderField::first);
  return found == request.headers.end() ? std::string_view() : std::string_view(found->second);
}

// The x-amz-… headers, by name, the values of one name joined.
std::string canonical_headers(const SignedRequest& request) {
  std::map<std::string, std::string> lines;
  for (const auto& [name, value] : request.headers) {
    if (!name.starts_with("x-amz-")) continue;
    const auto [line, fresh] = lines.try_emplace(name, value);
    if (!fresh) line->second += "," + value;
  }
  std::string text;
  for (const auto& [name, value] : lines) text += name + ":" + value + "\n";
  return text;
}

// Versions of botocore differ in what they sign where the path is a bucket alone: a slash behind it, whether
// they send it or not, and the form of the list that they ask for.
struct BucketForm {
  bool slash = false;
  bool list_type = false;
};
constexpr BucketForm kBucketForms[] = {{true, false}, {false, false}, {false, true}, {true, true}};

// The path of a bucket, without a slash behind it; nothing where an object is meant.
std::optional<std::string> find_bucket_path(const SignedRequest& request) {
  if (!request.host_bucket.empty())
    return request.path == "/" ? std::optional("/" + request.host_bucket) : std::nullopt;
  const bool is_bucket = request.path.size() > 1 && request.path.find('/', 1) == std::string::npos;
  return is_bucket ? std::optional(request.path) : std::nullopt;
}

std::string canonical_resource(const SignedRequest& request, std::vector<QueryItem> items,
                               const BucketForm& form) {
  std::string resource = request.host_bucket.empty() ? "" : "/" + request.host_bucket;
  resource += request.path;
  if (const auto bucket = find_bucket_path(request)) resource = *bucket + (form.slash ? "/" : "");
  std::ranges::sort(items);
  char joint = '?';
  for (const auto& [name, value] : items) {
    if (!is_signed_part(name) && !(form.list_type && name == "list-type")) continue;
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
    const auto seconds = parse_number<int64_t>(value);
    if (!seconds || *seconds < 0 || *seconds > INT64_MAX / 1000) return std::nullopt;
    link.expires_ms = *seconds * 1000;
  }
  if (link.access_key.empty() || link.signature.empty() || link.expires_ms == 0) return std::nullopt;
  return link;
}

SignatureProblem judge_old_link(const SignedRequest& request, const OldLink& link,
                                std::string_view secret_key, int64_t wall_ms) {
  auto items = parse_query(request.query);
  if (!items) return SignatureProblem::kMalformed;
  // A query that changes something must have been signed, and this form signs only those it knows.
  const bool reads = request.method == "GET" || request.method == "HEAD";
  const bool all_signed = std::ranges::all_of(
      *items, [](const QueryItem& item) { return is_signed_part(item.first) || is_of_link(item.first); });
  if (!reads && !all_signed) return SignatureProblem::kMismatch;
  const auto is_signed = [&](const BucketForm& form) {
    const std::string text =
        fmt::format("{}\n{}\n{}\n{}\n{}{}", request.method, find_header(request, "content-md5"),
                    find_header(request, "content-type"), link.expires_ms / 1000, canonical_headers(request),
                    canonical_resource(request, *items, form));
    return equal_secrets(to_base64(hmac_sha1(secret_key, text)), link.signature);
  };
  const bool good =
      find_bucket_path(request) ? std::ranges::any_of(kBucketForms, is_signed) : is_signed(BucketForm());
  if (!good) return SignatureProblem::kMismatch;
  return wall_ms > link.expires_ms ? SignatureProblem::kExpired : SignatureProblem::kNone;
}

}  // namespace millrace::net
