// Changes of drives, one at a time, and who must hear of them.
#include "store/local_drives.h"

#include "base/mutex.h"

namespace millrace::store {

std::string_view drive_state_name(DriveState state) {
  switch (state) {
    case DriveState::kServing:
      return "serving";
    case DriveState::kSlow:
      return "slow";
    case DriveState::kDraining:
      return "draining";
    case DriveState::kFailed:
      return "failed";
    case DriveState::kMissing:
      return "missing";
  }
  return "unknown";
}

Readiness LocalDrives::readiness() const {
  const std::shared_ptr<const DriveMap> map = parts_.core.map();
  Readiness readiness;
  for (const auto& drive : map->drives) readiness.takes_writes |= drive->takes_writes();
  for (const MissingDrive& missing : map->missing) readiness.missing.push_back(missing.known.path);
  return readiness;
}

Status LocalDrives::add(const std::string& path, GivenUp given_up) {
  const MutexLock lock(parts_.core.admin);
  // The node's list outlives the directory it was started in.
  MR_TRY(parts_.attach.add(absolute_path(path), given_up));
  parts_.housekeeper.wake();
  parts_.shards.wake();
  return {};
}

Status LocalDrives::drain(const std::string& path) {
  const MutexLock lock(parts_.core.admin);
  MR_TRY(parts_.attach.drain(path));
  parts_.housekeeper.wake();
  return {};
}

Status LocalDrives::forget(const std::string& id) {
  const MutexLock lock(parts_.core.admin);
  return parts_.attach.forget(id);
}

Status LocalDrives::remove(const std::string& path) {
  const MutexLock lock(parts_.core.admin);
  return parts_.attach.remove(path);
}

}  // namespace millrace::store
