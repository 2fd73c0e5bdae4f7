// LocalObject: one version of one object on a drive of this machine, open for reading.
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
#include "store/objects.h"
#include "store/record.h"
#include "store/running_reads.h"

namespace millrace::store {

class Drive;

// Made by std::make_shared alone.
class LocalObject final : public Object, public std::enable_shared_from_this<LocalObject> {
 public:
  LocalObject(std::string bucket, std::string key, Record record, std::shared_ptr<Drive> drive,
              std::string inline_bytes);
  ~LocalObject() override;

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
  mutable RunningReads running;

 private:
  const std::shared_ptr<Drive> drive_;      // outlives its objects, also when taken out
  std::vector<uint64_t> ends_;              // of each piece, in the object; only where there are several
  std::unique_ptr<CheckedBlocks> checked_;  // none where it is inline

  mutable Mutex mutex_;
  mutable std::vector<std::pair<size_t, std::shared_ptr<const File>>> files_
      MR_GUARDED_BY(mutex_);  // oldest first
  mutable std::vector<std::pair<size_t, std::shared_ptr<const std::vector<uint32_t>>>> crcs_
      MR_GUARDED_BY(mutex_);
};

// As requests see it: without the drive.
inline Result<ObjectPointer> shown(Result<std::shared_ptr<const LocalObject>> object) {
  if (!object) return object.take_error();
  return ObjectPointer(object.take());
}

}  // namespace millrace::store
