// Opening, watching and closing one drive.
#include "store/drive.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/clock.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "store/block_writer.h"
#include "store/coding.h"
#include "store/upgrade.h"
#include "store/version.h"

namespace millrace::store {

namespace {

constexpr uint64_t kSpaceAge_us = 100'000;
constexpr unsigned kReadsInFlight = 4;

Status make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) == 0 || errno == EEXIST) return {};
  return make_system_error(errno, "making directory " + path);
}

// Where the kernel does not say, the drive is taken for one without heads.
bool is_rotational(const std::string& path) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) != 0) return false;
  const std::string device = fmt::format("/sys/dev/block/{}:{}", major(facts.st_dev), minor(facts.st_dev));
  for (const char* place : {"/queue/rotational", "/../queue/rotational"}) {
    const auto text = read_file(device + place, 64);
    if (text) return text->starts_with("1");
  }
  return false;
}

// Whether there is an object file, or a table or log of an index. A directory that cannot be read counts as
// one.
bool has_content(const std::string& drive) {
  std::error_code error;
  std::filesystem::recursive_directory_iterator data(drive + "/data", error);
  if (error) return true;
  for (const auto& entry : data) {
    if (!entry.is_directory(error)) return true;
  }
  std::filesystem::directory_iterator index(drive + "/index", error);
  if (error) return true;
  for (const auto& entry : index) {
    const std::string kind = entry.path().extension().string();
    if ((kind == ".sst" || kind == ".log") && entry.file_size(error) > 0) return true;
  }
  return false;
}

bool is_breakage(int errno_value) {
  return errno_value == EIO || errno_value == EROFS || errno_value == EUCLEAN || errno_value == ENODEV ||
         errno_value == ENXIO || errno_value == ENOMEDIUM || errno_value == ESHUTDOWN;
}

}  // namespace

Result<std::shared_ptr<Drive>> Drive::open(const DriveOptions& options) {
  std::shared_ptr<Drive> drive(new Drive);
  drive->path_ = options.path;
  drive->write_mode_ = options.write_mode;
  struct stat facts = {};
  if (::stat(options.path.c_str(), &facts) != 0) {
    if (errno != ENOENT || !options.expected_id.empty()) {
      return make_system_error(errno, "drive " + options.path);
    }
    MR_TRY(make_directory(options.path));
    MR_TRY(sync_directory(directory_of(options.path)));
  } else if (!S_ISDIR(facts.st_mode)) {
    return make_error(Code::kInvalid, "drive {}: it is not a directory", options.path);
  }
  // A known drive without identity is an empty mount point: it must not even get a lock file.
  const auto before = MR_TRY(find_drive_identity(options.path));
  if (!options.expected_id.empty() && !before) {
    return make_error(Code::kNotFound, "drive {}: there is no drive in this directory: is it mounted?",
                      options.path);
  }
  MR_TRY(drive->take_lock());
  const DriveIdentity identity = MR_TRY(drive->settle_identity(options));
  MR_TRY(drive->make_directories());
  drive->empty_temporary_directory();
  MR_TRY(drive->note_place());
  drive->hash_ = hash64(drive->id_);
  drive->rotational_ = is_rotational(options.path);
  const Space space = drive->space();
  drive->weight_ = std::max(1.0, static_cast<double>(space.total_bytes >> 30));
  drive->reserve_bytes_ = std::min(options.reserve_bytes, space.total_bytes / 20);
  const uint64_t log_bytes =
      std::clamp(space.total_bytes / 64, DriveIndex::kLeastLogBytes, DriveIndex::kMostLogBytes);
  drive->reserve_ = std::make_unique<Reserve>(options.path, log_bytes + log_bytes / 3);
  if (space.free_bytes < 2 * log_bytes) drive->reserve_->give_up();
  MR_TRY(drive->open_index(options, log_bytes).within("drive " + options.path));
  MR_TRY(upgrade_drive(options.path, identity, *drive->index_).within("drive " + options.path));
  drive->restore_reserve();

  const unsigned reads = options.reads_in_flight != 0 ? options.reads_in_flight
                         : drive->rotational_         ? 1
                                                      : kReadsInFlight;
  drive->blocks_ = std::make_unique<BlockWriter>(*drive);
  drive->reader_ = std::make_unique<ReadScheduler>(reads);
  drive->finishers_ = std::make_unique<Workers>(kFinishers);
  return drive;
}

Drive::~Drive() {
  close();
}

Status Drive::take_lock() {
  lock_ = MR_TRY(FileLock::try_take(path_ + "/lock").within("drive " + path_));
  return {};
}

