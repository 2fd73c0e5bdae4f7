// Implements file_stamp with one stat.
#include "base/file_stamp.h"

#include <fmt/format.h>
#include <sys/stat.h>

namespace millrace {

std::string file_stamp(const std::string& path) {
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0) return "absent";
  return fmt::format("{}.{}.{}.{}", found.st_ino, found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec);
}

}  // namespace millrace
