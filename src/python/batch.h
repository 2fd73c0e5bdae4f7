// Batch and BatchReader: samples (or single files) of one shard, copied out of the window that they pass.
//
// A Batch keeps all bytes in one string whose memory is used again: fresh memory costs more than the copy.
// A BatchReader opens its input at the first fill(), so that whoever fills also waits. One thread each; no
// Python in here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "tar/compress.h"
#include "tar/sample.h"
#include "tar/window.h"

namespace millrace::python {

struct Batch {
  struct Piece {
    uint64_t at = 0;
    uint64_t size = 0;
  };
  struct Field {
    Piece name;
    Piece bytes;
  };
  struct Sample {
    Piece key;
    size_t first_field = 0;
    size_t fields = 0;
    std::optional<size_t> fault;  // in `faults`
  };

  std::string_view text(Piece piece) const { return std::string_view(bytes).substr(piece.at, piece.size); }
  Piece append(std::string_view text);
  void clear();

  std::string bytes;
  std::vector<Sample> samples;
  std::vector<Field> fields;
  std::vector<Error> faults;
};

enum class Unit {
  kSample,  // key and fields
  kFile,    // key: the member's name; one field without a name
};

struct BatchOptions {
  Unit unit = Unit::kSample;
  tar::ReadOptions read;
  std::optional<std::unordered_set<std::string>> fields;  // none: all
};

// Something to read an archive from, opened.
class Input {
 public:
  virtual ~Input() = default;
  virtual tar::Window& window() = 0;
};
using OpenInput = std::function<Result<std::unique_ptr<Input>>()>;

// An archive out of a byte source, its compression recognised by content.
Result<std::unique_ptr<Input>> make_stream_input(std::unique_ptr<tar::ByteSource> source, std::string name,
                                                 uint64_t max_sample);

class BatchReader {
 public:
  BatchReader(std::string name, OpenInput open, BatchOptions options)
      : name_(std::move(name)), open_(std::move(open)), options_(std::move(options)) {}

  // Adds one sample or file; false at the end.
  Result<bool> fill(Batch& batch);
  // The same in two steps: the one that may wait for the input, and the one that copies.
  Result<bool> advance();
  void add(Batch& batch) const;

 private:
  Status open();
  Result<bool> advance_to_file();
  void add_sample(Batch& batch, const tar::Sample& sample) const;
  std::optional<Error> fault_of(const tar::Sample& sample) const;

  const std::string name_;
  const OpenInput open_;
  const BatchOptions options_;
  std::unique_ptr<Input> input_;
  std::optional<tar::SampleReader> samples_;
  std::optional<tar::MemberReader> members_;
  const tar::Sample* sample_ = nullptr;  // where advance() has come to
  std::string file_name_;
  std::string_view file_bytes_;
};

}  // namespace millrace::python