Result<DriveIdentity> Drive::settle_identity(const DriveOptions& options) {
  auto identity = MR_TRY(find_drive_identity(path_));
  if (!identity) {
    identity = DriveIdentity{make_id(), options.node_id};
    MR_TRY(write_drive_identity(path_, *identity));
  }
  if (!options.expected_id.empty() && identity->id != options.expected_id) {
    return make_error(Code::kNotFound, "drive {}: another drive is there: {}, not {}", path_, identity->id,
                      options.expected_id);
  }
  if (identity->node != options.node_id) {
    if (!options.may_adopt || !options.may_adopt(identity->id))
      return make_error(Code::kInvalid, "drive {}: it belongs to node {}, this is node {}", path_,
                        identity->node, options.node_id)
          .with_hint(
              "bring it back to that node, or empty the directory; a node takes over drives only of nodes of "
              "its cluster that do not serve them");
    identity->node = options.node_id;
    MR_TRY(write_drive_identity(path_, *identity));
  }
  id_ = identity->id;
  return std::move(*identity);
}

Status Drive::make_directories() {
  const std::string data = path_ + "/data";
  MR_TRY(make_directory(path_ + "/tmp"));
  MR_TRY(make_directory(data));
  // RocksDB flushes what is in its directory, but not the directory's own name.
  MR_TRY(make_directory(path_ + "/index"));
  for (unsigned i = 0; i < kDirectories; ++i) MR_TRY(make_directory(fmt::format("{}/{:02x}", data, i)));
  // Also where all are there already: a run that was cut short may have made them and not come to this.
  MR_TRY(sync_directory(data));
  return sync_directory(path_);
}

void Drive::empty_temporary_directory() const {
  // Nobody writes yet: what is there was left by a run that was cut short.
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(temporary_directory(), ignored)) {
    ::unlink(entry.path().c_str());
  }
}

Status Drive::open_index(const DriveOptions& options, uint64_t log_bytes) {
  // RocksDB would begin a new index where CURRENT is gone, and remove what is left of the old one. One that
  // served had an index, whatever is left of its objects.
  const bool had_index = !options.expected_id.empty();
  if (!file_exists(path_ + "/index/CURRENT") && (had_index || has_content(path_))) {
    return make_error(Code::kCorrupt, "its index is gone: {}/index has no CURRENT", path_)
        .with_hint("millrace fsck --rebuild");
  }
  index_ = MR_TRY(DriveIndex::open(path_ + "/index", options.index_cache, log_bytes));
  const auto clock = MR_TRY(index_->find(Family::kMeta, kMetaClock));
  if (clock) clock_at_open_ = Decoder(*clock).u64();
  const auto clean = MR_TRY(index_->find(Family::kMeta, kMetaClean));
  // A new drive has nothing to sweep.
  was_clean_ = clean.has_value() || !clock.has_value();
  rocksdb::WriteBatch batch;
  index_->remove(batch, Family::kMeta, kMetaClean);
  return index_->write(batch, Sync::kYes);
}

void Drive::close() {
  if (closed_.exchange(true)) return;
  if (reader_) reader_->stop();
  if (blocks_) blocks_->stop();
  if (finishers_) finishers_->stop();
  for (const uint64_t file : keeper_.take_dropped()) ::unlink(file_path(file).c_str());
  if (index_) {
    if (index_->flush() && !needs_sweep_) {
      rocksdb::WriteBatch batch;
      index_->put(batch, Family::kMeta, kMetaClean, "1");
      // A mark that is lost only costs a sweep.
      static_cast<void>(index_->write(batch, Sync::kYes).has_value());
    }
    index_.reset();
  }
  lock_ = FileLock();
}

std::string Drive::reason() const {
  const MutexLock lock(mutex_);
  return reason_;
}

void Drive::set_draining() {
  const MutexLock lock(mutex_);
  draining_ = true;
  if (takes_writes()) state_ = DriveState::kDraining;
}

void Drive::set_serving() {
  const MutexLock lock(mutex_);
  draining_ = false;
  if (state_ == DriveState::kDraining) state_ = DriveState::kServing;
}

bool Drive::is_draining() const {
  const MutexLock lock(mutex_);
  return draining_;
}

void Drive::mark_failed(std::string reason) {
  const MutexLock lock(mutex_);
  state_ = DriveState::kFailed;
  reason_ = std::move(reason);
}

void Drive::mark_slow(std::string reason) {
  const MutexLock lock(mutex_);
  if (state_ != DriveState::kServing) return;
  state_ = DriveState::kSlow;
  reason_ = std::move(reason);
}

