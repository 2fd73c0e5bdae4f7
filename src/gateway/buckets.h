// Buckets as S3 has them: listed, made, removed, described.
#pragma once

#include <string>
#include <string_view>

#include "gateway/call.h"

namespace millrace::gateway {

// Of a request that makes a bucket, and of no other.
inline constexpr std::string_view kRedundancyHeader = "x-millrace-redundancy";
inline constexpr std::string_view kFloorHeader = "x-millrace-floor";

net::Task<Status> list_buckets(Call& call);
net::Task<Status> create_bucket(Call& call);
net::Task<Status> head_bucket(Call& call);
net::Task<Status> delete_bucket(Call& call);
net::Task<Status> get_location(Call& call);
net::Task<Status> get_versioning(Call& call);
net::Task<Status> get_policy(Call& call);
net::Task<Status> get_bucket_tags(Call& call);
net::Task<Status> get_acl(Call& call);  // of buckets and of objects

// kInvalidBucketName where a bucket of that name may not be made.
Status check_new_bucket(const std::string& name, store::NameRule names);

}  // namespace millrace::gateway
