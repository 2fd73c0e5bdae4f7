// FileLock: lets one process at a time pass. The kernel releases the lock when its holder dies.
//
// A lock belongs to the open file, so also two opens of one process exclude each other. The lock file stays
// behind, empty: removing it would let two processes hold locks of the same name. Not for two threads that
// share one open file. A FileLock is moved, not copied.
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"
#include "base/result.h"

namespace millrace {

class FileLock {
 public:
  FileLock() = default;

  // Opens the file, made with these permissions where it is missing. take() waits for whoever holds the lock.
  static Result<FileLock> take(const std::string& path, unsigned permissions = 0644);
  // kUnavailable at once where another holds it: "it is in use by process 4711 (millrace)". Callers say by
  // within() what is in use.
  static Result<FileLock> try_take(const std::string& path, unsigned permissions = 0644);

  bool is_held() const { return file_.is_open(); }
  const File& file() const { return file_; }

 private:
  explicit FileLock(File file) : file_(std::move(file)) {}
  File file_;
};

// The same for a file that holds more than a lock; held until the file is closed.
Status try_lock(const File& file);
// One byte of a file that stands for something; others may hold other bytes. False: somebody holds it.
Result<bool> try_lock_byte(const File& file, uint64_t place);

}  // namespace millrace
