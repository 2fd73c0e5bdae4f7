// Files to objects: one request for a small one, parallel parts for a large one.
//
// Every request carries the CRC32C of its bytes, so that a store which checks it never keeps wrong ones. An
// upload that was interrupted goes on with the parts that the store already has, if they are the same bytes.
#pragma once

#include <cstdint>
#include <string>

#include "base/progress.h"
#include "base/result.h"
#include "transfer/objects.h"

namespace millrace::transfer {

inline constexpr uint64_t kMultipartFrom = 64 << 20;
inline constexpr uint64_t kPartBytes = 16 << 20;
inline constexpr uint64_t kMostParts = 10'000;

// The size of all parts but the last: grows so that kMostParts are enough.
uint64_t part_bytes_for(uint64_t object_bytes);

struct TransferOptions {
  unsigned jobs = 4;  // parts at a time
  Progress* progress = nullptr;
  PutOptions put;
};
struct Transferred {
  uint64_t bytes = 0;
  uint64_t resumed_bytes = 0;  // of them, there already from an earlier attempt
};
Result<Transferred> upload_file(const std::string& path, const Location& object,
                                const TransferOptions& options);

}  // namespace millrace::transfer
