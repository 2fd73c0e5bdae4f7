// Progress: what the walks of one node found, and what it mended. A value that nodes tell each other.
#pragma once

#include <cstdint>
#include <string>

namespace millrace::cluster {

struct Progress {
  // Of the walk under way, and of the last one.
  uint32_t clean = 0;          // epoch of the last walk that found all in order
  uint32_t walking = 0;        // epoch of the walk under way; 0: none
  uint64_t rows = 0;           // that it has looked at
  uint64_t rows_before = 0;    // in the whole walk before
  uint64_t objects = 0;        // whose first holder is here, as the last look over all rows found them
  uint64_t below = 0;          // of them: those that lack slices
  uint64_t below_floor = 0;    // and those that have fewer than a write would need
  uint64_t to_move_bytes = 0;  // of the slices that lack
  uint64_t needed = 0;         // objects that would be below the floor without this node
  uint64_t held = 0;           // slices on this node's drives
  uint64_t failures = 0;       // keys that could not be brought into order
  std::string problem;         // the last of them
  // Since the node's start.
  uint64_t mended = 0;  // keys that were changed
  uint64_t built = 0;   // slices
  uint64_t built_bytes = 0;
  uint64_t bytes_per_second = 0;  // of building, lately
  uint64_t forgotten = 0;         // rows in wrong places, and tombstones
  uint64_t under_way = 0;         // keys
  uint64_t damaged = 0;           // slices on this node's drives that wait to be made again
  uint64_t repaired = 0;          // damaged slices that were made again

  bool operator==(const Progress&) const = default;
};

}  // namespace millrace::cluster
