// /-/transforms: which transforms there are, what they are, adding and removing them.
//
//   GET    /-/transforms        all, with what they did on this node
//   GET    /-/transforms/NAME   one, with its description and its latest failures here; needs the right admin
//   PUT    /-/transforms/NAME   the body is its description
//   DELETE /-/transforms/NAME
#pragma once

#include <string_view>

#include "gateway/call.h"
#include "node/node_transforms.h"

namespace millrace::node {

bool is_of_transforms(std::string_view what);
// Of a caller whose right to it was judged. `what` is the path behind /-/.
net::Task<Status> administer_transforms(gateway::Call& call, NodeTransforms& transforms,
                                        std::string_view what);

}  // namespace millrace::node
