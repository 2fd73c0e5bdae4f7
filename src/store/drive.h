// Drive: one directory on one physical drive: its lock, its identity, its index, its files, its threads.
//
// Opened and closed by the store; objects share it and may outlive the close (their open files stay
// readable). A drive on which a write or a read fails is marked and gets no new objects until a probe
// succeeds; it is still read. Any thread, but for open and close.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_lock.h"
#include "base/meter.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/workers.h"
#include "store/drives.h"
#include "store/identity.h"
#include "store/index.h"
#include "store/keeper.h"
#include "store/pace.h"
#include "store/read_scheduler.h"
#include "store/reserve.h"

namespace millrace::store {

class BlockWriter;

// Buffered and direct writes differ in what the kernel keeps; everything else is the same.
enum class WriteMode : uint8_t { kDirect, kBuffered };

struct DriveOptions {
  std::string path;
  std::string node_id;
  std::function<bool(const std::string& drive)> may_adopt;  // see StoreOptions
  std::string expected_id;  // of a drive the node knows; empty: a directory without identity becomes a drive
  WriteMode write_mode = WriteMode::kDirect;
  uint64_t reserve_bytes = 0;
  unsigned reads_in_flight = 0;
  std::shared_ptr<rocksdb::Cache> index_cache;
};

class Drive {
 public:
  static constexpr unsigned kDirectories = 256;  // under data/
  static constexpr unsigned kFinishers = 8;      // PUTs that flush at the same time

  // Blocks. kInvalid: belongs to another node; kUnavailable: in use; kNotFound: missing.
  static Result<std::shared_ptr<Drive>> open(const DriveOptions& options);
  ~Drive();
  // Ends its threads and closes the index; with the mark of a clean stop where it was one.
  void close();

  const std::string& path() const { return path_; }
  const std::string& id() const { return id_; }
  uint64_t hash() const { return hash_; }
  double weight() const { return weight_; }
  bool rotational() const { return rotational_; }
  bool was_clean() const { return was_clean_; }
  uint64_t clock_at_open() const { return clock_at_open_; }
  uint64_t device() const { return device_; }
  WriteMode write_mode() const { return write_mode_; }

  DriveIndex& index() { return *index_; }
  const DriveIndex& index() const { return *index_; }
  BlockWriter& blocks() { return *blocks_; }
  ReadScheduler& reader() { return *reader_; }
  Workers& finishers() { return *finishers_; }
  FileKeeper& keeper() { return keeper_; }

  DriveState state() const { return state_.load(); }
  std::string reason() const;
  void set_draining();
  void set_serving();
  bool is_draining() const;
  // A write or a read failed: no new objects until probe() succeeds.
  void mark_failed(std::string reason);
  // Much slower than its peers: new objects go to others that have room, until mark_rested().
  void mark_slow(std::string reason);
  void mark_rested();
  // It missed commits, and was not compared with the other drives since: its records may be old. Each call
  // counts, so that whoever compares notices a commit that was missed meanwhile.
  void set_behind() { ++behind_; }
  bool is_behind() const { return behind_ > 0; }
  uint64_t behind() const { return behind_; }
  // False where more was missed than `seen` says.
  bool set_caught_up(uint64_t seen) { return behind_.compare_exchange_strong(seen, 0); }
  // Whether the directory is still the drive that was opened: same device, same identity. Marks it failed
  // where it is not: a drive that was unmounted leaves an empty directory behind.
  Status check_place();
  bool takes_writes() const { return state() == DriveState::kServing || state() == DriveState::kSlow; }
  // Blocks: writes, flushes, reads and removes a small file, and lets the index go on. Its error is the new
  // reason.
  Result<DriveIndex::Recovery> probe();
  // The error of a failed system call on this drive; marks the drive where its code says that it is broken.
  Error failed_call(int errno_value, std::string_view what);
  // The same for an error of the index.
  Error note(Error error);

