// BucketTable: the buckets, as a snapshot that readers take without waiting, and as records on every drive.
//
// The same small record is on each drive, the newest version wins; a removed bucket leaves a record that says
// so, so that a drive which was away cannot bring it back. Reading: any thread. Changing: one at a time, by
// the store.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "base/snapshot.h"
#include "store/bucket.h"

namespace millrace::store {

struct BucketRecord {
  Bucket bucket;
  bool removed = false;
};
std::string encode_bucket(const BucketRecord& record);
Result<BucketRecord> decode_bucket(std::string_view encoded);

class BucketTable {
 public:
  using Map = std::map<std::string, std::shared_ptr<const Bucket>, std::less<>>;

  std::shared_ptr<const Bucket> find(std::string_view name) const;
  std::vector<std::shared_ptr<const Bucket>> all() const;
  // When this bucket's checksums are compared. On most nodes all buckets are alike, and none is looked up.
  Compare verify_of(std::string_view name) const;

  // Every record that was seen on a drive; the newest of each name counts.
  void learn(const BucketRecord& record);
  // All records, removed ones too: what a new drive is given.
  std::vector<BucketRecord> records() const;

 private:
  void publish() MR_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, BucketRecord> records_ MR_GUARDED_BY(mutex_);
  Snapshot<Map> map_{std::make_shared<const Map>()};
  std::atomic<bool> any_other_verify_ = false;  // than that of new buckets
};

}  // namespace millrace::store
