// Rereading: a sort that carries where samples lie instead of their bytes, and reads those a second time when
// they are written.
//
// In a record a spot stands for the sample's blocks. Blocks come in multiples of 512 bytes and a spot does
// not, so records of both kinds mix: samples of compressed shards, streams and stores, which cannot be read
// at any place, carry their bytes. Each part belongs to one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "shard/run.h"
#include "tar/sample.h"

namespace millrace::shard {

enum class Reread {
  kAuto,    // where the inputs are files that the page cache will still hold
  kAlways,  // whatever can be
  kNever,
};

// What kAuto means for these inputs: kAlways or kNever.
Reread choose_reread(const std::vector<std::string>& shards);

// Where a sample lies in the file of its shard.
struct Spot {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t key_hash = 0;  // shows that the file is still the same

  std::string_view as_blocks() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }
};
static_assert(sizeof(Spot) % tar::kBlock != 0);

// The size of a record's sample.
uint64_t sample_bytes(const RunRecord& record);

// The samples of records, read where only their spot is known.
class SampleFinder {
 public:
  // `shards` outlives the finder.
  SampleFinder(const std::vector<std::string>& shards, tar::KeyRule key_rule)
      : shards_(shards), parser_(key_rule) {}

  // Valid until the next call, and as long as the record's blocks.
  Result<const tar::Sample*> find(const RunRecord& record);

 private:
  Result<File*> open(uint64_t shard);
  Result<std::string_view> read(const Spot& spot, uint64_t shard);

  const std::vector<std::string>& shards_;
  tar::SampleParser parser_;
  std::vector<File> files_;  // by shard; those that are open
  size_t open_files_ = 0;
  std::string blocks_;
};

}  // namespace millrace::shard
