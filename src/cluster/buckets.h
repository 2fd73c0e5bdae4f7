// Buckets and their lists, as S3 has them.
#pragma once

#include "cluster/call.h"
#include "cluster/xml.h"

namespace millrace::cluster {

net::Task<Status> list_buckets(Call& call);
net::Task<Status> create_bucket(Call& call, store::NameRule names);
net::Task<Status> head_bucket(Call& call);
net::Task<Status> delete_bucket(Call& call);
net::Task<Status> list_objects(Call& call);   // versions 1 and 2
net::Task<Status> list_versions(Call& call);  // GET bucket?versions: each object is its only version, "null"

// InvalidBucketName where a bucket of that name may not be made.
Status check_new_bucket(const std::string& name, store::NameRule names);

// What lists have in common: numbers and encodings in their queries, and who owns what.
Result<uint64_t> get_number(const Call& call, std::string_view name, uint64_t usual);
Result<uint64_t> get_limit(const Call& call, std::string_view name);  // at most 1000
Result<bool> is_url_encoded(const Call& call);
void add_owner(XmlWriter& xml, std::string_view element);

}  // namespace millrace::cluster
