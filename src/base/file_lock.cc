// Implements FileLock: flock(2) for whole files, open file description locks for single bytes.
#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <utility>

#include "base/text.h"

namespace millrace {

namespace {

// The kernel's list of locks is short, except where somebody makes thousands.
constexpr uint64_t kMostLocksText = 1 << 20;

Result<File> open_lock_file(const std::string& path, unsigned permissions) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, permissions);
  if (descriptor < 0) return make_system_error(errno, "opening " + path);
  return File(descriptor, path);
}

// "process 4711 (millrace)" as /proc/locks has it: "1: FLOCK  ADVISORY  WRITE 4711 fe:00:9977922 0 EOF". A
// process outside of this container, or on another machine, has no number here.
std::string holder_of(const File& file) {
  struct stat facts = {};
  const auto locks = read_file("/proc/locks", kMostLocksText);
  if (!locks || ::fstat(file.descriptor(), &facts) != 0) return "another process";
  const std::string place =
      fmt::format(" {:02x}:{:02x}:{} ", major(facts.st_dev), minor(facts.st_dev), facts.st_ino);
  for (size_t begin = 0; begin < locks->size();) {
    const size_t end = std::min(locks->find('\n', begin), locks->size());
    const std::string line = locks->substr(begin, end - begin);
    begin = end + 1;
    const size_t at = line.find(place);
    if (at == std::string::npos || line.find("->") != std::string::npos) continue;
    const std::string process = line.substr(line.rfind(' ', at - 1) + 1, at - line.rfind(' ', at - 1) - 1);
    const auto name = read_file("/proc/" + process + "/comm", 64);
    if (name) return fmt::format("process {} ({})", process, printable(trim(*name, "\n")));
  }
  return "another process";
}

}  // namespace

Status try_lock(const File& file) {
  if (::flock(file.descriptor(), LOCK_EX | LOCK_NB) == 0) return {};
  if (errno != EWOULDBLOCK) return make_system_error(errno, "locking " + file.name());
  return make_error(Code::kUnavailable, "it is in use by {}", holder_of(file));
}

Result<bool> try_lock_byte(const File& file, uint64_t place) {
  struct flock wanted{};
  wanted.l_type = F_WRLCK;
  wanted.l_whence = SEEK_SET;
  wanted.l_start = static_cast<off_t>(place);
  wanted.l_len = 1;
  if (::fcntl(file.descriptor(), F_OFD_SETLK, &wanted) == 0) return true;
  if (errno == EAGAIN || errno == EACCES || errno == EINTR) return false;
  return make_system_error(errno, "locking " + file.name());
}

Result<FileLock> FileLock::take(const std::string& path, unsigned permissions) {
  File file = MR_TRY(open_lock_file(path, permissions));
  while (::flock(file.descriptor(), LOCK_EX) != 0) {
    if (errno != EINTR) return make_system_error(errno, "locking " + path);
  }
  return FileLock(std::move(file));
}

Result<FileLock> FileLock::try_take(const std::string& path, unsigned permissions) {
  File file = MR_TRY(open_lock_file(path, permissions));
  MR_TRY(try_lock(file));
  return FileLock(std::move(file));
}

}  // namespace millrace
