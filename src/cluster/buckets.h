// Buckets and their lists, as S3 has them.
#pragma once

#include "cluster/call.h"

namespace millrace::cluster {

net::Task<Status> list_buckets(Call& call);
net::Task<Status> create_bucket(Call& call);
net::Task<Status> head_bucket(Call& call);
net::Task<Status> delete_bucket(Call& call);
net::Task<Status> list_objects(Call& call);  // versions 1 and 2

}  // namespace millrace::cluster
