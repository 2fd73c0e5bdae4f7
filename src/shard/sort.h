// External sort and shuffle: any number of samples in a fixed amount of memory.
//
// Readers fill arenas with samples, order them and write them to nameless temporary files (runs); the runs
// are then merged. Shuffling is sorting by a random number that depends only on the seed and on where the
// sample stood, so the result is the same for any memory, any number of threads and any machine. Samples
// with equal keys keep their order and none is ever dropped. With `reread` it is the places of samples that
// are sorted, not their bytes.
//
// Memory: `memory` bytes for samples and their order, plus per reader one window (512 KiB, or the largest
// sample) and a merge buffer of at most the largest sample per run. Blocks the caller until done.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "shard/input.h"
#include "shard/reread.h"
#include "shard/run.h"
#include "tar/sample.h"

namespace millrace::shard {

enum class SortBy {
  kKey,     // the sample's key, byte by byte
  kText,    // a field's bytes
  kNumber,  // a field read as a number
  kRandom,  // the seed
  kPlace,   // as they stand
};

struct SortOptions {
  SortBy by = SortBy::kKey;
  std::string field;  // kText, kNumber
  uint64_t seed = 0;  // kRandom
  bool reverse = false;
  uint64_t memory = uint64_t{1} << 30;
  std::string temporary_directory = ".";
  unsigned jobs = 1;
  Reread reread = Reread::kAuto;
  InputOptions input;
};

struct SortReport {
  uint64_t samples = 0;
  uint64_t runs = 0;  // written to disk; 0: everything fitted
  uint64_t spilled_bytes = 0;
  uint64_t loose_members = 0;  // left out
};

Result<SortReport> sort_samples(const std::vector<std::string>& shards, const SortOptions& options,
                                const std::function<Status(const tar::Sample&)>& emit);

// The parts, for whoever sorts over several processes.
Direction direction_of(const SortOptions& options);
// A number whose bytes are in the order of the numbers; and that of a sample in the order that a seed makes.
std::string big_endian(uint64_t value);
std::string random_order(const Place& place, uint64_t seed);
// What a sample is ordered by, as bytes.
Result<std::string> order_of(const tar::Sample& sample, const Place& place, const SortOptions& options);
struct ReadReport {
  uint64_t samples = 0;
  uint64_t loose_members = 0;
};
// The samples of the shard with that number, in their order; each is valid during the call. Rereading is
// chosen before: kAuto counts as kNever.
Result<ReadReport> read_records(const std::string& shard, uint64_t number, const SortOptions& options,
                                const std::function<Status(const RunRecord&)>& take);
Status check_memory(const SortOptions& options);

// The order of numbers as the order of bytes: "-3" < "0.5" < "7" < "9007199254740993". Nothing for no number.
std::optional<std::string> number_as_bytes(std::string_view text);

}  // namespace millrace::shard
