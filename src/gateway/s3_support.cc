// What may be said in a request, operation by operation.
#include "gateway/s3_support.h"

#include <algorithm>
#include <string>

#include "base/text.h"
#include "gateway/buckets.h"
#include "gateway/s3_errors.h"
#include "net/digest.h"
#include "net/where.h"

namespace millrace::gateway {

namespace {

// Parts of S3 that are not here. Asking for them must not look like asking for the object or the list.
constexpr std::string_view kUnsupportedReads[] = {"accelerate",
                                                  "analytics",
                                                  "attributes",
                                                  "cors",
                                                  "encryption",
                                                  "intelligent-tiering",
                                                  "inventory",
                                                  "legal-hold",
                                                  "lifecycle",
                                                  "logging",
                                                  "metrics",
                                                  "notification",
                                                  "object-lock",
                                                  "ownershipControls",
                                                  "place",
                                                  "policyStatus",
                                                  "publicAccessBlock",
                                                  "replication",
                                                  "requestPayment",
                                                  "retention",
                                                  "session",
                                                  "torrent",
                                                  "website"};
// At the root a query that is passed over may have been meant for a bucket.
constexpr std::string_view kRootQueries[] = {"prefix", "max-buckets", "continuation-token", "bucket-region"};

// Of signed links, and the name that newer clients give their operation.
constexpr std::string_view kQueriesOfLinks[] = {"x-id",    "AWSAccessKeyId", "Signature",
                                                "Expires", "content-type",   "content-md5"};
constexpr std::string_view kAmazonQueriesOfLinks[] = {
    "x-amz-acl",       "x-amz-algorithm",     "x-amz-content-sha256", "x-amz-credential",
    "x-amz-date",      "x-amz-expires",       "x-amz-security-token", "x-amz-sdk-checksum-algorithm",
    "x-amz-signature", "x-amz-signedheaders", "x-amz-storage-class",  "x-amz-user-agent"};

// Headers that ask for what is not here, by how they begin.
constexpr std::string_view kUnsupportedHeaders[] = {"x-amz-server-side-encryption",
                                                    "x-amz-copy-source-server-side-encryption",
                                                    "x-amz-grant-",
                                                    "x-amz-object-lock-",
                                                    "x-amz-rename-source",
                                                    "x-amz-website-redirect-location",
                                                    "x-amz-write-offset-bytes"};
// What owners may do anyway.
constexpr std::string_view kOwnersAcls[] = {"private", "bucket-owner-full-control", "bucket-owner-read"};
constexpr std::string_view kOwner = "millrace";
constexpr std::string_view kDeleteConditions[] = {"x-amz-if-match-size", "x-amz-if-match-last-modified-time"};
constexpr std::string_view kCopyConditions[] = {
    "x-amz-copy-source-if-match", "x-amz-copy-source-if-none-match", "x-amz-copy-source-if-modified-since",
    "x-amz-copy-source-if-unmodified-since"};
// Digests of HTTP itself, which are not compared here.
constexpr std::string_view kDigests[] = {"digest", "content-digest", "repr-digest"};

template <size_t N>
bool is_among(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool is_get(const net::RequestHead& request) {
  return request.method == "GET" || request.method == "HEAD";
}

// What every request is asked for most of its headers: worth no call.
inline bool is_amazons(std::string_view name) {
  return name.size() > 6 && (name[0] == 'x' || name[0] == 'X') &&
         net::equal_names(name.substr(0, 6), "x-amz-");
}
inline bool is_of_new_bucket(std::string_view name) {
  return (name.size() == kRedundancyHeader.size() && net::equal_names(name, kRedundancyHeader)) ||
         (name.size() == kFloorHeader.size() && net::equal_names(name, kFloorHeader));
}
inline bool is_condition(std::string_view name) {
  return name.size() > 3 && (name[0] == 'i' || name[0] == 'I') && net::equal_names(name.substr(0, 3), "if-");
}

Error not_supported(std::string_view name, std::string_view value) {
  return make_error(kNotImplemented, "{}: {} is not supported here", printable(name, 80),
                    printable(value, 64));
}

bool is_copy(Operation operation) {
  return operation == Operation::kCopyObject || operation == Operation::kCopyPart;
}

// Operations with a body that checksums are about.
bool has_body(Operation operation) {
  switch (operation) {
    case Operation::kCreateBucket:
    case Operation::kDeleteObjects:
    case Operation::kGetBatch:
    case Operation::kPrefetch:
    case Operation::kPutObject:
    case Operation::kPutTags:
    case Operation::kPutPart:
    case Operation::kCompleteUpload:
      return true;
    default:
      return false;
  }
}

// x-amz-checksum-… and what belongs to it: compared, or refused.
Status check_checksum(Operation operation, const std::string& name, std::string_view value) {
  const std::string_view what = std::string_view(name).substr(name.find("checksum-") + 9);
  const bool good = what == "algorithm" ? net::find_checksum_algorithm(value).has_value()
                    : what == "mode"    ? net::equal_names(value, "enabled")
                    : what == "type"    ? value == "FULL_OBJECT" || value == "COMPOSITE"
                                        : net::find_checksum_kind(name) && has_body(operation);
  return good ? Status() : not_supported(name, value);
}

Status check_header(Operation operation, std::string_view given_name, std::string_view value) {
  const std::string name = lower_case(given_name);
  if (name.starts_with("x-amz-checksum-") || name == "x-amz-sdk-checksum-algorithm")
    return check_checksum(operation, name, value);
  if (name.ends_with("expected-bucket-owner") && value != kOwner)
    return make_error(kAccessDenied, "all buckets belong to {} here, not to {}", kOwner,
                      printable(value, 64));
  const bool deletes = operation == Operation::kDeleteObject;
  const bool unsupported =
      std::ranges::any_of(kUnsupportedHeaders,
                          [&](std::string_view start) { return name.starts_with(start); }) ||
      (name.starts_with("x-amz-if-") && !(deletes && is_among(kDeleteConditions, name))) ||
      (name.starts_with("x-amz-copy-source-if-") &&
       !(is_copy(operation) && is_among(kCopyConditions, name))) ||
      (name == "x-amz-mp-object-size" && operation != Operation::kCompleteUpload) ||
      (name == "x-amz-acl" && !value.empty() && !is_among(kOwnersAcls, value)) ||
      (name == "x-amz-storage-class" && value != "STANDARD") ||
      (name == "x-amz-bucket-object-lock-enabled" && !net::equal_names(value, "false"));
  return unsupported ? not_supported(name, value) : Status();
}

// A condition that is passed over is the loss of what it was to protect. A read that has nothing to compare
// may answer in full where the client asked for less.
Status check_condition(Operation operation, std::string_view name, std::string_view value) {
  const auto is = [&](std::string_view known) { return net::equal_names(name, known); };
  bool known = false;
  switch (operation) {
    case Operation::kHeadObject:
    case Operation::kGetObject:
    case Operation::kGetTransformed:
    case Operation::kGetIndex:
    case Operation::kGetMember:
    case Operation::kGetSample:
    case Operation::kGetSamples:
      return {};
    case Operation::kPutObject:
    case Operation::kCopyObject:
    case Operation::kCreateUpload:
    case Operation::kCompleteUpload:
      known = is("if-match") || is("if-none-match");
      break;
    case Operation::kDeleteObject:
      known = is("if-match");
      break;
    case Operation::kListBuckets:
    case Operation::kListObjects:
    case Operation::kListVersions:
    case Operation::kListUploads:
    case Operation::kListParts:
    case Operation::kHeadBucket:
    case Operation::kGetTags:
      known = is("if-none-match") || is("if-modified-since") || is("if-range");
      break;
    default:
      break;
  }
  // A list of tags is not judged.
  return known && value.find(',') == std::string_view::npos ? Status() : not_supported(name, value);
}

// Rows without a mark have an empty one, which is no name.
bool is_of_row(const OperationRow& row, std::string_view name) {
  return !name.empty() && (name == row.mark || name == row.queries);
}

Status check_queries(Operation operation, const net::RequestHead& request,
                     const std::vector<net::QueryItem>& query) {
  const bool get = is_get(request);
  const OperationRow& row = row_of(operation);
  for (const auto& [name, value] : query) {
    if (name == "versionId" && value != "null")
      return make_error(kNotImplemented, "versions of objects are not kept");
    const bool of_links = is_of_links(name);
    const bool known = operation == Operation::kListBuckets ? is_among(kRootQueries, name) || of_links
                       : operation == Operation::kFindPlace ? is_of_row(row, name) || of_links
                       : get                                ? !is_among(kUnsupportedReads, name)
                                                            : is_of_row(row, name) || of_links;
    // Only a node that sends a reader on adds it.
    const bool hop = name == net::kHopQuery;
    const bool may_hop = operation == Operation::kGetObject || operation == Operation::kGetTransformed;
    if (!known || (hop && (!may_hop || value != "1")))
      return make_error(kNotImplemented, "?{} is not supported in this {}", printable(name, 64),
                        printable(request.method, 16));
    // Links of the older form repeat these headers.
    if ((name == "content-type" || name == "content-md5") && request.get(name) != value)
      return make_error(kInvalidRequest, "the link was made for {} {}", name, printable(value, 64));
    if (is_amazons(name)) MR_TRY(check_header(operation, name, value));
  }
  return {};
}

}  // namespace

bool is_of_links(std::string_view name) {
  if (is_among(kQueriesOfLinks, name)) return true;
  const std::string lower = lower_case(name);
  return is_among(kAmazonQueriesOfLinks, lower) || lower.starts_with("x-amz-checksum-");
}

Status check_supported(Operation operation, const net::RequestHead& request,
                       const std::vector<net::QueryItem>& query) {
  if (!query.empty()) MR_TRY(check_queries(operation, request, query));
  const bool get = is_get(request);
  for (const net::HeaderView& header : request.headers) {
    if (is_amazons(header.name)) MR_TRY(check_header(operation, header.name, header.value));
    if (operation != Operation::kCreateBucket && is_of_new_bucket(header.name))
      return not_supported(header.name, header.value);
    if (is_condition(header.name)) MR_TRY(check_condition(operation, header.name, header.value));
    const auto is_this = [&](std::string_view name) { return net::equal_names(name, header.name); };
    if (!get && std::ranges::any_of(kDigests, is_this)) return not_supported(header.name, header.value);
  }
  return {};
}

}  // namespace millrace::gateway
