// Sandbox: a program of somebody else, in a room of its own made by bubblewrap.
//
// It has no network, sees a read-only /usr (and what programs there need of /etc), writes to /tmp alone,
// which is memory of its own and of a limited size, and is another user where the node is root. Limits:
// memory, processes, disk, output, processor time and time. What exceeds one is ended with all its processes.
// It inherits standard input, output and error, and two descriptors that the node gives it on purpose.
//
// A Sandbox has one reader; write() and close_input() may be another thread's. SandboxRoom is thread-safe,
// outlives its sandboxes, and has one thread that looks at them every kLookEveryMs, while there are any.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/background.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/result.h"
#include "transform/description.h"

namespace millrace::transform {

// The program failed, was ended, or left nothing that makes sense.
inline constexpr Reason kProgramFailed{Code::kInvalid, "program failed"};
// The program could not begin, whatever it would have been given.
inline constexpr Reason kNotStarted{Code::kInvalid, "program not started"};
// Sandboxes cannot be made on this machine.
inline constexpr Reason kNoSandbox{Code::kUnsupported, "no sandbox"};

inline constexpr size_t kLastWordsBytes = 4096;
inline constexpr size_t kMostReportBytes = 32 << 10;
inline constexpr int kLookEveryMs = 50;
inline constexpr size_t kMostSandboxes = 64;
// Where the program finds what the node gave it.
inline constexpr int kReportDescriptor = 3;
inline constexpr int kAgentDescriptor = 5;

struct SandboxOptions {
  std::vector<std::string> words;  // program and arguments
  Limits limits;
  const File* agent = nullptr;  // a program that it gets as kAgentDescriptor; outlives start()
  std::string name = {};        // for messages; empty: the program
};

class Sandbox;

// Places for sandboxes, each with a user of its own where the node is root.
class SandboxRoom {
 public:
  SandboxRoom();
  ~SandboxRoom();
  // kNoSandbox says what is missing.
  Result<std::unique_ptr<Sandbox>> start(const SandboxOptions& options);
  // Ends all of them; those that come later are refused.
  void stop();
  size_t count() const;

 private:
  friend class Sandbox;
  Result<size_t> take_place();
  void give_back(size_t place);
  void watch(Sandbox* sandbox);
  void forget(Sandbox* sandbox);
  // False: there is none to look at.
  bool look();

  mutable Mutex mutex_;
  std::vector<bool> taken_ MR_GUARDED_BY(mutex_);
  std::vector<Sandbox*> watched_ MR_GUARDED_BY(mutex_);
  bool stopped_ MR_GUARDED_BY(mutex_) = false;
  Background looking_;
};

class Sandbox {
 public:
  enum class Ended : uint8_t { kByItself, kTime, kMemory, kOutput, kStopped };

  ~Sandbox();
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;

  // kUnavailable: the program reads no more.
  Status write(std::string_view bytes);
  void close_input();
  // 0 at the end of its output. kProgramFailed: it was ended.
  Result<size_t> read_some(std::span<std::byte> into);
  // Waits for the end. kProgramFailed with why and the last words, unless it went well.
  Status finish();
  // Whatever it does.
  void end(Ended why);

  // From now on it may take so long.
  void set_time(uint64_t seconds);
  void reset_output() { output_bytes_ = 0; }
  // The text, and behind it what the program said last on standard error.
  std::string with_words(std::string text) const;
  // What it wrote to kReportDescriptor; after finish().
  std::string take_report();
  // Why it was ended, as an error; nothing where it was not.
  std::optional<Error> find_end() const;

 private:
  friend class SandboxRoom;
  Sandbox(SandboxRoom& room, const SandboxOptions& options, size_t place)
      : room_(room),
        limits_(options.limits),
        name_(options.name.empty() ? options.words[0] : options.name),
        place_(place) {}
  Status begin(const SandboxOptions& options);
  void look(uint64_t now_us);
  // False once standard error has ended.
  bool hear_words();
  Error failure(std::string why) const;

  SandboxRoom& room_;
  const Limits limits_;
  const std::string name_;
  const size_t place_;
  pid_t child_ = 0;
  File input_;
  File output_;
  File errors_;
  File report_;
  std::string words_;
  uint64_t output_bytes_ = 0;
  bool is_reaped_ = false;
  std::atomic<uint64_t> until_us_ = UINT64_MAX;
  std::atomic<Ended> ended_ = Ended::kByItself;
};

}  // namespace millrace::transform
