// The table, and finding a request's row.
#include "gateway/s3_operations.h"

#include <algorithm>

#include "gateway/buckets.h"
#include "gateway/copy_object.h"
#include "gateway/delete_objects.h"
#include "gateway/get_object.h"
#include "gateway/list_objects.h"
#include "gateway/multipart.h"
#include "gateway/object_tags.h"
#include "gateway/prefetch.h"
#include "gateway/put_object.h"
#include "gateway/shards.h"
#include "gateway/transforms.h"

namespace millrace::gateway {

namespace {

using enum Scope;

constexpr Right kRead = Right::kRead;
constexpr Right kWrite = Right::kWrite;
constexpr std::string_view kCopies = "x-amz-copy-source";

// In the order of the enum. The first row that matches counts: rows without a mark come last in their group.
constexpr OperationRow kRows[] = {
    {Operation::kNone, kService, "", "", "", kWrite, nullptr, "other", ""},
    {Operation::kRefused, kService, "", "", "", kWrite, nullptr, "refused", ""},
    {Operation::kAdministration, kService, "", "", "", kWrite, nullptr, "administration", ""},
    {Operation::kListBuckets, kService, "GET", "", "", kRead, list_buckets, "list_buckets", ""},
    {Operation::kListUploads, kBucket, "GET", "uploads", "", kRead, list_uploads, "list_uploads", ""},
    {Operation::kListVersions, kBucket, "GET", "versions", "", kRead, list_versions, "list", ""},
    {Operation::kGetLocation, kBucket, "GET", "location", "", kRead, get_location, "bucket_config", ""},
    {Operation::kGetVersioning, kBucket, "GET", "versioning", "", kRead, get_versioning, "bucket_config", ""},
    {Operation::kGetBucketAcl, kBucket, "GET", "acl", "", kRead, get_acl, "bucket_config", ""},
    {Operation::kGetPolicy, kBucket, "GET", "policy", "", kRead, get_policy, "bucket_config", ""},
    {Operation::kGetBucketTags, kBucket, "GET", "tagging", "", kRead, get_bucket_tags, "bucket_config", ""},
    {Operation::kHeadBucket, kBucket, "HEAD", "", "", kRead, head_bucket, "head_bucket", ""},
    {Operation::kListObjects, kBucket, "GET", "", "", kRead, list_objects, "list", ""},
    {Operation::kDeleteObjects, kBucket, "POST", "delete", "", kWrite, delete_objects, "delete_many", ""},
    {Operation::kGetBatch, kBucket, "POST", "batch", "", kRead, get_batch, "get_batch", "transform"},
    {Operation::kPrefetch, kBucket, "POST", "prefetch", "", kRead, prefetch_objects, "prefetch", ""},
    {Operation::kCreateBucket, kBucket, "PUT", "", "", kWrite, create_bucket, "create_bucket", ""},
    {Operation::kDeleteBucket, kBucket, "DELETE", "", "", kWrite, delete_bucket, "delete_bucket", ""},
    {Operation::kListParts, kObject, "GET", "uploadId", "", kRead, list_parts, "list_parts", ""},
    {Operation::kGetTags, kObject, "GET", "tagging", "", kRead, get_tags, "get_tags", ""},
    {Operation::kGetAcl, kObject, "GET", "acl", "", kRead, get_acl, "bucket_config", ""},
    {Operation::kGetTransformed, kObject, "GET", "transform", "", kRead, get_transformed, "transform", ""},
    {Operation::kGetIndex, kObject, "GET", "index", "", kRead, get_index, "get_index", ""},
    {Operation::kGetMember, kObject, "GET", "member", "", kRead, get_member, "get_member", ""},
    {Operation::kGetSample, kObject, "GET", "sample", "", kRead, get_samples, "get_samples", ""},
    {Operation::kGetSamples, kObject, "GET", "samples", "", kRead, get_samples, "get_samples", ""},
    {Operation::kFindPlace, kObject, "HEAD", "place", "", kWrite, find_place, "find_place", ""},
    {Operation::kHeadObject, kObject, "HEAD", "", "", kRead, get_object, "head", ""},
    {Operation::kGetObject, kObject, "GET", "", "", kRead, get_object, "get", ""},
    {Operation::kCopyPart, kObject, "PUT", "uploadId", kCopies, kWrite, copy_part, "copy_part", "partNumber"},
    {Operation::kPutPart, kObject, "PUT", "uploadId", "", kWrite, put_part, "put_part", "partNumber"},
    {Operation::kPutTags, kObject, "PUT", "tagging", "", kWrite, put_tags, "put_tags", "versionId"},
    {Operation::kCopyObject, kObject, "PUT", "", kCopies, kWrite, copy_object, "copy", ""},
    {Operation::kPutObject, kObject, "PUT", "", "", kWrite, put_object, "put", ""},
    {Operation::kCompleteUpload, kObject, "POST", "uploadId", "", kWrite, complete_upload, "complete_upload",
     ""},
    {Operation::kCreateUpload, kObject, "POST", "uploads", "", kWrite, create_upload, "create_upload", ""},
    {Operation::kAbortUpload, kObject, "DELETE", "uploadId", "", kWrite, abort_upload, "abort_upload", ""},
    {Operation::kDeleteTags, kObject, "DELETE", "tagging", "", kWrite, delete_tags, "delete_tags",
     "versionId"},
    {Operation::kDeleteObject, kObject, "DELETE", "", "", kWrite, delete_object, "delete", "versionId"},
};

constexpr bool in_order() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (static_cast<size_t>(kRows[i].operation) != i) return false;
  }
  return true;
}
static_assert(std::size(kRows) == kOperations && in_order());

bool has(const std::vector<net::QueryItem>& query, std::string_view name) {
  return std::ranges::any_of(query, [&](const net::QueryItem& item) { return item.first == name; });
}

}  // namespace

const OperationRow& row_of(Operation operation) {
  return kRows[static_cast<size_t>(operation)];
}

Operation resolve(Scope scope, const net::RequestHead& request, const std::vector<net::QueryItem>& query) {
  const bool head = request.method == "HEAD";
  // Most requests are this one, and each nanosecond counts for small objects.
  if (scope == kObject && query.empty() && (head || request.method == "GET"))
    return head ? Operation::kHeadObject : Operation::kGetObject;
  for (const OperationRow& row : kRows) {
    if (row.serve == nullptr || row.scope != scope) continue;
    if (row.method != request.method && !(head && row.method == "GET")) continue;
    if (!row.mark.empty() && !has(query, row.mark)) continue;
    if (!row.header.empty() && !request.find(row.header)) continue;
    return row.operation;
  }
  return Operation::kNone;
}

}  // namespace millrace::gateway
