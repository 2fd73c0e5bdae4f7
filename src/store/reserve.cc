// Allocating and giving up the file.
#include "store/reserve.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/file.h"
#include "base/mutex.h"

namespace millrace::store {

void Reserve::give_up() {
  const MutexLock lock(mutex_);
  whole_ = false;
  // Where even that is refused, the index meets the full drive itself.
  static_cast<void>(::truncate(path_.c_str(), 0));
}

bool Reserve::is_whole() const {
  const MutexLock lock(mutex_);
  return whole_;
}

bool Reserve::restore() {
  const MutexLock lock(mutex_);
  if (!whole_) whole_ = allocate();
  return whole_;
}

bool Reserve::allocate() const {
  const int descriptor = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return false;
  const File file(descriptor, path_);
  struct stat facts = {};
  if (::fstat(descriptor, &facts) != 0) return false;
  constexpr uint64_t kBlock = 512;  // of st_blocks
  if (static_cast<uint64_t>(facts.st_blocks) * kBlock >= bytes_) return true;
  if (::fallocate(descriptor, 0, 0, static_cast<off_t>(bytes_)) == 0) return true;
  if (errno == EOPNOTSUPP || errno == ENOSYS) return true;
  // A part of it would only be in the way.
  static_cast<void>(::ftruncate(descriptor, 0));
  return false;
}

}  // namespace millrace::store
