// Recipe: what a loader makes of a data set: order, fields, batches and limits. A plain value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "decode/transform.h"
#include "loader/order.h"

namespace millrace::loader {

enum class FieldKind {
  kImage,  // decoded and transformed: one array for the batch
  kLabel,  // a whole number in text: one int64 each
  kBytes,  // as stored
  kArray,  // .npy: one array for the batch where all have the same shape
  kKey,    // the sample's key; no field of the tar
};

struct FieldSpec {
  std::string name;                 // of the result
  std::vector<std::string> any_of;  // the first that a sample has is taken
  FieldKind kind = FieldKind::kBytes;
  decode::TransformSpec image;
  bool ragged = false;  // bytes: handed over as one array and places in it
};

// What becomes of a sample that cannot be read or decoded.
enum class OnError {
  kFail,        // the batch it belongs to is an error
  kSkip,        // its batch is one shorter
  kSubstitute,  // another sample of its batch stands twice
};
Result<OnError> parse_on_error(std::string_view text);

struct Recipe {
  uint64_t seed = 0;
  uint64_t window = 0;  // 0: unshuffled
  uint64_t batch = 1;   // over all ranks
  EpochEnd end = EpochEnd::kExact;
  std::vector<double> weights;  // of the parts of a joined data set, to be mixed; empty: one after the other
  // Samples of similar size of these fields come in one batch: of so many batches together the samples are
  // sorted by size. Empty: not.
  std::vector<std::string> bucket_by;
  uint64_t bucket_batches = 32;
  std::vector<FieldSpec> fields;

  OnError on_error = OnError::kFail;
  uint64_t most_errors = 100;  // beyond, also skip and substitute fail

  unsigned threads = 0;        // that decode; 0: one per core
  unsigned fetch_threads = 0;  // 0: 2 for files, 8 for stores
  uint64_t memory = uint64_t{2} << 30;
  std::string cache;       // directory for blocks of remote shards; empty: none
  std::string cache_note;  // why that one, for the report
  uint64_t cache_bytes = uint64_t{100} << 30;
};

// An error for what cannot be.
Status check(const Recipe& recipe);

}  // namespace millrace::loader
