// Hints: tells stores which shards will be read soon, so that a bucket in front of other storage has them
// fetched before they are asked for.
//
// Whether a bucket is such a one is asked once, when its first shard is hinted at; other buckets and other
// servers hear nothing more. A hint that fails is forgotten: the shard is fetched when it is read. One thread
// of its own sends them, and keeps nobody waiting. soon() may be called by any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/background.h"
#include "base/mutex.h"
#include "loader/catalogue.h"
#include "transfer/objects.h"
#include "transfer/stores.h"

namespace millrace::loader {

class Hints {
 public:
  static constexpr size_t kMostWaiting = 1000;
  // Shards that were named lately are not named again.
  static constexpr size_t kMostRemembered = 256;

  // Both outlive it.
  Hints(const Catalogue& catalogue, transfer::Stores& stores);
  ~Hints() { stop(); }

  void soon(uint32_t shard);
  // The stores' lifeline is cut first.
  void stop() { thread_.stop(); }

 private:
  void send();
  // Whether the bucket of the object is in front of other storage.
  bool takes_hints(const transfer::Location& object);
  static void name_shards(const transfer::Location& bucket, const std::vector<std::string>& keys);

  const Catalogue& catalogue_;
  transfer::Stores& stores_;
  Mutex mutex_;
  std::deque<uint32_t> waiting_ MR_GUARDED_BY(mutex_);
  std::deque<uint32_t> named_ MR_GUARDED_BY(mutex_);
  std::map<std::string, bool> buckets_;  // of the thread
  Background thread_;
};

}  // namespace millrace::loader
