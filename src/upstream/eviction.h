// Eviction: removes stored copies of upstream objects when drives fill up, the longest unread first.
//
// Looks at the drives every few seconds, and at once when one has no room. Above the high mark it removes
// until the low mark is reached. It removes only what the upstream still has: objects that carry the version
// of their upstream, are not pinned, and are the same ones when they go. In a cluster each node removes what
// it is the first holder of, so that nodes do not remove for each other. One thread of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/background.h"
#include "base/log.h"
#include "store/objects.h"
#include "upstream/read_times.h"

namespace millrace::upstream {

// The room of one drive.
struct DriveFill {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
};

struct EvictionOptions {
  unsigned high_percent = 90;  // of a drive that is used
  unsigned low_percent = 85;
  std::function<std::vector<DriveFill>()> drives;  // may block; empty: nothing is removed
  std::string address;                             // of this node in its cluster; empty: alone
};

struct EvictionCounts {
  uint64_t objects = 0;
  uint64_t bytes = 0;
};

class Eviction {
 public:
  static constexpr size_t kMostCandidates = 100'000;

  // All of them outlive it.
  struct Links {
    store::Objects& objects;
    const ReadTimes& reads;
    Log& log;
  };
  Eviction(Links links, EvictionOptions options) : links_(links), options_(std::move(options)) {}

  void start();
  void stop() { thread_.stop(); }
  // A drive had no room.
  void wake() { thread_.wake(); }
  EvictionCounts counts() const { return {objects_.load(), bytes_.load()}; }

  // One round, in the caller's thread.
  void run();

 private:
  struct Candidate {
    uint64_t idle_seconds = 0;
    uint64_t size = 0;
    std::string bucket;
    std::string key;
  };

  // Bytes that must go; 0: no drive is above the high mark.
  uint64_t bytes_to_free() const;
  std::vector<Candidate> find_candidates();
  Status add_candidates(const store::Bucket& bucket, std::vector<Candidate>& candidates);
  bool is_ours(const std::string& bucket, const store::ListEntry& entry) const;
  // False: it stays, because it is not what it was, or not a copy.
  bool evict(const Candidate& candidate);

  const Links links_;
  const EvictionOptions options_;
  std::atomic<uint64_t> objects_ = 0;
  std::atomic<uint64_t> bytes_ = 0;
  Background thread_;
};

}  // namespace millrace::upstream
