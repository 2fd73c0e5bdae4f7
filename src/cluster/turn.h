// Turn: lets one process at a time change the files of a directory, also when one of them stops in the
// middle.
//
// A process that is killed loses its turn at once. One that stands still (SIGSTOP, a drive that hangs) loses
// it after some seconds: another one puts a new lock file in the place of its own. What the first one does
// when it goes on must not count. So every change is a rename out of or into a directory that has a new name
// in each turn; whoever lost his turn does not find it any more. A Turn is moved, not copied.
#pragma once

#include <string>
#include <string_view>

#include "base/file.h"
#include "base/result.h"

namespace millrace::cluster {

class Turn {
 public:
  // Waits; kUnavailable after 10 s. `directory` has or gets `lock`, `takeover` and `turns`.
  static Result<Turn> take(const std::string& directory);

  // Replaces or removes a file of the directory, or of one below it, durably. kUnavailable: the turn was
  // lost, and nothing was changed.
  Status put(const std::string& path, std::string_view bytes) const;
  Status remove(const std::string& path) const;
  const File& lock() const { return lock_; }

 private:
  Turn(File lock, std::string staging) : lock_(std::move(lock)), staging_(std::move(staging)) {}

  File lock_;
  std::string staging_;  // of this turn alone
};

}  // namespace millrace::cluster
