// Copies inside the store: whole objects, and ranges of them as parts of an upload.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/call.h"
#include "gateway/get_object.h"
#include "net/digest.h"

namespace millrace::gateway {

net::Task<Status> copy_object(Call& call);

// "/bucket/key" of x-amz-copy-source, and what it must be.
struct CopySource {
  std::string bucket;
  std::string key;
};
Result<CopySource> parse_copy_source(std::string_view text);
// The source object, judged by rights and the x-amz-copy-source-if-* headers.
net::Task<Result<store::ObjectPointer>> open_copy_source(Call& call);
// What a copy takes of its source, and what is computed on the way.
struct CopyPlan {
  ByteRange range;
  bool md5 = false;  // for the etag
  std::vector<net::DigestKind> checksums;
};
// Bytes of one object into a writer, which is finished; blocks.
Result<store::ObjectPointer> copy_into(store::Objects& objects, store::ObjectPointer source,
                                       store::Writer& writer, const CopyPlan& plan);

}  // namespace millrace::gateway
