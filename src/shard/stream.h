// SampleStream: samples one after the other, and the stages that change which, in what order and how.
//
// Stages take the stream before them and own it. A sample is valid until the next call of next(). Only
// ShuffleStream and MixStream hold more than one sample; their bounds are in their options. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "shard/input.h"
#include "shard/names.h"
#include "tar/sample.h"

namespace millrace::shard {

class SampleStream {
 public:
  // Where a sample was first: which of the shards, and how many samples that gave before.
  struct Origin {
    size_t input = 0;
    uint64_t ordinal = 0;
  };
  virtual ~SampleStream() = default;
  virtual Result<const tar::Sample*> next() = 0;  // null at the end
  virtual Origin origin() const { return {}; }    // of the last; known of inputs and what shuffles them
};

// The samples of several shards, shard after shard.
class InputStream final : public SampleStream {
 public:
  InputStream(std::vector<std::string> names, InputOptions options)
      : names_(std::move(names)), options_(options) {}
  Result<const tar::Sample*> next() override;
  Origin origin() const override { return origin_; }

  // See SampleReader::on_loose. Set before the first next().
  void on_loose(tar::SampleReader::OnLoose call) { on_loose_ = std::move(call); }
  uint64_t loose_members() const;

 private:
  const std::vector<std::string> names_;
  const InputOptions options_;
  tar::SampleReader::OnLoose on_loose_;
  std::unique_ptr<ShardInput> input_;
  size_t opened_ = 0;
  Origin origin_;
  uint64_t loose_before_ = 0;
};

// Several streams by turns: each gives samples in proportion to its weight, exactly, until all are empty.
class MixStream final : public SampleStream {
 public:
  struct Part {
    std::unique_ptr<SampleStream> stream;
    double weight = 1;
  };
  explicit MixStream(std::vector<Part> parts);
  Result<const tar::Sample*> next() override;

 private:
  struct Lane {
    std::unique_ptr<SampleStream> stream;
    double weight;
    uint64_t given;
    bool empty;
    double due() const { return (static_cast<double>(given) + 1) / weight; }
  };
  std::vector<Lane> lanes_;
};

// Every step-th sample of [begin, end).
struct Slice {
  uint64_t begin = 0;
  uint64_t end = UINT64_MAX;
  uint64_t step = 1;
};
Result<Slice> parse_slice(std::string_view text);  // "a:b", "a:b:s", ":b", "a:"

class SliceStream final : public SampleStream {
 public:
  SliceStream(std::unique_ptr<SampleStream> before, Slice slice)
      : before_(std::move(before)), slice_(slice) {}
  Result<const tar::Sample*> next() override;

 private:
  std::unique_ptr<SampleStream> before_;
  const Slice slice_;
  uint64_t position_ = 0;
};

// A buffer of samples from which each step gives a random one. Holds at most `samples`, and is
// filled up to `bytes`: the last sample may go beyond.
struct ShuffleBuffer {
  uint64_t samples = 0;
  uint64_t bytes = 0;
  uint64_t seed = 0;
  tar::KeyRule key_rule = tar::KeyRule::kFirstDot;
};
class ShuffleStream final : public SampleStream {
 public:
  ShuffleStream(std::unique_ptr<SampleStream> before, ShuffleBuffer options)
      : before_(std::move(before)), options_(options), random_(options.seed), parser_(options.key_rule) {}
  Result<const tar::Sample*> next() override;
  Origin origin() const override { return shown_.origin; }

 private:
  struct Held {
    std::string blocks;
    Origin origin;
  };
  std::unique_ptr<SampleStream> before_;
  const ShuffleBuffer options_;
  Random random_;
  tar::SampleParser parser_;
  std::vector<Held> buffer_;
  uint64_t buffered_bytes_ = 0;
  Held shown_;
  bool drained_ = false;
};

// Which fields stay, and what they are called: "jpg;jpeg=image cls" keeps the first of jpg and jpeg under the
// name image, and cls. A sample that has none of an item's alternatives is an error that names it.
struct FieldChoice {
  std::vector<std::string> any_of;
  std::string name;
};
Result<std::vector<FieldChoice>> parse_field_choices(std::string_view text);

class SelectStream final : public SampleStream {
 public:
  SelectStream(std::unique_ptr<SampleStream> before, std::vector<FieldChoice> choices)
      : before_(std::move(before)), choices_(std::move(choices)) {}
  Result<const tar::Sample*> next() override;

 private:
  std::unique_ptr<SampleStream> before_;
  const std::vector<FieldChoice> choices_;
  tar::Sample sample_;
  std::vector<tar::Field> fields_;
  std::vector<std::string> names_;
};

// New keys: the position in the stream, in a pattern such as "%09d" or "train/%06d".
class RekeyStream final : public SampleStream {
 public:
  RekeyStream(std::unique_ptr<SampleStream> before, OutputName pattern)
      : before_(std::move(before)), pattern_(std::move(pattern)) {}
  Result<const tar::Sample*> next() override;

 private:
  std::unique_ptr<SampleStream> before_;
  const OutputName pattern_;
  uint64_t position_ = 0;
  std::string key_;
  tar::Sample sample_;
  std::vector<tar::Field> fields_;
  std::vector<std::string> names_;
};

}  // namespace millrace::shard
