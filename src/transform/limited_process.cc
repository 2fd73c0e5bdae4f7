// Starts a child by vfork. Nothing in the child may allocate, lock or return.
#include "transform/limited_process.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/file.h"

namespace millrace::transform {

namespace {

constexpr int kFirstFree = 32;  // beyond those that the child is given

// What the child needs, made before.
struct Prepared {
  const char* path = nullptr;
  std::vector<char*> words;
  std::vector<char*> environment;
  std::vector<int> descriptors;
  std::vector<std::pair<int, rlimit>> limits;
  uid_t user = 0;
};

// The C library's own functions of these names change all threads of the process, so of the parent's, too.
bool become(uid_t user) {
  return ::syscall(SYS_setgroups, 0, nullptr) == 0 && ::syscall(SYS_setresgid, user, user, user) == 0 &&
         ::syscall(SYS_setresuid, user, user, user) == 0;
}

[[noreturn]] void run_child(const Prepared& prepared, volatile int& failure) {
  for (int signal = 1; signal < NSIG; ++signal) {
    if (signal == SIGKILL || signal == SIGSTOP) continue;
    struct sigaction usual{};
    usual.sa_handler = SIG_DFL;
    ::sigaction(signal, &usual, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::setpgid(0, 0);
  int next = 0;
  for (const int descriptor : prepared.descriptors) {
    if (descriptor < 0) {
      ::close(next);
    } else if (::dup2(descriptor, next) < 0) {
      failure = errno;
      ::_exit(127);
    }
    ++next;
  }
  ::syscall(SYS_close_range, next, ~0U, 0);
  for (const auto& [what, limit] : prepared.limits) {
    if (::syscall(SYS_prlimit64, 0, what, &limit, nullptr) != 0) {
      failure = errno;
      ::_exit(127);
    }
  }
  if (prepared.user != 0 && !become(prepared.user)) {
    failure = errno;
    ::_exit(127);
  }
  ::execve(prepared.path, prepared.words.data(), prepared.environment.data());
  failure = errno;
  ::_exit(127);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

}  // namespace

Result<pid_t> start_limited(const LimitedProcess& wanted) {
  Prepared prepared;
  prepared.path = wanted.path.c_str();
  prepared.words = pointers(wanted.words);
  prepared.environment = pointers(wanted.environment);
  prepared.user = wanted.user;
  for (const auto& [what, limit] : wanted.limits) prepared.limits.emplace_back(what, rlimit{limit, limit});
  // Out of the way of the numbers that they become.
  std::vector<File> moved;
  for (const int descriptor : wanted.descriptors) {
    if (descriptor < 0) {
      prepared.descriptors.push_back(-1);
      continue;
    }
    const int high = ::fcntl(descriptor, F_DUPFD_CLOEXEC, kFirstFree);
    if (high < 0) return make_system_error(errno, "starting " + wanted.path);
    moved.emplace_back(high, wanted.path);
    prepared.descriptors.push_back(high);
  }
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // Until exec the memory is shared: changing the user there would also forbid this process its core dumps.
  const int dumpable = ::prctl(PR_GET_DUMPABLE);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  volatile int failure = 0;
  const pid_t child = ::vfork();
  if (child == 0) run_child(prepared, failure);
  const int problem = child < 0 ? errno : failure;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (dumpable >= 0) ::prctl(PR_SET_DUMPABLE, dumpable);
  if (child < 0) return make_system_error(problem, "starting " + wanted.path);
  if (problem != 0) {
    siginfo_t ended{};
    while (::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED) < 0 && errno == EINTR) {
    }
    return make_system_error(problem, "starting " + wanted.path);
  }
  return child;
}

}  // namespace millrace::transform
