// Verification: reads every slice of the objects of a bucket, and of its hidden buckets, and says what is not
// as it was written.
//
// Every holder compares its slices with their checksums. A slice that is missing or damaged is made again in
// its place, from the others, while the verification goes on: the old one stays until the new one is durable.
// A drive that lacks a mark is told to the key's home. Whether that helped is seen by verifying again.
//
// One call looks at some objects for some seconds, and says where to go on. It blocks: on a worker.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/cluster.h"

namespace millrace::cluster {

// Where a verification goes on.
struct VerifyPosition {
  std::string bucket;  // may be a hidden one
  std::string after;   // a key
  // In the middle of the next object, if it is still this write.
  std::string write_id;
  uint64_t block = 0;
  std::set<unsigned> settled;  // slots that are not asked for again: they are counted, or were told of
  bool below = false;          // one of them is missing or damaged
};

struct SliceFinding {
  enum class Kind : uint8_t {
    kMissing,
    kDamaged,
    kUnseen,  // its node is away or did not answer
  };
  ObjectName name;
  std::string belongs_to;  // of what a hidden bucket has: the key of the object
  unsigned slot = 0;
  DriveId drive = 0;
  Kind kind = Kind::kMissing;
  std::optional<uint64_t> block;  // the first bad one, where that is known
  std::string why;
};

struct Verified {
  uint64_t objects = 0;      // that were looked at
  uint64_t slices = 0;       // that are whole
  uint64_t bytes = 0;        // that were compared and are good
  uint64_t below = 0;        // objects with fewer whole slices than they are to have
  uint64_t handed_over = 0;  // slices that are being made again, and objects that their homes look at
  std::vector<SliceFinding> findings;
  std::optional<VerifyPosition> next;  // nothing: the bucket's end
};

Result<Verified> verify_some(Cluster& cluster, const VerifyPosition& from);

}  // namespace millrace::cluster
