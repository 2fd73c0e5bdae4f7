// The list and its file, changed together.
#include "store/known_drives.h"

#include "base/mutex.h"

namespace millrace::store {

Status KnownDrives::load(const std::string& state_directory) {
  const MutexLock lock(mutex_);
  directory_ = state_directory;
  state_ = MR_TRY(load_node_state(directory_));
  return {};
}

NodeState KnownDrives::state() const {
  const MutexLock lock(mutex_);
  return state_;
}

Status KnownDrives::change(const std::function<void(NodeState&)>& edit) {
  const MutexLock lock(mutex_);
  NodeState next = state_;
  edit(next);
  if (next == state_) return {};
  MR_TRY(save_node_state(directory_, next));
  state_ = std::move(next);
  return {};
}

Status KnownDrives::set_behind(const std::string& id) {
  return change([&](NodeState& state) {
    for (KnownDrive& drive : state.drives) {
      if (drive.id == id) drive.behind = true;
    }
  });
}

}  // namespace millrace::store
