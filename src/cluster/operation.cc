// One table of requests, and what may be said in them.
#include "cluster/operation.h"

#include <algorithm>
#include <string>

#include "base/text.h"

namespace millrace::cluster {

namespace {

struct Rule {
  Scope scope;
  std::string_view method;  // GET: HEAD too
  std::string_view mark;    // the query that makes it this operation; empty: no other mark is there
  Operation operation;
  Right right;
  std::string_view queries;  // that it takes beside its mark, where it is not a GET
};

// The first that matches counts; those without a mark come last in their group.
constexpr Rule kRules[] = {
    {Scope::kService, "GET", "", Operation::kListBuckets, Right::kRead, ""},
    {Scope::kBucket, "GET", "uploads", Operation::kListUploads, Right::kRead, ""},
    {Scope::kBucket, "GET", "location", Operation::kGetLocation, Right::kRead, ""},
    {Scope::kBucket, "GET", "versioning", Operation::kGetVersioning, Right::kRead, ""},
    {Scope::kBucket, "GET", "acl", Operation::kGetAcl, Right::kRead, ""},
    {Scope::kBucket, "GET", "policy", Operation::kGetPolicy, Right::kRead, ""},
    {Scope::kBucket, "GET", "tagging", Operation::kGetBucketTags, Right::kRead, ""},
    {Scope::kBucket, "GET", "", Operation::kListObjects, Right::kRead, ""},
    {Scope::kBucket, "POST", "delete", Operation::kDeleteObjects, Right::kWrite, ""},
    {Scope::kBucket, "POST", "batch", Operation::kGetBatch, Right::kRead, ""},
    {Scope::kBucket, "PUT", "", Operation::kCreateBucket, Right::kWrite, ""},
    {Scope::kBucket, "DELETE", "", Operation::kDeleteBucket, Right::kWrite, ""},
    {Scope::kObject, "GET", "uploadId", Operation::kListParts, Right::kRead, ""},
    {Scope::kObject, "GET", "tagging", Operation::kGetTags, Right::kRead, ""},
    {Scope::kObject, "GET", "acl", Operation::kGetAcl, Right::kRead, ""},
    {Scope::kObject, "GET", "index", Operation::kGetIndex, Right::kRead, ""},
    {Scope::kObject, "GET", "member", Operation::kGetMember, Right::kRead, ""},
    {Scope::kObject, "GET", "sample", Operation::kGetSamples, Right::kRead, ""},
    {Scope::kObject, "GET", "samples", Operation::kGetSamples, Right::kRead, ""},
    {Scope::kObject, "GET", "", Operation::kGetObject, Right::kRead, ""},
    {Scope::kObject, "PUT", "uploadId", Operation::kPutPart, Right::kWrite, "partNumber"},
    {Scope::kObject, "PUT", "tagging", Operation::kPutTags, Right::kWrite, "versionId"},
    {Scope::kObject, "PUT", "", Operation::kPutObject, Right::kWrite, ""},
    {Scope::kObject, "POST", "uploadId", Operation::kCompleteUpload, Right::kWrite, ""},
    {Scope::kObject, "POST", "uploads", Operation::kCreateUpload, Right::kWrite, ""},
    {Scope::kObject, "DELETE", "uploadId", Operation::kAbortUpload, Right::kWrite, ""},
    {Scope::kObject, "DELETE", "tagging", Operation::kDeleteTags, Right::kWrite, "versionId"},
    {Scope::kObject, "DELETE", "", Operation::kDeleteObject, Right::kWrite, "versionId"},
};

// Parts of S3 that are not here. Asking for them must not look like asking for the object or the list.
constexpr std::string_view kUnsupportedReads[] = {"accelerate",   "analytics",
                                                  "attributes",   "cors",
                                                  "encryption",   "intelligent-tiering",
                                                  "inventory",    "legal-hold",
                                                  "lifecycle",    "logging",
                                                  "metrics",      "notification",
                                                  "object-lock",  "ownershipControls",
                                                  "policyStatus", "publicAccessBlock",
                                                  "replication",  "requestPayment",
                                                  "retention",    "session",
                                                  "torrent",      "versions",
                                                  "website"};

// Of signed links, and the name that newer clients give their operation.
constexpr std::string_view kQueriesOfLinks[] = {"x-id", "AWSAccessKeyId", "Signature", "Expires"};
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

template <size_t N>
bool is_among(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool has(const std::vector<net::QueryItem>& query, std::string_view name) {
  return std::ranges::any_of(query, [&](const net::QueryItem& item) { return item.first == name; });
}

bool is_get(const net::RequestHead& request) {
  return request.method == "GET" || request.method == "HEAD";
}

bool is_of_links(std::string_view name) {
  if (is_among(kQueriesOfLinks, name)) return true;
  const std::string lower = lower_case(name);
  return is_among(kAmazonQueriesOfLinks, lower) || lower.starts_with("x-amz-checksum-");
}

// What every request is asked for most of its headers: worth no call.
inline bool is_amazons(std::string_view name) {
  return name.size() > 6 && (name[0] == 'x' || name[0] == 'X') &&
         net::equal_names(name.substr(0, 6), "x-amz-");
}

Status check_header(std::string_view given_name, std::string_view value) {
  const std::string name = lower_case(given_name);
  const bool unsupported =
      std::ranges::any_of(kUnsupportedHeaders,
                          [&](std::string_view start) { return name.starts_with(start); }) ||
      (name == "x-amz-acl" && !is_among(kOwnersAcls, value)) ||
      (name == "x-amz-storage-class" && value != "STANDARD") ||
      (name == "x-amz-bucket-object-lock-enabled" && !net::equal_names(value, "false"));
  if (!unsupported) return {};
  return make_error(Code::kUnsupported, "NotImplemented: {}: {} is not supported", name,
                    printable(value, 64));
}

// The rule by which the operation was found.
const Rule* find_rule(Operation operation) {
  if (operation == Operation::kCopyObject) operation = Operation::kPutObject;
  if (operation == Operation::kCopyPart) operation = Operation::kPutPart;
  const auto found = std::ranges::find(kRules, operation, &Rule::operation);
  return found == std::end(kRules) ? nullptr : &*found;
}

}  // namespace

Asked resolve(Scope scope, const net::RequestHead& request, const std::vector<net::QueryItem>& query) {
  const bool get = is_get(request);
  // Most requests are this one, and each nanosecond counts for small objects.
  if (get && scope == Scope::kObject && query.empty()) return {Operation::kGetObject, Right::kRead};
  const std::string_view method = get ? "GET" : request.method;
  for (const Rule& rule : kRules) {
    if (rule.scope != scope || rule.method != method) continue;
    if (!rule.mark.empty() && !has(query, rule.mark)) continue;
    Asked asked{rule.operation, rule.right};
    const bool copies = request.find("x-amz-copy-source").has_value();
    if (asked.operation == Operation::kPutObject && copies) asked.operation = Operation::kCopyObject;
    if (asked.operation == Operation::kPutPart && copies) asked.operation = Operation::kCopyPart;
    if (asked.operation == Operation::kListObjects && request.method == "HEAD")
      asked.operation = Operation::kHeadBucket;
    return asked;
  }
  return {Operation::kNone, get ? Right::kRead : Right::kWrite};
}

Status check_supported(Operation operation, const net::RequestHead& request,
                       const std::vector<net::QueryItem>& query) {
  const bool get = is_get(request);
  const Rule* rule = get ? nullptr : find_rule(operation);
  for (const auto& [name, value] : query) {
    if (name == "versionId" && value != "null")
      return make_error(Code::kUnsupported, "NotImplemented: versions of objects are not kept");
    const bool known =
        get ? !is_among(kUnsupportedReads, name)
            : rule != nullptr && (name == rule->mark || name == rule->queries || is_of_links(name));
    if (!known)
      return make_error(Code::kUnsupported, "NotImplemented: ?{} is not supported in this {}",
                        printable(name, 64), printable(request.method, 16));
    if (is_amazons(name)) MR_TRY(check_header(name, value));
  }
  for (const net::HeaderView& header : request.headers) {
    if (is_amazons(header.name)) MR_TRY(check_header(header.name, header.value));
  }
  return {};
}

}  // namespace millrace::cluster
