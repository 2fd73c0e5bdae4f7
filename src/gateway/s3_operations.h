// The operations that are served: one table of how each is asked for, the right it needs, its code, its
// meter.
//
// A request is resolved once, from its method, its path, its query and one header. Right and code follow from
// the same row, so that no query can make one of the two see another request than the other does. A new
// operation is a name in Operation, a row in the table, and a function in the file of its kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/access.h"
#include "net/http.h"
#include "net/task.h"
#include "net/url.h"

namespace millrace::gateway {

class Call;

// What the path names.
enum class Scope : uint8_t { kService, kBucket, kObject };

enum class Operation : uint8_t {
  kNone,            // nothing that is served
  kRefused,         // no right, no valid signature, or more said than is understood
  kAdministration,  // everything under /-/
  kListBuckets,
  kListUploads,
  kListVersions,
  kGetLocation,
  kGetVersioning,
  kGetBucketAcl,
  kGetPolicy,
  kGetBucketTags,
  kHeadBucket,
  kListObjects,
  kDeleteObjects,
  kGetBatch,
  kPrefetch,
  kCreateBucket,
  kDeleteBucket,
  kListParts,
  kGetTags,
  kGetAcl,
  kGetTransformed,
  kGetIndex,
  kGetMember,
  kGetSample,
  kGetSamples,
  kFindPlace,
  kHeadObject,
  kGetObject,
  kCopyPart,
  kPutPart,
  kPutTags,
  kCopyObject,
  kPutObject,
  kCompleteUpload,
  kCreateUpload,
  kAbortUpload,
  kDeleteTags,
  kDeleteObject,
};
inline constexpr size_t kOperations = static_cast<size_t>(Operation::kDeleteObject) + 1;

struct OperationRow {
  Operation operation;
  Scope scope;
  std::string_view method;  // GET: HEAD too
  std::string_view mark;    // the query that makes it this operation; empty: no other mark is there
  std::string_view header;  // that must be there, too
  Right right;
  net::Task<Status> (*serve)(Call& call);
  std::string_view meter;    // several operations may share one
  std::string_view queries;  // that it takes beside its mark, where it is not a GET
};

const OperationRow& row_of(Operation operation);

// kNone where nothing of the kind is served.
Operation resolve(Scope scope, const net::RequestHead& request, const std::vector<net::QueryItem>& query);

}  // namespace millrace::gateway
