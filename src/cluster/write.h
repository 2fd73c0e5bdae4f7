// Writing objects: PUT, copy, delete, tags.
#pragma once

#include "cluster/call.h"

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

// "/bucket/key" of x-amz-copy-source, and what it must be.
struct CopySource {
  std::string bucket;
  std::string key;
};
Result<CopySource> parse_copy_source(std::string_view text);
// The source object, judged by rights and the x-amz-copy-source-if-* headers.
net::Task<Result<std::shared_ptr<const store::Object>>> open_copy_source(Call& call);
// Bytes of one object into a writer; blocks. The MD5 of them if asked for.
enum class Md5 { kNo, kYes };
Result<std::string> copy_bytes(store::Store& store, const store::Object& source, uint64_t offset,
                               uint64_t size, store::Writer& writer, Md5 md5);
Result<std::shared_ptr<const store::Object>> finish_blocking(store::Writer& writer, store::Finish finish);

}  // namespace millrace::cluster
