// RequestMemory: what requests under way may make the node hold, beside the buffers of PUTs.
//
// Three budgets, so that nobody waits for what a waiting request holds: a request holds its document while it
// waits for `work`; whoever holds `work` waits for nothing; `indexes` are given up rather than waited for.
// Senders decide how long a PUT takes, so its index must not keep others from working. Any thread.
#pragma once

#include <cstdint>

#include "base/buffer.h"

namespace millrace::store {

struct RequestMemory {
  explicit RequestMemory(uint64_t total) : documents(total / 4), indexes(total / 4), work(total / 2) {}

  Budget documents;  // bodies that are read whole
  Budget indexes;    // of shards that are being PUT
  Budget work;       // plans, lists, answers, unpacking, indexes that are asked for
};

}  // namespace millrace::store
