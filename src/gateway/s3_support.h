// Whether a request says more than its operation does. Pure.
//
// A change that is only half understood must not be made: an unknown condition, checksum or query is an
// error. Where a request only reads, words that S3 does not know either are passed over.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/s3_operations.h"
#include "net/http.h"
#include "net/url.h"

namespace millrace::gateway {

Status check_supported(Operation operation, const net::RequestHead& request,
                       const std::vector<net::QueryItem>& query);

// Whether a query belongs to a signed link, or is one that clients add to every request.
bool is_of_links(std::string_view name);

}  // namespace millrace::gateway
