// ShardWriter: samples to a set of shards, each closed when it is full.
//
// A full shard is flushed and renamed by a thread of its own while the next one is being filled, so the
// drive's flush is not waited for. finish() waits for all of them; without it, shards that were not yet
// complete leave no trace. One thread adds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/progress.h"
#include "base/queue.h"
#include "base/result.h"
#include "shard/names.h"
#include "shard/output.h"
#include "tar/sample.h"

namespace millrace::shard {

struct ShardLimits {
  uint64_t max_bytes = 1'000'000'000;  // of the tar; a single larger sample still gets a shard of its own
  uint64_t max_samples = UINT64_MAX;
};

// Whether a shard with this much in it is closed before a sample of that size.
bool is_full(const ShardLimits& limits, uint64_t samples, uint64_t tar_bytes, uint64_t next_sample_bytes);

class ShardWriter {
 public:
  // `first`: the number of the first shard.
  ShardWriter(OutputName name, ShardLimits limits, OutputOptions options, uint64_t first = 0);
  ~ShardWriter();

  Status add(const tar::Sample& sample);
  Status add(std::string_view key, std::span<const NewField> fields);
  Status add_loose(std::string_view blocks);

  // Closes the last shard and waits. No sample at all still makes one empty shard.
  Result<std::vector<ShardSummary>> finish();

 private:
  Result<ShardFile*> shard_for(uint64_t sample_bytes);
  Status close_current();
  void finish_shards();

  const OutputName name_;
  const ShardLimits limits_;
  const OutputOptions options_;
  std::unique_ptr<ShardFile> current_;
  const uint64_t first_number_;
  uint64_t next_number_;

  BoundedQueue<std::unique_ptr<ShardFile>> full_{1};
  Mutex mutex_;
  std::vector<ShardSummary> summaries_ MR_GUARDED_BY(mutex_);
  std::optional<Error> failure_ MR_GUARDED_BY(mutex_);  // the first
  std::thread finisher_;
};

}  // namespace millrace::shard
