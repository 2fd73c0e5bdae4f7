// mapreduce over shards: a mapper turns a shard into records, a reducer turns groups of records into samples.
//
// The mapper reads a shard (tar) and writes a tar, whose keys may return as often as it likes: adjacent
// members with one key are a record, and a field that comes again begins the next one. Records with the same
// key are a group. The reducer reads a tar in which groups stand one behind the other, in the order of their
// keys' bytes, and writes the samples of a shard. Members are called KEY/000000000.FIELD for it, where the
// number counts the records of the group; records of a group are in the order of the mapper's inputs. A
// combiner is a reducer behind one mapper, whose output is again records.
//
// Between the two, records are samples with one field more, kGroupField, and unique keys; whoever sorts them
// by that field (shard/sort.h, exchange/rank_sort.h) and cuts them into shards prepares the reducers. A group
// belongs to the shard in which it begins: reading the shard before it and those behind it tells its ends.
// So the output depends on inputs and commands alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "shard/input.h"
#include "shard/output.h"

namespace millrace::shard {

inline constexpr std::string_view kGroupField = "millrace-group";
// In the environment of the commands: a file to which they append lines "NAME NUMBER". What the lines of all
// commands say of a name is summed up.
inline constexpr std::string_view kCountersVariable = "MILLRACE_COUNTERS";
inline constexpr size_t kMostCounters = 100;
using Counters = std::map<std::string, int64_t>;
// kCorrupt names the line that is none.
Status add_counters(const std::string& path, Counters& counters);

// What both sides need.
struct MapReducePlace {
  std::string directory;  // exists; for the commands and for temporary files
  uint64_t memory = uint64_t{256} << 20;
  InputOptions input;
  OutputOptions output;
};

struct MapRecords {
  std::vector<std::string> mapper;    // words
  std::vector<std::string> combiner;  // none: empty
  std::string input;
  std::string output;
  uint64_t number = 0;  // of the input among all
};
struct MapReduceReport {
  uint64_t bytes_in = 0;
  uint64_t records = 0;
  uint64_t groups = 0;   // of a reducer
  uint64_t samples = 0;  // of a reducer
  uint64_t bytes_out = 0;
};
Result<MapReduceReport> map_records(const MapRecords& task, const MapReducePlace& place);

struct ReduceGroups {
  std::vector<std::string> reducer;
  std::vector<std::string> sorted;  // all shards of sorted records
  size_t at = 0;                    // the groups that begin in this one
  std::string output;
};
Result<MapReduceReport> reduce_groups(const ReduceGroups& task, const MapReducePlace& place);

}  // namespace millrace::shard
