// Ledger: the writing side of a sample store: stage, prepare, commit, release; each survives a kill at any
// moment.
//
//   stage     arrivals go to a new segment that no manifest names; space is taken before the first byte
//   prepare   the segment is flushed; the next epoch's manifest is written beside the current one
//   commit    CURRENT names the next manifest: one rename
//   release   what only the epoch before needed is freed: segments that hold nothing, pages of samples that
//   left
//
// Before commit a kill leaves the old epoch, after it the new one; the samples that left are there until
// release, so the other ranks may still be at either. Space: what is held, plus what arrives, plus at most
// `slack` of samples that left but share pages with others, plus one `piece` while those are moved together.
// One per directory (a lock file); one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/file_lock.h"
#include "base/result.h"
#include "exchange/manifest.h"
#include "exchange/sample_store.h"

namespace millrace::exchange {

struct StorageLimits {
  uint64_t slack = uint64_t{64} << 20;
  uint64_t piece = uint64_t{64} << 20;
};

// A segment being filled in place, by whoever writes to its memory.
class StagedSegment {
 public:
  StagedSegment(StagedSegment&& other) noexcept;
  StagedSegment& operator=(StagedSegment&&) = delete;
  ~StagedSegment();  // without finish() the file goes

  std::span<std::byte> bytes() { return {memory_, sample_bytes_}; }
  // Every record must be one whole sample. Fills in segment, offset and ordinal of the records, which lie one
  // behind the other; flushes the segment and puts its index beside it.
  Result<Segment> finish(std::span<Record> records);

 private:
  friend class Ledger;
  StagedSegment(File file, std::string path, uint32_t number, uint64_t sample_bytes);

  File file_;
  std::string path_;
  uint32_t number_ = 0;
  std::byte* memory_ = nullptr;
  uint64_t sample_bytes_ = 0;
  bool finished_ = false;
};

class Ledger {
 public:
  // Makes the store of a rank: its segments are in the directory already.
  static Status create(const std::string& directory, const Manifest& manifest);
  // Takes the lock. What neither CURRENT nor a prepared manifest names is removed.
  static Result<std::unique_ptr<Ledger>> open(const std::string& directory, StorageLimits limits = {});

  const std::shared_ptr<const SampleStore>& store() const { return store_; }
  const Manifest& manifest() const { return store_->manifest(); }
  bool is_prepared() const { return prepared_.has_value(); }
  const std::optional<Manifest>& prepared() const { return prepared_; }

  // Room for that many bytes of samples; an error where the drive is full.
  Result<StagedSegment> stage(uint64_t sample_bytes);
  // `next` is of the following epoch.
  Status prepare(Manifest next);
  Status discard();
  Status commit();
  Status release();

  uint64_t peak_bytes() const { return peak_bytes_; }  // that segments took up, at most

 private:
  Ledger(std::string directory, StorageLimits limits) : directory_(std::move(directory)), limits_(limits) {}
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  Status sweep();
  Status switch_to(const Manifest& manifest);
  Status reopen();
  void punch(uint32_t segment);
  Status compact();
  Status rewrite(const std::vector<size_t>& slots);
  std::vector<size_t> find_sparse() const;
  uint64_t disk_bytes() const;

  const std::string directory_;
  const StorageLimits limits_;
  FileLock lock_;
  std::shared_ptr<const SampleStore> store_;
  std::optional<Manifest> prepared_;
  uint32_t next_segment_ = 0;
  uint64_t peak_bytes_ = 0;
};

}  // namespace millrace::exchange
