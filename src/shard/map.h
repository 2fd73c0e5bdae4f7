// map_samples: a command for every sample, several at a time, results in the order of the input.
//
// The command runs in a private directory that holds the sample's fields as files sample.jpg, sample.cls, …
// What is there under these names when it ends is the new sample; files of other names are scratch. The key
// is in the environment as MILLRACE_KEY. The command is the user's; nothing of a sample is ever part of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "shard/output.h"
#include "shard/stream.h"

namespace millrace::shard {

enum class OnCommandError {
  kAbort,  // stop everything
  kSkip,   // leave the sample out, and count it
  kKeep,   // pass the sample on as it was, and count it
};

enum class Fanout {
  kOne,   // sample.* is the result
  kMany,  // sample-A.*, sample-B.*, … are results with the keys KEY-A, KEY-B, …
};

struct MapOptions {
  std::vector<std::string> command;
  unsigned jobs = 1;
  OnCommandError on_error = OnCommandError::kAbort;
  Fanout fanout = Fanout::kOne;
  std::string temporary_directory = "/tmp";
  uint64_t memory = uint64_t{1} << 30;  // samples in flight, in and out
  tar::KeyRule key_rule = tar::KeyRule::kFirstDot;
  const std::atomic<bool>* interrupted = nullptr;  // checked between samples
};

struct MapReport {
  uint64_t in = 0;
  uint64_t out = 0;
  uint64_t failed = 0;
  uint64_t dropped = 0;  // the command succeeded and left no field
};

using EmitSample = std::function<Status(std::string_view key, std::span<const NewField> fields)>;

Result<MapReport> map_samples(SampleStream& samples, const MapOptions& options, const EmitSample& emit);

}  // namespace millrace::shard
