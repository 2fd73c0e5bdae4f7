// Which parts of an upload become its object, and the record of that object. Pure.
//
// Shared by the store of one machine and by a cluster, so that both judge a completion alike.
#pragma once

#include <vector>

#include "base/result.h"
#include "store/objects.h"
#include "store/record.h"

namespace millrace::store {

inline constexpr uint64_t kMinPartBytes = 5 << 20;  // of all parts but the last

// A part that was uploaded.
struct UploadPart {
  unsigned number = 0;
  Record record;
};

// The parts that a completion names, in its order. `there` is sorted by number. Where several have one number
// the etag decides, and of equal etags the first one is taken. kNoSuchPart, kPartsOutOfOrder, kPartTooSmall.
Result<std::vector<UploadPart>> choose_parts(const std::vector<UploadPart>& there,
                                             const std::vector<CompletePart>& wanted);

// The headers and tags that an upload was begun with.
struct UploadWords {
  std::vector<NameValue> headers;
  std::vector<NameValue> tags;
};
// The object's record, but for its version and, where the completion gives none, the etag.
Result<Record> join_parts(const std::vector<UploadPart>& parts, UploadWords words,
                          const Completion& completion);

}  // namespace millrace::store
