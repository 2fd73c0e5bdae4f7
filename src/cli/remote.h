// Asks a running node on behalf of a verb.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/shell.h"

namespace millrace::cli {

// A request below /-/ of the node at `endpoint` (empty: that of mr://), with the keys and TLS settings of
// every verb.
Result<Json> administer(Shell& shell, const std::string& endpoint, const std::string& method,
                        const std::string& what, const Json& body);

}  // namespace millrace::cli
