// Talking to a running node from a verb.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/shell.h"

namespace millrace::cli {

// The node that is meant: `endpoint`, or MILLRACE_ENDPOINT, or http://127.0.0.1:9400.
std::string endpoint_or_default(const std::string& endpoint);
// A request below /-/ of the node, signed where MILLRACE_ACCESS_KEY and MILLRACE_SECRET_KEY are set.
Result<Json> administer(const std::string& endpoint, const std::string& method, const std::string& what,
                        const Json& body);

}  // namespace millrace::cli
