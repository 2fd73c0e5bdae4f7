// Checking one object file: its size, its trailer, every block or some of them.
//
// Reads past the page cache where the file system can, so that a scrubber does not push out what readers
// need. Blocks; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "store/trailer.h"

namespace millrace::store {

struct FileCheck {
  Trailer trailer;
  std::vector<uint64_t> bad_blocks;
};

// Called for each block with its bytes, good or bad; an error ends the check.
using BlockVisitor = std::function<Status(uint64_t block, std::string_view bytes)>;

// Which blocks of a file are checked: all, unless something else is said.
struct BlockRange {
  uint64_t first = 0;
  uint64_t count = std::numeric_limits<uint64_t>::max();
};

// An error where the file cannot be read or its trailer is not good: then nothing is known about its blocks.
Result<FileCheck> check_file(const std::string& path, uint64_t file, const BlockVisitor& visit,
                             BlockRange range = {});

}  // namespace millrace::store
