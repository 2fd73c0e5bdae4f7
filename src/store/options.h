// StoreOptions: everything that can be set about the store of one machine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace millrace::store {

struct StoreOptions {
  std::string state_directory;  // node identity, list of drives; created if missing
  // Directories, beside those that the state already lists. Where neither names one: "drive" in the state's.
  std::vector<std::string> drives;
  // Whether a drive that names another node may be this one's from now on, by its id. Blocks. Empty: none
  // may.
  std::function<bool(const std::string& drive)> may_adopt = {};
  uint64_t read_window = 4 << 20;  // one sequential read of one stream
  unsigned reads_in_flight = 0;    // windows per drive at a time; 0: 1 on rotational drives, else 4
  uint64_t reserve_bytes =
      256 << 20;  // a drive with less free than this takes no new objects (at most 5 % of it)
  unsigned nearly_full_percent = 95;           // a drive that is used so far takes no new slices of a cluster
  size_t write_buffers = 256;                  // of kBlockBytes: what all PUTs together have in flight
  uint64_t request_bytes = 512 << 20;          // what requests under way may make the node hold
  uint64_t cache_bytes = 256 << 20;            // small objects and records kept in memory
  unsigned open_files = 4096;                  // descriptors kept open for hot objects
  unsigned workers = 32;                       // threads for lookups, and as many for long lists
  bool direct_io = true;                       // false: buffered writes, for file systems without O_DIRECT
  uint64_t scrub_bytes_per_second = 20 << 20;  // 0: no scrubbing
  uint64_t scrub_cycle_seconds = 14 * 86400;
  uint64_t upload_expiry_seconds = 7 * 86400;  // of abandoned multipart uploads
};

}  // namespace millrace::store
