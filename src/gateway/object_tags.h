// Tags of objects.
#pragma once

#include "gateway/call.h"

namespace millrace::gateway {

net::Task<Status> get_tags(Call& call);
net::Task<Status> put_tags(Call& call);
net::Task<Status> delete_tags(Call& call);

}  // namespace millrace::gateway
