// Two locked bytes, a lock file that can be replaced, and renames.
#include "cluster/turn.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/file_lock.h"
#include "base/ids.h"

namespace millrace::cluster {

namespace {

// Bytes of the lock file. Whoever is next holds the door, so that a process that calls again and again cannot
// overtake it.
constexpr uint64_t kLock = 0;
constexpr uint64_t kDoor = 1;
// No turn takes as long on a drive that works. The one at the door waits that long for the one inside.
constexpr uint64_t kLongestTurnUs = 2'000'000;
constexpr uint64_t kLongestAtDoorUs = 2 * kLongestTurnUs;
constexpr uint64_t kLongestWaitUs = 10'000'000;
constexpr uint64_t kFirstPauseUs = 50;
constexpr uint64_t kLongestPauseUs = 1000;

Result<File> open_lock(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return make_system_error(errno, "opening " + path);
  return File(descriptor, path);
}

Result<bool> lock_byte(const File& file, uint64_t place, uint64_t until_us) {
  for (uint64_t pause_us = kFirstPauseUs;; pause_us = std::min(pause_us * 2, kLongestPauseUs)) {
    if (MR_TRY(try_lock_byte(file, place))) return true;
    if (boot_us() >= until_us) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
  }
}

bool is_at(const File& file, const std::string& path) {
  struct stat facts{};
  const auto there = find_identity(path);
  return there && ::fstat(file.descriptor(), &facts) == 0 &&
         *there == FileIdentity{facts.st_dev, facts.st_ino};
}

// A new lock file, held, in the place of one that somebody does not let go of. Nothing: somebody else did it.
Result<std::optional<File>> take_over(const std::string& directory, const File& stuck) {
  const std::string path = directory + "/lock";
  const File guard = MR_TRY(open_lock(directory + "/takeover"));
  if (!MR_TRY(lock_byte(guard, 0, boot_us() + kLongestTurnUs)) || !is_at(stuck, path))
    return std::optional<File>();
  const std::string fresh_path = fmt::format("{}.{}.part", path, make_id());
  File fresh = MR_TRY(open_lock(fresh_path));
  MR_TRY(give_to_owner_of(fresh, directory));
  if (!MR_TRY(try_lock_byte(fresh, kLock)) || ::rename(fresh_path.c_str(), path.c_str()) != 0)
    return make_system_error(errno, "replacing " + path);
  return std::optional<File>(std::move(fresh));
}

// Nothing: whoever stood in the way is gone, or was passed by somebody else.
Result<std::optional<File>> try_to_enter(const std::string& directory) {
  const std::string path = directory + "/lock";
  const File door = MR_TRY(open_lock(path));
  if (!MR_TRY(lock_byte(door, kDoor, boot_us() + kLongestAtDoorUs))) return take_over(directory, door);
  File lock = MR_TRY(open_lock(path));
  if (!MR_TRY(lock_byte(lock, kLock, boot_us() + kLongestTurnUs))) return take_over(directory, lock);
  // It may have been replaced meanwhile.
  if (!is_at(lock, path)) return std::optional<File>();
  return std::optional<File>(std::move(lock));
}

// The one directory below `turns`, under a name that nobody knew before.
Result<std::string> rename_staging(const std::string& directory) {
  namespace fs = std::filesystem;
  const std::string turns = directory + "/turns";
  const std::string mine = turns + "/" + make_id();
  std::error_code failed;
  fs::directory_iterator found(turns, failed);
  if (!failed && found != fs::directory_iterator()) {
    fs::rename(found->path(), mine, failed);
    if (!failed) return mine;
  }
  for (const std::string& made : {turns, mine}) {
    if (::mkdir(made.c_str(), 0700) != 0 && errno != EEXIST)
      return make_system_error(errno, "making " + made);
  }
  return mine;
}

Error lost() {
  return make_error(Code::kUnavailable, "this process stood still, and another one took its turn")
      .with_hint("try again");
}

}  // namespace

Result<Turn> Turn::take(const std::string& directory) {
  const uint64_t until_us = boot_us() + kLongestWaitUs;
  while (boot_us() < until_us) {
    auto lock = MR_TRY(try_to_enter(directory));
    if (lock) return Turn(std::move(*lock), MR_TRY(rename_staging(directory)));
  }
  return make_error(Code::kUnavailable, "others have held {}/lock for {} s", directory,
                    kLongestWaitUs / 1'000'000)
      .with_hint(fmt::format("is a process stopped? `fuser {}/lock` names them", directory));
}

Status Turn::put(const std::string& path, std::string_view bytes) const {
  const std::string draft = staging_ + "/draft";
  const int descriptor = ::open(draft.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (descriptor < 0 && errno == ENOENT) return lost();
  if (descriptor < 0) return make_system_error(errno, "making " + draft);
  File file(descriptor, draft);
  const std::string directory = directory_of(path);
  MR_TRY(give_to_owner_of(file, directory));
  MR_TRY(file.write_all(bytes));
  MR_TRY(file.sync());
  if (::rename(draft.c_str(), path.c_str()) != 0) {
    if (errno == ENOENT && !file_exists(staging_)) return lost();
    return make_system_error(errno, "replacing " + path);
  }
  return sync_directory(directory);
}

Status Turn::remove(const std::string& path) const {
  const std::string gone = staging_ + "/gone";
  if (::rename(path.c_str(), gone.c_str()) != 0) {
    if (errno != ENOENT) return make_system_error(errno, "removing " + path);
    return file_exists(staging_) ? Status() : Status(lost());
  }
  MR_TRY(remove_file_if_present(gone));
  return sync_directory(directory_of(path));
}

}  // namespace millrace::cluster