void Drive::mark_rested() {
  const MutexLock lock(mutex_);
  if (state_ != DriveState::kSlow) return;
  state_ = DriveState::kServing;
  reason_.clear();
}

Status Drive::note_place() {
  struct stat facts = {};
  if (::stat(path_.c_str(), &facts) != 0) return make_system_error(errno, "drive " + path_);
  device_ = facts.st_dev;
  inode_ = facts.st_ino;
  return {};
}

bool Drive::is_in_place() const {
  if (inode_ == 0) return true;  // it is being opened
  struct stat facts = {};
  return ::stat(path_.c_str(), &facts) == 0 && facts.st_dev == device_ && facts.st_ino == inode_;
}

Status Drive::check_place() {
  // An error of reading it says nothing about the place: there may be no descriptor left for it.
  const auto identity = find_drive_identity(path_);
  std::string problem;
  if (identity && !*identity) {
    problem = fmt::format("drive {}: its millrace.json is gone: was it unmounted?", path_);
  } else if (identity && (*identity)->id != id_) {
    problem = fmt::format("drive {}: another drive is there: {}, not {}", path_, (*identity)->id, id_);
  } else if (!is_in_place()) {
    problem = fmt::format("drive {}: its directory is another one now: was it mounted anew?", path_);
  } else {
    return {};
  }
  was_away_ = true;
  mark_failed(problem);
  return make_error(Code::kUnavailable, "{}", problem);
}

Status Drive::settle_again() {
  const auto identity = MR_TRY(find_drive_identity(path_));
  if (!identity || identity->id != id_)
    return make_error(Code::kNotFound, "drive {}: it is not there: is it mounted?", path_);
  lock_ = FileLock();
  MR_TRY(take_lock());
  MR_TRY(make_directories());
  MR_TRY(index_->reopen());
  MR_TRY(note_place());
  was_away_ = false;
  return {};
}

Result<DriveIndex::Recovery> Drive::try_to_serve() {
  if (was_away_) {
    MR_TRY(settle_again());
    return DriveIndex::Recovery::kReopened;
  }
  MR_TRY(check_place());
  MR_TRY(make_directories());
  const std::string path = fmt::format("{}/probe", temporary_directory());
  {
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (descriptor < 0) return make_system_error(errno, "probing " + path);
    File file(descriptor, path);
    MR_TRY(file.write_all("probe"));
    MR_TRY(file.sync());
    // From the drive, not from memory.
    ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    std::byte byte{};
    MR_TRY(file.read_exactly(0, {&byte, 1}));
  }
  if (::unlink(path.c_str()) != 0) return make_system_error(errno, "removing " + path);
  return index_->recover();
}

Result<DriveIndex::Recovery> Drive::probe() {
  auto tried = try_to_serve();
  if (!tried) {
    mark_failed(tried.error().message());
    return tried;
  }
  // What was refused may be there now, or its files may.
  if (*tried == DriveIndex::Recovery::kReopened) need_sweep();
  const MutexLock lock(mutex_);
  state_ = draining_ ? DriveState::kDraining : DriveState::kServing;
  reason_.clear();
  return tried;
}

Error Drive::failed_call(int errno_value, std::string_view what) {
  // What a drive holds in directories of its own does not go away by itself.
  if (errno_value == ENOENT || errno_value == ENOTDIR || errno_value == EXDEV) {
    Status place = check_place();
    if (!place) return place.take_error();
    mark_failed(fmt::format("a directory of its own is gone: {}: {}", what, std::strerror(errno_value)));
    return make_error(Code::kIo, "drive {}: {}", path_, reason());
  }
  Error error = make_system_error(errno_value, what).within("drive " + path_);
  // Of the process or the machine, and it passes.
  if (errno_value == EMFILE || errno_value == ENFILE) return Error(Code::kUnavailable, error.message());
  if (!is_breakage(errno_value)) return error;
  mark_failed(error.message());
  return Error(Code::kIo, error.message());
}

Error Drive::note(Error error) {
  // Also a full drive: the index takes no writes until it is told to go on, which the probe does.
  const bool stops =
      error.code() == Code::kIo || error.code() == Code::kCorrupt || error.code() == Code::kNoSpace;
  if (stops) mark_failed(error.message());
  return error;
}

Status Drive::write(rocksdb::WriteBatch& batch, Sync sync) {
  Status written = index_->write(batch, sync);
  if (written || written.error().code() != Code::kNoSpace || !reserve_->is_whole()) return written;
  reserve_->give_up();
  const auto recovered = index_->recover();
  if (!recovered) return written;
  return index_->write(batch, sync);
}

