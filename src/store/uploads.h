// UploadTable: the multipart uploads under way, in memory; the truth is in each drive's index.
//
// All parts of an upload are on one drive, so that completing it copies no bytes. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "store/part_choice.h"
#include "store/record.h"

namespace millrace::store {

class Drive;

inline constexpr size_t kMaxUploads = 100'000;

struct Upload {
  std::string bucket;
  std::string key;
  std::string id;
  uint64_t version =
      0;  // of the start, or of the last move to another drive: of two records the higher counts
  int64_t initiated_ms = 0;
  std::vector<NameValue> headers;
  std::vector<NameValue> tags;
  std::shared_ptr<Drive> drive;
};
// The value in the index; bucket, key and id are in its key, the drive is where it was found.
std::string encode_upload(const Upload& upload);
Result<Upload> decode_upload(std::string_view key, std::string_view value);

// What a drive's index has of an upload.
struct UploadRows {
  std::vector<std::string> keys;  // of its parts, and the upload's own last
  std::vector<UploadPart> parts;  // by number
};
Result<UploadRows> read_upload(const Drive& drive, const Upload& upload);

class UploadTable {
 public:
  std::shared_ptr<const Upload> find(std::string_view bucket, std::string_view key,
                                     const std::string& id) const;
  // By key, then by start.
  std::vector<std::shared_ptr<const Upload>> in_bucket(std::string_view bucket) const;
  std::vector<std::shared_ptr<const Upload>> all() const;
  bool is_full() const;
  // Where it is there already the higher version stays.
  void insert(std::shared_ptr<const Upload> upload);
  void erase(const std::string& id);
  void erase_of(const Drive& drive);
  // Its rows in the index go a moment before it does: waits until the table no longer has it as it was. False
  // where that does not come about.
  bool wait_for_change(const std::shared_ptr<const Upload>& known) const;

 private:
  mutable Mutex mutex_;
  mutable ConditionVariable changed_;
  std::map<std::string, std::shared_ptr<const Upload>> by_id_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::store
