// Object: one version of one object, open for reading. Immutable; shared by all who read it.
//
// Its bytes stay readable while anyone holds it, also after an overwrite or delete: the files are kept open
// or the store delays their removal. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/mutex.h"
#include "base/result.h"
#include "store/checked_blocks.h"
#include "store/record.h"
#include "store/snapshot.h"

namespace millrace::store {

class Drive;

// A stretch of a file that is in the page cache: sendfile will not wait for the drive.
struct Extent {
  std::shared_ptr<const File> file;
  uint64_t offset = 0;
  uint64_t size = 0;
};

// Made by std::make_shared alone.
class Object : public std::enable_shared_from_this<Object> {
 public:
  Object(std::string bucket, std::string key, Record record, std::shared_ptr<Drive> drive,
         std::string inline_bytes);
  ~Object();
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  const std::string& bucket() const { return bucket_; }
  const std::string& key() const { return key_; }
  const Record& record() const { return record_; }
  bool is_inline() const { return record_.pieces.empty(); }
  const std::string& inline_bytes() const { return inline_bytes_; }
  const std::shared_ptr<Drive>& drive() const { return drive_; }

  // Which piece has the byte at `offset`, and where in it. `offset` is below the size.
  struct Place {
    size_t piece = 0;
    uint64_t offset = 0;  // in the piece
  };
  Place locate(uint64_t offset) const;

  // The piece's file: nothing where it is not open; the second opens it (blocks). At most kMostOpen stay
  // open.
  static constexpr size_t kMostOpen = 8;
  std::shared_ptr<const File> find_file(size_t piece) const;
  Result<std::shared_ptr<const File>> open_piece(size_t piece) const;
  // What the piece's own end says about its blocks; blocks when first asked.
  Result<std::shared_ptr<const std::vector<uint32_t>>> block_crcs(size_t piece) const;

  // Of its pieces' blocks.
  CheckedBlocks& checked() const { return *checked_; }

  // Set by readers.
  mutable std::atomic<uint64_t> resident_us = 0;  // when all of it was last seen in the page cache
  mutable std::atomic<uint64_t> ahead = 0;        // up to where its drive was asked to read ahead
  mutable Snapshot<std::string> headers;          // as they go out with it, once they did

 private:
  const std::string bucket_;
  const std::string key_;
  const Record record_;
  const std::shared_ptr<Drive> drive_;  // outlives its objects, also when taken out
  const std::string inline_bytes_;
  std::vector<uint64_t> ends_;              // of each piece, in the object; only where there are several
  std::unique_ptr<CheckedBlocks> checked_;  // none where it is inline

  mutable Mutex mutex_;
  mutable std::vector<std::pair<size_t, std::shared_ptr<const File>>> files_
      MR_GUARDED_BY(mutex_);  // oldest first
  mutable std::vector<std::pair<size_t, std::shared_ptr<const std::vector<uint32_t>>>> crcs_
      MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::store
