// start_limited: a child process with limits, as another user where this process is root.
//
// Limits and user are set between fork and exec, in the child alone: this process has many threads, so the
// child shares its memory until exec and does nothing but system calls.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace millrace::transform {

struct LimitedProcess {
  std::string path;
  std::vector<std::string> words;
  std::vector<std::string> environment;          // NAME=value
  std::vector<int> descriptors;                  // become 0, 1, 2, …; -1: closed
  std::vector<std::pair<int, uint64_t>> limits;  // RLIMIT_…
  uid_t user = 0;                                // 0: the same
};

Result<pid_t> start_limited(const LimitedProcess& wanted);

}  // namespace millrace::transform
