// A page of a bucket in front of other storage: what the upstream lists, and which of it is stored here.
//
// Of an upstream without lists (plain HTTP) a page shows what is stored here. Blocks.
#pragma once

#include <string>

#include "store/objects.h"
#include "upstream/remote.h"

namespace millrace::upstream {

Result<store::ListPage> list_upstream(Remote& remote, store::Objects& objects, const std::string& bucket,
                                      const store::ListOptions& options);

}  // namespace millrace::upstream
