// Starts a child process, reads its output and waits for its end.
#include "shard/command.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

extern char** environ;

namespace millrace::shard {

namespace {

std::vector<char*> environment_with(std::string& variable) {
  const std::string_view name = std::string_view(variable).substr(0, variable.find('=') + 1);
  std::vector<char*> environment;
  for (char** known = environ; *known != nullptr; ++known) {
    if (name.empty() || !std::string_view(*known).starts_with(name)) environment.push_back(*known);
  }
  if (!variable.empty()) environment.push_back(variable.data());
  environment.push_back(nullptr);
  return environment;
}

struct Pipe {
  File read;
  File write;
};

Result<Pipe> make_pipe(const std::string& name) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return make_system_error(errno, "making a pipe");
  return Pipe{File(ends[0], name), File(ends[1], name)};
}

// `input` -1: nothing.
Result<pid_t> spawn(const Command::Options& options, int input, int output) {
  std::vector<char*> arguments;
  for (const std::string& word : options.words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::string variable = options.variable;
  const std::vector<char*> environment = environment_with(variable);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (!options.directory.empty()) posix_spawn_file_actions_addchdir_np(&actions, options.directory.c_str());
  if (input < 0) posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (input >= 0) posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int failure =
      ::posix_spawnp(&child, arguments[0], &actions, &attributes, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failure != 0) return make_system_error(failure, "starting " + options.words[0]);
  return child;
}

}  // namespace

Result<Command> Command::start(const Options& options) {
  const std::string& name = options.words[0];
  Pipe in;
  Pipe out;
  if (options.write_input) in = MR_TRY(make_pipe(name));
  if (options.read_output) out = MR_TRY(make_pipe(name));
  const int output = options.read_output ? out.write.descriptor() : STDERR_FILENO;
  Command command(MR_TRY(spawn(options, in.read.descriptor(), output)), name);
  command.input_ = std::move(in.write);
  command.output_ = std::move(out.read);
  return command;
}

Command::Command(Command&& other) noexcept
    : child_(std::exchange(other.child_, 0)),
      name_(std::move(other.name_)),
      output_(std::move(other.output_)),
      input_(std::move(other.input_)) {}

Command::~Command() {
  if (child_ == 0) return;
  ::kill(child_, SIGTERM);
  // Who reads no longer lets it go on: a writer to a closed pipe ends.
  output_ = File();
  input_ = File();
  static_cast<void>(finish());
}

void Command::kill() {
  if (child_ != 0) ::kill(child_, SIGKILL);
}

Status Command::finish() {
  int status = 0;
  while (::waitpid(child_, &status, 0) < 0) {
    if (errno != EINTR) return make_system_error(errno, "waiting for " + name_);
  }
  child_ = 0;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  if (WIFSIGNALED(status))
    return make_error(Code::kUnavailable, "{} was ended by signal {}", name_, WTERMSIG(status));
  return make_error(Code::kUnavailable, "{} failed with exit code {}", name_, WEXITSTATUS(status));
}

bool is_pipe(std::string_view name) {
  return name.starts_with(kPipePrefix);
}

Result<Command> start_pipe(const std::string& name) {
  const char* const allowed = std::getenv("MILLRACE_ALLOW_PIPE");
  if (allowed == nullptr || std::string_view(allowed) != "1") {
    return make_error(Code::kDenied, "{}: shell commands are not run", name)
        .with_hint("set MILLRACE_ALLOW_PIPE=1 if you trust who wrote this address");
  }
  Command::Options options;
  options.words = {"/bin/sh", "-c", name.substr(kPipePrefix.size())};
  options.read_output = true;
  auto command = Command::start(options);
  if (!command) return command.take_error().within(name);
  return command;
}

}  // namespace millrace::shard
