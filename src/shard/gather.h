// GatherStream: whole samples of archives in which the members of one sample need not lie together.
//
// tar writes a directory in the order in which the file system lists it, so that the members of a sample may
// lie anywhere. The stream looks at the first samples before it gives any. While all have the same fields,
// and more than one, samples pass as they come. From the first sample on that may be incomplete, everything
// goes through bounded memory and temporary runs and comes out in the order in which the samples first
// appeared (or in a random one). Memory: `memory`, kHoldBytes, and 32 bytes per gathered sample. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "shard/run_pile.h"
#include "shard/stream.h"

namespace millrace::shard {

struct GatherOptions {
  enum class When : uint8_t { kNeeded, kAlways };
  When when = When::kNeeded;
  std::optional<uint64_t> shuffle_seed;  // a random order, the same as sorting gives; gathers always
  uint64_t memory = uint64_t{1} << 30;
  std::string temporary_directory = ".";
};

class GatherStream final : public SampleStream {
 public:
  static constexpr uint64_t kHoldBytes = 64 << 20;
  static constexpr size_t kHoldSamples = 1024;

  GatherStream(std::vector<std::string> names, InputOptions input, GatherOptions options);
  Result<const tar::Sample*> next() override;

  void on_loose(tar::SampleReader::OnLoose call) { input_.on_loose(std::move(call)); }
  uint64_t loose_members() const { return input_.loose_members(); }

  struct Report {
    uint64_t passed = 0;    // samples that were given as they came
    uint64_t gathered = 0;  // samples that were held back until the end of the input
    uint64_t pieces = 0;    // that these were in
    uint64_t spilled_bytes = 0;
  };
  const Report& report() const { return report_; }

 private:
  enum class Mode : uint8_t { kUndecided, kPassing, kGathered };
  struct Held {
    std::string blocks;
    Origin origin;
    uint64_t key_hash = 0;
  };

  // Reads the first samples, and finds out which mode it is.
  Status decide();
  bool may_be_incomplete(const tar::Sample& sample);
  Result<const tar::Sample*> pass();
  // Everything from here on to the pile.
  Status gather_rest(const tar::Sample* first);
  Status gather(std::string_view blocks, uint64_t key_hash, const Origin& origin);
  Result<const tar::Sample*> next_gathered();

  const GatherOptions options_;
  const tar::KeyRule key_rule_;
  InputStream input_;
  tar::SampleParser parser_;
  Mode mode_ = Mode::kUndecided;
  bool input_ended_ = false;
  std::vector<std::string> fields_;  // of the first sample
  std::deque<Held> held_;
  Held shown_;
  std::string blocks_;

  std::unique_ptr<RunPile> pile_;
  std::optional<Arena> arena_;
  std::unordered_map<uint64_t, uint64_t> first_seen_;  // hash of key and archive -> how many samples before
  std::vector<uint64_t> samples_of_;                   // gathered so far, by archive
  std::unique_ptr<RunCursor> merged_;
  const RunRecord* ahead_ = nullptr;  // the first piece of the next sample
  Report report_;
};

}  // namespace millrace::shard