Drive::Space Drive::space() {
  const MutexLock lock(mutex_);
  const uint64_t now = steady_us();
  // Close to the end every look is a new one: many writers take more than the reserve while a look ages.
  const bool close =
      space_.free_bytes < 4 * reserve_bytes_ || space_.free_inodes < 4 * space_.inode_reserve();
  if (space_us_ != 0 && !close && now - space_us_ < kSpaceAge_us) return space_;
  struct statvfs facts = {};
  if (::statvfs(path_.c_str(), &facts) == 0) {
    space_ = {facts.f_blocks * facts.f_frsize, facts.f_bavail * facts.f_frsize, facts.f_files,
              facts.f_favail};
  }
  space_.in_place = is_in_place();
  space_us_ = now;
  return space_;
}

bool Drive::is_nearly_full(unsigned percent) {
  constexpr uint64_t kReliefPercent = 2;
  const Space now = space();
  if (now.total_bytes == 0) return nearly_full_;
  const auto share = [](uint64_t total, uint64_t of_100) { return total / 100 * of_100; };
  const uint64_t relief = nearly_full_ ? kReliefPercent : 0;
  const uint64_t least = std::max(share(now.total_bytes, 100 - percent), reserve_bytes_ + reserve_bytes_ / 8);
  const bool lacks_inodes =
      now.total_inodes != 0 && now.free_inodes < 2 * now.inode_reserve() + share(now.total_inodes, relief);
  nearly_full_ = now.free_bytes < least + share(now.total_bytes, relief) || lacks_inodes;
  return nearly_full_;
}

bool Drive::has_room(uint64_t bytes) {
  const Space now = space();
  if (!now.in_place && !check_place()) return false;
  if (now.total_inodes != 0 && now.free_inodes <= now.inode_reserve()) return false;
  return reserve_->is_whole() && now.free_bytes >= reserve_bytes_ + reserved_ + bytes;
}

std::string Drive::data_directory(uint64_t file) const {
  // Counter and milliseconds of the clock added: files spread over the directories at any rate of making
  // them.
  return fmt::format("{}/data/{:02x}", path_, (file + (file >> kVersionWallShift)) % kDirectories);
}

std::string Drive::file_path(uint64_t file) const {
  return fmt::format("{}/{:016x}", data_directory(file), file);
}

Result<std::shared_ptr<const File>> Drive::open_file(uint64_t file) {
  const std::string path = file_path(file);
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor >= 0) return std::shared_ptr<const File>(std::make_shared<File>(descriptor, path));
  if (errno == ENOENT) {
    MR_TRY(check_place());
    return make_error(Code::kCorrupt, "drive {}: file {} is missing", path_, path);
  }
  if (errno == EMFILE || errno == ENFILE) {
    return make_error(Code::kUnavailable, "opening {}: {}", path, std::strerror(errno));
  }
  return make_system_error(errno, "opening " + path);
}

Status Drive::sync_directory_of(uint64_t file) {
  const std::string path = data_directory(file);
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return failed_call(errno, "opening " + path);
  const File directory(descriptor, path);
  if (::fsync(descriptor) != 0) return failed_call(errno, "flushing " + path);
  return {};
}

void Drive::drop_files(const std::vector<uint64_t>& files) {
  if (!files.empty()) remove_later(keeper_.drop(files));
}

void Drive::unpin(const std::vector<uint64_t>& files) {
  if (!files.empty()) remove_later(keeper_.unpin(files));
}

void Drive::remove_later(const std::vector<uint64_t>& files) {
  if (files.empty()) return;
  std::vector<std::string> paths;
  for (const uint64_t file : files) paths.push_back(file_path(file));
  const auto remove = [paths = std::move(paths)] {
    for (const std::string& path : paths) {
      MR_FAULT("files.unlink");
      // What stays is found by the next sweep or fsck.
      ::unlink(path.c_str());
    }
  };
  if (closed_ || !finishers_->submit(remove)) remove();
}

DriveStatus Drive::status() {
  DriveStatus status;
  const Space now = space();
  status.path = path_;
  status.id = id_;
  status.state = state();
  status.reason = reason();
  status.rotational = rotational_;
  status.total_bytes = now.total_bytes;
  status.free_bytes = now.free_bytes;
  status.free_inodes = now.free_inodes;
  status.objects = index_->estimate_objects();
  status.drain_left = drain_left;
  status.queue_reads = reader_->waiting();
  status.queue_writes = queue_writes + finishers_->waiting();
  status.reads = reads.read();
  status.writes = writes.read();
  status.commits = commits.read();
  return status;
}

}  // namespace millrace::store
