// fsck: checks a drive of a stopped node, and rebuilds its index from the files where it is lost.
//
// Both directions: every record has its files, every file its record; deep: every block too. Rebuilding tries
// RocksDB's own repair first; where that fails the broken index is put aside, and a new one is made from what
// each file says about itself. Small objects lived in the index alone: those are lost with it, and the report
// says so. Changes nothing unless asked to rebuild. Blocks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/drives.h"

namespace millrace::store {

struct FsckOptions {
  bool rebuild = false;
  bool deep = false;
};

struct FsckReport {
  uint64_t objects = 0;         // with a record, tombstones not counted
  uint64_t inline_objects = 0;  // of those: inside the index
  uint64_t uploads = 0;
  uint64_t files = 0;
  uint64_t bytes = 0;                // of all files
  std::vector<std::string> orphans;  // files that no record names
  std::vector<Damage> damages;       // missing files, wrong checksums, unreadable records
  bool index_repaired = false;       // by RocksDB
  bool index_rebuilt = false;        // from the files
  uint64_t restored_objects = 0;
  uint64_t restored_uploads = 0;
  std::vector<std::string> lost;  // what could not be restored, and why

  bool is_clean() const { return orphans.empty() && damages.empty() && lost.empty(); }
};

// kUnavailable: the drive is in use. kCorrupt with a hint: the index is broken and `rebuild` was not asked
// for.
Result<FsckReport> fsck(const std::string& drive_path, FsckOptions options);

}  // namespace millrace::store