  // Writes to the index. Where the drive is full the reserve is given up for it: what is deleted must be
  // noted.
  Status write(rocksdb::WriteBatch& batch, Sync sync);
  // Takes the reserve again, once there is room.
  void restore_reserve() { static_cast<void>(reserve_->restore()); }
  // Used to so many percent, or close to the reserve, and since then never some percent below it: so that a
  // drive at the border is not now one and then the other.
  bool is_nearly_full(unsigned percent);
  // Room for an object of this size beside the reserve; never blocks on the drive.
  bool has_room(uint64_t bytes);
  // Counts bytes of known length that are on their way.
  void reserve(uint64_t bytes) { reserved_ += bytes; }
  void release(uint64_t bytes) { reserved_ -= bytes; }

  std::string file_path(uint64_t file) const;
  std::string data_directory(uint64_t file) const;
  std::string temporary_directory() const { return path_ + "/tmp"; }
  Result<std::shared_ptr<const File>> open_file(uint64_t file);
  // Makes the directory entry of this file durable.
  Status sync_directory_of(uint64_t file);
  // Removes files that no record names any more, now or when their last reader is gone; does not block.
  void drop_files(const std::vector<uint64_t>& files);
  // Files may be left that nobody knows: the next start looks for them.
  void need_sweep() { needs_sweep_ = true; }
  bool take_need_of_sweep() { return needs_sweep_.exchange(false); }
  void unpin(const std::vector<uint64_t>& files);

  DriveStatus status();
  Meter reads;
  Meter writes;
  Meter commits;
  BusyTime writing;                        // full blocks
  std::atomic<uint64_t> queue_writes = 0;  // commits and blocks waiting
  std::atomic<uint64_t> drain_left = 0;
  std::atomic<int64_t> open_descriptors = 0;  // of objects

 private:
  struct Space {
    uint64_t total_bytes = 0;
    uint64_t free_bytes = 0;
    uint64_t total_inodes = 0;
    uint64_t free_inodes = 0;
    bool in_place = true;  // the directory is the one that was opened
    // The index needs a few files of its own to go on.
    uint64_t inode_reserve() const { return std::min<uint64_t>(256, total_inodes / 20); }
  };

  Drive() = default;
  Status take_lock();
  // After the directory was another one for a while.
  Status settle_again();
  bool is_in_place() const;
  Status note_place();
  Result<DriveIdentity> settle_identity(const DriveOptions& options);
  Status make_directories();
  void empty_temporary_directory() const;
  Status open_index(const DriveOptions& options, uint64_t log_bytes);
  // Also reads what it wrote: a drive whose reads fail is no better than one whose writes do.
  Result<DriveIndex::Recovery> try_to_serve();
  Space space();
  void remove_later(const std::vector<uint64_t>& files);

  std::string path_;
  std::string id_;
  uint64_t hash_ = 0;
  double weight_ = 1.0;
  bool rotational_ = false;
  bool was_clean_ = false;
  uint64_t clock_at_open_ = 0;
  std::atomic<uint64_t> device_ = 0;
  std::atomic<uint64_t> inode_ = 0;  // of the directory
  std::atomic<uint64_t> behind_ = 0;
  std::atomic<bool> was_away_ = false;
  uint64_t reserve_bytes_ = 0;
  WriteMode write_mode_ = WriteMode::kDirect;
  FileLock lock_;
  std::unique_ptr<Reserve> reserve_;
  std::unique_ptr<DriveIndex> index_;
  std::unique_ptr<BlockWriter> blocks_;
  std::unique_ptr<ReadScheduler> reader_;
  std::unique_ptr<Workers> finishers_;
  FileKeeper keeper_;

  std::atomic<DriveState> state_ = DriveState::kServing;
  std::atomic<bool> closed_ = false;
  std::atomic<bool> needs_sweep_ = false;
  std::atomic<uint64_t> reserved_ = 0;
  std::atomic<bool> nearly_full_ = false;
  mutable Mutex mutex_;
  std::string reason_ MR_GUARDED_BY(mutex_);
  bool draining_ MR_GUARDED_BY(mutex_) = false;  // the state to go back to after a failure
  Space space_ MR_GUARDED_BY(mutex_);
  uint64_t space_us_ MR_GUARDED_BY(mutex_) = 0;  // when it was looked at
};

}  // namespace millrace::store
