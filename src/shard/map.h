// map_samples: a command for every sample, several at a time, results in the order of the input.
//
// The command runs in a private directory that holds the sample's fields as files sample.jpg, sample.cls, …
// What is there under these names when it ends is the new sample; files of other names are scratch. The key
// is in the environment as MILLRACE_KEY. The command is the user's; nothing of a sample is ever part of it.
#pragma once

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
  std::string directory;                // exists, is empty, and is ours alone while this runs; left empty
  uint64_t memory = uint64_t{1} << 30;  // samples in flight, in and out
  tar::KeyRule key_rule = tar::KeyRule::kFirstDot;
};

struct MapReport {
  uint64_t in = 0;
  uint64_t out = 0;
  uint64_t failed = 0;
  uint64_t dropped = 0;  // the command succeeded and left no field
};

struct MapCalls {
  std::function<Status(std::string_view key, std::span<const NewField> fields)> made;
  std::function<Status(const tar::Sample&)> kept;  // as it was, with kKeep
};

Result<MapReport> map_samples(SampleStream& samples, const MapOptions& options, const MapCalls& calls);

// A directory nobody else knows, gone with everything in it when this is.
class PrivateDirectory {
 public:
  static Result<PrivateDirectory> make(const std::string& parent);
  PrivateDirectory(PrivateDirectory&& other) noexcept;
  PrivateDirectory& operator=(PrivateDirectory&&) = delete;
  ~PrivateDirectory();
  const std::string& path() const { return path_; }

 private:
  PrivateDirectory() = default;
  std::string path_;
};

}  // namespace millrace::shard
