// Completing an upload in parts to a bucket whose writes go through to its upstream.
//
// The parts are of the store, like those of any upload. When they are complete, the object is sent to the
// upstream and goes from here: its ETag there is another one, so it is fetched when it is read. What the
// upstream does not take goes from here as well, and is not acknowledged. Blocks for as long as that takes.
#pragma once

#include "store/objects.h"
#include "upstream/through_writer.h"
#include "upstream/upstreams.h"

namespace millrace::upstream {

// kUnsupported for conditions: they would be judged here and not there.
Result<store::ObjectPointer> complete_through(const ThroughLinks& links, const Upstream& upstream,
                                              const store::Completion& completion);

}  // namespace millrace::upstream
