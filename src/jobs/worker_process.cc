// Starts a worker, hands it orders, and reads what it answers and says.
#include "jobs/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "jobs/job_book.h"

namespace millrace::jobs {

namespace {

constexpr int kNiceness = 19;
constexpr int kIdleDrives = 3 << 13;  // IOPRIO_CLASS_IDLE
constexpr int kOfProcess = 1;         // IOPRIO_WHO_PROCESS

struct Ends {
  File read;
  File write;
};

Result<Ends> make_pipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return make_system_error(errno, "making a pipe");
  return Ends{File(ends[0], "a worker"), File(ends[1], "a worker")};
}

struct Child {
  const char* program;
  char* const* arguments;
  char* const* environment;
  int input;
  int output;
  int errors;
};

// Between fork and exec: only what is safe there.
[[noreturn]] void become(const Child& child) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::setpriority(PRIO_PROCESS, 0, kNiceness);
  ::syscall(SYS_ioprio_set, kOfProcess, 0, kIdleDrives);
  ::dup2(child.input, STDIN_FILENO);
  ::dup2(child.output, STDOUT_FILENO);
  ::dup2(child.errors, STDERR_FILENO);
  ::execve(child.program, child.arguments, child.environment);
  ::_exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

}  // namespace

WorkerProcess::~WorkerProcess() {
  kill();
  static_cast<void>(end());
}

bool WorkerProcess::is_running() const {
  const MutexLock lock(mutex_);
  return process_ != 0;
}

Status WorkerProcess::start() {
  Ends orders = MR_TRY(make_pipe());
  Ends answers = MR_TRY(make_pipe());
  Ends errors = MR_TRY(make_pipe());
  std::vector<std::string> words = {"millrace", "job", "worker"};
  std::vector<std::string> variables = command_.variables;
  const std::vector<char*> arguments = pointers(words);
  const std::vector<char*> environment = pointers(variables);
  const Child child{command_.program.c_str(), arguments.data(),           environment.data(),
                    orders.read.descriptor(), answers.write.descriptor(), errors.write.descriptor()};
  const pid_t process = ::fork();
  if (process < 0) return make_system_error(errno, "starting a worker");
  if (process == 0) become(child);
  orders_ = std::move(orders.write);
  answers_ = std::move(answers.read);
  errors_ = std::move(errors.read);
  ::fcntl(errors_.descriptor(), F_SETFL, O_NONBLOCK);
  heard_.clear();
  log_.clear();
  const MutexLock lock(mutex_);
  process_ = process;
  return {};
}

Status WorkerProcess::say(const WorkOrder& order) {
  if (orders_.write_all(encode(order) + "\n")) return {};
  return end();
}

// False: nothing more will come.
bool WorkerProcess::read_log() {
  std::array<std::byte, 16 << 10> some{};
  const auto got = errors_.read_some(some);
  if (!got) return true;
  log_.append(reinterpret_cast<const char*>(some.data()), *got);
  if (log_.size() > 2 * kMostLogBytes) log_.erase(0, log_.size() - kMostLogBytes);
  return *got > 0;
}

Result<WorkAnswer> WorkerProcess::hear() {
  bool is_talking = true;
  while (true) {
    const size_t line_end = heard_.find('\n');
    if (line_end != std::string::npos) {
      const std::string line = heard_.substr(0, line_end);
      heard_.erase(0, line_end + 1);
      return decode_answer(line);
    }
    pollfd watched[2] = {{answers_.descriptor(), POLLIN, 0},
                         {is_talking ? errors_.descriptor() : -1, POLLIN, 0}};
    if (::poll(watched, 2, -1) < 0) continue;
    if (watched[1].revents != 0) is_talking = read_log();
    if (watched[0].revents == 0) continue;
    std::array<std::byte, 16 << 10> some{};
    const auto got = answers_.read_some(some);
    if (!got || *got == 0 || heard_.size() > kMostLineBytes) {
      const Status ended = end();
      return ended.error().copy();
    }
    heard_.append(reinterpret_cast<const char*>(some.data()), *got);
  }
}

void WorkerProcess::kill() {
  const MutexLock lock(mutex_);
  if (process_ == 0) return;
  ::kill(-process_, SIGKILL);
  ::kill(process_, SIGKILL);
}

// Always an error: how it ended.
Status WorkerProcess::end() {
  pid_t process = 0;
  {
    const MutexLock lock(mutex_);
    process = process_;
  }
  if (process == 0) return make_error(Code::kUnavailable, "the worker is not running");
  // It ends with its input, if nothing else ended it.
  orders_ = File();
  int status = 0;
  while (::waitpid(process, &status, WNOHANG) == 0) {
    pollfd watched{errors_.descriptor(), POLLIN, 0};
    if (::poll(&watched, 1, 50) > 0 && !read_log()) {
      while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
      }
      break;
    }
  }
  {
    const MutexLock lock(mutex_);
    process_ = 0;
  }
  // What its commands left of its group.
  ::kill(-process, SIGKILL);
  while (errors_.is_open()) {
    const size_t before = log_.size();
    if (!read_log() || log_.size() == before) break;
  }
  if (WIFSIGNALED(status))
    return make_error(Code::kUnavailable, "the worker was ended by signal {}", WTERMSIG(status))
        .with_hint("if that was the kernel for lack of memory, give less with --memory");
  return make_error(Code::kUnavailable, "the worker ended with exit code {}", WEXITSTATUS(status));
}

std::string WorkerProcess::take_log() {
  if (errors_.is_open()) {
    for (size_t before = log_.size() + 1; before != log_.size();) {
      before = log_.size();
      if (!read_log()) break;
    }
  }
  std::string log = std::exchange(log_, {});
  if (log.size() > kMostLogBytes) log.erase(0, log.size() - kMostLogBytes);
  return log;
}

}  // namespace millrace::jobs
