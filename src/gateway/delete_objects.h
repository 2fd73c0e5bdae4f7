// Deletes: one object, or many in one request.
#pragma once

#include "gateway/call.h"

namespace millrace::gateway {

net::Task<Status> delete_object(Call& call);
net::Task<Status> delete_objects(Call& call);  // POST ?delete

}  // namespace millrace::gateway
