// Index files beside shards: makes them, loads them, and says whether they are stale.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "shard/input.h"
#include "tar/index.h"

namespace millrace::shard {

std::string index_path(const std::string& shard);

// Reads the shard once, wherever it is: the bytes of its index.
Result<std::string> build_index(const std::string& shard, const InputOptions& options);

// Reads the shard once and puts its index beside it, replacing an older one.
struct IndexReport {
  uint64_t samples = 0;
  uint64_t shard_bytes = 0;
  uint64_t index_bytes = 0;
};
Result<IndexReport> make_index(const std::string& shard, const InputOptions& options);

inline constexpr uint64_t kMaxIndexBytes = uint64_t{16} << 30;
// The index beside a shard, if it belongs to it as far as the length tells; checking the content needs the
// whole shard (verify does). A missing file, damage or another length is an error.
Result<tar::Index> load_index(const std::string& shard);

}  // namespace millrace::shard
