// Asks a running node on behalf of a verb.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/shell.h"

namespace millrace::cli {

// A request below /-/ of a node.
struct NodeRequest {
  std::string method = "GET";
  std::string what;   // the path behind /-/
  std::string query;  // percent-encoded
  Json body;          // null: none
};

// With the keys and TLS settings of every verb.
Result<Json> administer(transfer::Store& store, const NodeRequest& wanted);
// Of the node at `endpoint` (empty: that of mr://).
Result<Json> administer(Shell& shell, const std::string& endpoint, const std::string& method,
                        const std::string& what, const Json& body);

}  // namespace millrace::cli
