// Links that let anyone who has one read or write one object for a while, without a key.
//
// A link is a signed address: nothing is asked of the store, which judges method, address and time when the
// link is used. Whoever alters any of them makes it worthless. Pure but for the clock it is handed.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "transfer/stores.h"

namespace millrace::transfer {

struct ShareOptions {
  enum class Right { kRead, kWrite };
  Right right = Right::kRead;
  uint64_t expires_seconds = 3600;
};

// kDenied: there are no keys to sign with. kInvalid: no object, or a longer time than S3 allows.
Result<std::string> make_link(const Location& object, const ShareOptions& options, int64_t wall_ms);

}  // namespace millrace::transfer
