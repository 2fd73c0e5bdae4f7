// PUT of an object, and what every request that makes an object has in common.
#pragma once

#include <vector>

#include "gateway/call.h"

namespace millrace::gateway {

net::Task<Status> put_object(Call& call);
// HEAD ?place=BYTES: where an object of that size would lie, so that a client sends it straight there.
net::Task<Status> find_place(Call& call);

// What a request that makes an object says of it: headers, tags, conditions; without the size.
Result<store::PutOptions> put_options(const Call& call);
// The headers of a request that are kept with the object.
Result<std::vector<store::NameValue>> kept_headers(const Call& call);
Result<store::Condition> put_condition(const Call& call);
// Against the object as it is now; what counts is the judgement at the commit.
net::Task<Status> judge_now(Call& call, store::Condition condition);

}  // namespace millrace::gateway
