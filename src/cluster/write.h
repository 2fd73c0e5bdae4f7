// Writing objects: PUT, copy, delete, tags.
#pragma once

#include "cluster/call.h"
#include "cluster/read.h"
#include "net/digest.h"

namespace millrace::cluster {

net::Task<Status> put_object(Call& call);
net::Task<Status> copy_object(Call& call);
net::Task<Status> delete_object(Call& call);
net::Task<Status> delete_objects(Call& call);  // POST ?delete
net::Task<Status> get_tags(Call& call);
net::Task<Status> put_tags(Call& call);
net::Task<Status> delete_tags(Call& call);

// The headers of a request that are kept with the object.
Result<std::vector<store::NameValue>> kept_headers(const Call& call);
Result<store::Condition> put_condition(const Call& call);
// Against the object as it is now; what counts is the judgement at the commit.
net::Task<Status> judge_now(Call& call, store::Condition condition);

// "/bucket/key" of x-amz-copy-source, and what it must be.
struct CopySource {
  std::string bucket;
  std::string key;
};
Result<CopySource> parse_copy_source(std::string_view text);
// The source object, judged by rights and the x-amz-copy-source-if-* headers.
net::Task<Result<std::shared_ptr<const store::Object>>> open_copy_source(Call& call);
// What a copy takes of its source, and what is computed on the way.
struct CopyPlan {
  ByteRange range;
  bool md5 = false;  // for the etag
  std::vector<net::DigestKind> checksums;
};
// Bytes of one object into a writer, which is finished; blocks.
Result<std::shared_ptr<const store::Object>> copy_into(store::Store& store, const store::Object& source,
                                                       store::Writer& writer, const CopyPlan& plan);

}  // namespace millrace::cluster
