// Operation: what a request asks for, decided once, from its method, its path and its query.
//
// The right that it needs and the code that serves it both follow from the operation, so that no query can
// make one of the two see another request than the other does. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/keys.h"
#include "net/http.h"
#include "net/url.h"

namespace millrace::cluster {

// What the path names.
enum class Scope { kService, kBucket, kObject };

enum class Operation {
  kNone,  // nothing that is served
  kListBuckets,
  kCreateBucket,
  kHeadBucket,
  kDeleteBucket,
  kListObjects,
  kListVersions,
  kListUploads,
  kDeleteObjects,
  kGetBatch,
  kGetLocation,
  kGetVersioning,
  kGetAcl,
  kGetPolicy,
  kGetBucketTags,
  kGetObject,
  kPutObject,
  kCopyObject,
  kDeleteObject,
  kGetTags,
  kPutTags,
  kDeleteTags,
  kGetIndex,
  kGetMember,
  kGetSamples,
  kCreateUpload,
  kPutPart,
  kCopyPart,
  kCompleteUpload,
  kListParts,
  kAbortUpload,
};

struct Asked {
  Operation operation = Operation::kNone;
  Right right = Right::kWrite;
};

Asked resolve(Scope scope, const net::RequestHead& request, const std::vector<net::QueryItem>& query);

// An error where the request says more than the operation does: a change that is only half understood must
// not be made. Where it only reads, words that S3 does not know either are passed over.
Status check_supported(Operation operation, const net::RequestHead& request,
                       const std::vector<net::QueryItem>& query);

}  // namespace millrace::cluster
