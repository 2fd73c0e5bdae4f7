// Asks a Millrace store to fetch objects of a bucket that stands in front of other storage.
#pragma once

#include <string>
#include <vector>

#include "transfer/objects.h"

namespace millrace::transfer {

struct Prefetched {
  std::string key;
  enum class State { kComing, kStored, kFailed };
  State state = State::kComing;
  uint64_t stored_bytes = 0;
  std::string problem;  // why it failed
};
// What the store says of each, without waiting for any: ask again while some are coming.
Result<std::vector<Prefetched>> ask_prefetch(const Location& bucket, const std::vector<std::string>& keys);

}  // namespace millrace::transfer
