// Drives: the store's hardware, for administration: drives and their states, damage, the scrubber.
//
// Any thread. Only readiness() never blocks: the others wait for drives and belong on a worker thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/meter.h"
#include "base/result.h"

namespace millrace::store {

// kSlow: it gets new objects only where no other has room.
enum class DriveState : uint8_t { kServing, kSlow, kDraining, kFailed, kMissing };
std::string_view drive_state_name(DriveState state);

struct DriveStatus {
  std::string path;
  std::string id;
  DriveState state = DriveState::kServing;
  std::string reason;  // why it failed, is slow or is missing
  bool rotational = false;
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
  uint64_t free_inodes = 0;
  uint64_t objects = 0;       // as the index estimates
  uint64_t drain_left = 0;    // objects still to be moved
  uint64_t queue_reads = 0;   // windows waiting
  uint64_t queue_writes = 0;  // commits and blocks waiting
  Meter::Reading reads;
  Meter::Reading writes;
  Meter::Reading commits;
};

// Whether the store can do its work, at a glance.
struct Readiness {
  bool takes_writes = false;         // at least one drive does
  std::vector<std::string> missing;  // drives
};

struct Damage {
  std::string bucket;
  std::string key;
  std::string drive;
  uint64_t block = 0;
  std::string what;
};
inline constexpr size_t kMaxDamages = 1000;

struct ScrubStatus {
  bool running = false;
  uint64_t cycles = 0;
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;  // of this cycle, or of the last one; as counted when it began
  uint64_t objects_done = 0;
  uint64_t damaged = 0;       // places, found since start; one that is found again counts once
  std::vector<Damage> found;  // at most kMaxDamages, newest last
};

// What to do with a drive that was given up for lost and still holds objects. Nobody remembers which of them
// were deleted since.
enum class GivenUp : uint8_t { kRefuse, kTakeBack };

class Drives {
 public:
  virtual ~Drives() = default;
  virtual Readiness readiness() const = 0;
  virtual std::vector<DriveStatus> status() = 0;
  virtual Status add(const std::string& path, GivenUp given_up) = 0;
  virtual Status drain(const std::string& path) = 0;   // starts; status() shows how far
  virtual Status remove(const std::string& path) = 0;  // an error while it still holds objects
  virtual Status forget(const std::string& id) = 0;    // a missing drive, which is another node's now
  virtual ScrubStatus scrub_status() = 0;
  virtual void scrub_now() = 0;  // a whole cycle, without waiting for its turn
};

}  // namespace millrace::store
