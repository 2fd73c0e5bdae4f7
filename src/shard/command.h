// Command: a child process, and how it ended.
//
// It starts as any program does, whatever this process does about signals, with nothing on standard input
// or with what is written to it here. Its standard output goes to ours for errors, or is read here. One
// thread; one more may write.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace millrace::shard {

class Command {
 public:
  struct Options {
    std::vector<std::string> words;
    std::string directory;  // where it runs; empty: here
    std::string variable;   // NAME=value, beside or instead of what the environment has
    bool read_output = false;
    bool write_input = false;  // whoever writes ignores SIGPIPE
  };
  static Result<Command> start(const Options& options);
  Command(Command&& other) noexcept;
  Command& operator=(Command&&) = delete;
  // Ends it where it still runs.
  ~Command();

  // Its standard output, where that is read.
  File& output() { return output_; }
  // Its standard input, where that is written. To be closed before its end is waited for.
  File& input() { return input_; }
  // Ends it at once.
  void kill();
  // Waits; an error where it failed.
  Status finish();

 private:
  Command(pid_t child, std::string name) : child_(child), name_(std::move(name)) {}

  pid_t child_;  // 0: has ended
  std::string name_;
  File output_;
  File input_;
};

inline constexpr std::string_view kPipePrefix = "pipe:";
bool is_pipe(std::string_view name);
// The shell command behind "pipe:"; kDenied unless MILLRACE_ALLOW_PIPE=1 is set.
Result<Command> start_pipe(const std::string& name);

}  // namespace millrace::shard
