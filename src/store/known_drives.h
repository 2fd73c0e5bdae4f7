// KnownDrives: the node's own list of its drives, in memory and in node.json.
//
// Every change is on the drive of the state directory before change() returns; after an error the list is as
// it was. Any thread.
#pragma once

#include <functional>
#include <string>

#include "base/mutex.h"
#include "base/result.h"
#include "store/identity.h"

namespace millrace::store {

class KnownDrives {
 public:
  Status load(const std::string& state_directory);
  NodeState state() const;
  Status change(const std::function<void(NodeState&)>& edit);
  // Notes that a drive missed a commit; quick where that is known already.
  Status set_behind(const std::string& id);

 private:
  mutable Mutex mutex_;
  std::string directory_ MR_GUARDED_BY(mutex_);
  NodeState state_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::store
