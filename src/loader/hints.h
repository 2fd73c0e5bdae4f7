// Hints: tells stores which shards will be read soon, so that a bucket in front of other storage has them
// fetched before they are asked for.
//
// Whether a bucket is such a one shows in the first answer that bytes come with; until then its shards wait.
// Other buckets and other servers hear nothing. A hint that fails is forgotten: the shard is fetched when it is
// read. One thread of its own sends them, and keeps nobody waiting. soon() and heard() may be called by any
// thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
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
  // What the headers of an answer of this object's bucket show.
  enum class Bucket : uint8_t { kOrdinary, kBeforeUpstream };
  void heard(const transfer::Location& object, const std::vector<net::HeaderField>& headers);
  // The stores' lifeline is cut first.
  void stop() { thread_.stop(); }

 private:
  void send();
  static Bucket kind_of(const std::vector<net::HeaderField>& headers);
  // Nothing: that is not known yet.
  std::optional<Bucket> find_kind(const transfer::Location& object);
  static void name_shards(const transfer::Location& bucket, const std::vector<std::string>& keys);

  const Catalogue& catalogue_;
  transfer::Stores& stores_;
  Mutex mutex_;
  std::deque<uint32_t> waiting_ MR_GUARDED_BY(mutex_);
  std::deque<uint32_t> named_ MR_GUARDED_BY(mutex_);
  std::map<std::string, Bucket> buckets_ MR_GUARDED_BY(mutex_);
  Background thread_;
};

}  // namespace millrace::loader
