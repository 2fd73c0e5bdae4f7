// Starts bubblewrap with a list of words, never by a shell, and watches what runs in it.
#include "transform/sandbox.h"

#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>

#include "base/clock.h"
#include "base/number.h"
#include "base/text.h"
#include "shard/sandbox.h"
#include "transform/forbidden_calls.h"
#include "transform/limited_process.h"

namespace millrace::transform {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSharedMemoryBytes = "16777216";  // of /dev/shm, for semaphores
constexpr uint64_t kMostOpenFiles = 256;
// Beside the program's own: bubblewrap twice, and who waits for the program.
constexpr uint64_t kOwnProcesses = 3;
// Programs map more than they use; the use is watched.
constexpr uint64_t kMappedBeyond = uint64_t{1} << 30;
// Users that Debian gives to nobody; sandboxes of one node do not share one.
constexpr uid_t kFirstUser = 65'100;
constexpr size_t kPipeBytes = 1 << 20;

struct PipeEnds {
  File reading;
  File writing;
};

Result<PipeEnds> make_pipe(const std::string& name) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return make_system_error(errno, "making a pipe");
  PipeEnds made{File(ends[0], name), File(ends[1], name)};
  // Fewer changes between the program and us; where the system refuses it, the usual size will do.
  static_cast<void>(::fcntl(ends[1], F_SETPIPE_SZ, kPipeBytes));
  return made;
}

std::string find_bubblewrap() {
  for (const char* path : {"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"}) {
    if (::access(path, X_OK) == 0) return path;
  }
  return {};
}

void add(std::vector<std::string>& words, std::initializer_list<std::string_view> more) {
  for (const std::string_view word : more) words.emplace_back(word);
}

std::vector<std::string> bubblewrap_words(const SandboxOptions& options, bool is_filtered) {
  std::vector<std::string> words = shard::confinement_words();
  add(words, {"--proc", "/proc", "--dev", "/dev", "--size", kSharedMemoryBytes, "--tmpfs", "/dev/shm",
              "--remount-ro", "/dev"});
  add(words, {"--size", std::to_string(options.limits.disk), "--tmpfs", "/tmp", "--chdir", "/tmp",
              "--remount-ro", "/"});
  if (is_filtered) add(words, {"--seccomp", "4"});
  add(words, {"--"});
  words.insert(words.end(), options.words.begin(), options.words.end());
  return words;
}

std::vector<std::pair<int, uint64_t>> rlimits(const Limits& limits, uint64_t processes) {
  return {{RLIMIT_AS, limits.memory + kMappedBeyond},
          {RLIMIT_CPU, limits.cpu_seconds},
          {RLIMIT_FSIZE, limits.disk},
          {RLIMIT_NOFILE, kMostOpenFiles},
          {RLIMIT_NPROC, processes},
          {RLIMIT_CORE, 0},
          {RLIMIT_MEMLOCK, 64 << 10},
          {RLIMIT_MSGQUEUE, 0}};
}

// Threads of all processes of this user: where the node is not root, the limit counts them as well.
uint64_t count_threads_of_user() {
  uint64_t threads = 0;
  std::error_code failure;
  for (fs::directory_iterator entry("/proc", failure); !failure && entry != fs::directory_iterator();
       entry.increment(failure)) {
    struct stat found{};
    const std::string path = entry->path().string();
    if (!parse_number<int>(entry->path().filename().string()) || ::stat(path.c_str(), &found) != 0 ||
        found.st_uid != ::geteuid())
      continue;
    std::error_code gone;
    for (fs::directory_iterator task(path + "/task", gone); !gone && task != fs::directory_iterator();
         task.increment(gone))
      ++threads;
  }
  return threads;
}

// Resident memory of a process and all that descend from it.
uint64_t resident_bytes(pid_t root) {
  static const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  uint64_t pages = 0;
  std::vector<pid_t> family = {root};
  constexpr size_t kMostLookedAt = 8192;
  for (size_t i = 0; i < family.size() && i < kMostLookedAt; ++i) {
    const std::string path = fmt::format("/proc/{}", family[i]);
    if (const auto text = read_file(path + "/statm", 4096)) {
      const std::vector<std::string> words = split_words(*text);
      if (words.size() > 1) pages += parse_number<uint64_t>(words[1]).value_or(0);
    }
    std::error_code gone;
    for (fs::directory_iterator task(path + "/task", gone); !gone && task != fs::directory_iterator();
         task.increment(gone)) {
      const auto children = read_file(task->path().string() + "/children", 64 << 10);
      if (!children) continue;
      for (const std::string& word : split_words(*children)) {
        if (const auto child = parse_number<pid_t>(word)) family.push_back(*child);
      }
    }
  }
  return pages * page;
}

// The last lines, on one.
std::string quoted_words(const std::string& words) {
  constexpr size_t kMost = 600;
  std::string text = words.size() > kMost ? words.substr(words.size() - kMost) : words;
  text = std::string(trim(text, " \t\r\n"));
  std::string line;
  for (const char c : text) {
    if (c != '\n') {
      line += c;
    } else if (!line.ends_with(" | ")) {
      line += " | ";
    }
  }
  return printable(line, 2 * kMost);
}

}  // namespace

SandboxRoom::SandboxRoom() : taken_(kMostSandboxes, false) {
  looking_.start(Background::kWhenWoken, [this] {
    while (look() && looking_.pause(std::chrono::milliseconds(kLookEveryMs))) {
    }
  });
}

SandboxRoom::~SandboxRoom() {
  stop();
  looking_.stop();
}

void SandboxRoom::stop() {
  const MutexLock lock(mutex_);
  stopped_ = true;
  for (Sandbox* sandbox : watched_) sandbox->end(Sandbox::Ended::kStopped);
}

size_t SandboxRoom::count() const {
  const MutexLock lock(mutex_);
  return watched_.size();
}

Result<size_t> SandboxRoom::take_place() {
  const MutexLock lock(mutex_);
  if (stopped_) return make_error(Code::kCancelled, "the node stops");
  const auto free = std::ranges::find(taken_, false);
  if (free == taken_.end())
    return make_error(Code::kUnavailable, "{} sandboxes are in use", kMostSandboxes)
        .with_hint("try again when other transforms have ended");
  *free = true;
  return static_cast<size_t>(free - taken_.begin());
}

void SandboxRoom::give_back(size_t place) {
  const MutexLock lock(mutex_);
  taken_[place] = false;
}

void SandboxRoom::watch(Sandbox* sandbox) {
  const MutexLock lock(mutex_);
  watched_.push_back(sandbox);
  if (stopped_) sandbox->end(Sandbox::Ended::kStopped);
  looking_.wake();
}

void SandboxRoom::forget(Sandbox* sandbox) {
  const MutexLock lock(mutex_);
  std::erase(watched_, sandbox);
}

bool SandboxRoom::look() {
  // Held while looking: a sandbox that is forgotten is not looked at any more.
  const MutexLock lock(mutex_);
  const uint64_t now = steady_us();
  for (Sandbox* sandbox : watched_) sandbox->look(now);
  return !watched_.empty();
}

Result<std::unique_ptr<Sandbox>> SandboxRoom::start(const SandboxOptions& options) {
  const size_t place = MR_TRY(take_place());
  std::unique_ptr<Sandbox> sandbox(new Sandbox(*this, options, place));
  MR_TRY(sandbox->begin(options));
  return sandbox;
}

Status Sandbox::begin(const SandboxOptions& options) {
  LimitedProcess wanted;
  wanted.path = find_bubblewrap();
  if (wanted.path.empty())
    return make_error(kNoSandbox, "programs run in a sandbox, and bubblewrap is not installed here")
        .with_hint("apt install bubblewrap");
  PipeEnds in = MR_TRY(make_pipe(name_));
  PipeEnds out = MR_TRY(make_pipe(name_));
  PipeEnds errors = MR_TRY(make_pipe(name_));
  PipeEnds report = MR_TRY(make_pipe(name_));
  PipeEnds filter = MR_TRY(make_pipe(name_));
  const std::string forbidden = forbidden_calls();
  MR_TRY(filter.writing.write_all(forbidden));
  filter.writing = File();
  wanted.words = bubblewrap_words(options, !forbidden.empty());
  wanted.environment = {
      "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp",         "TMPDIR=/tmp",           "LANG=C.UTF-8",
      "PYTHONDONTWRITEBYTECODE=1",         "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1"};
  wanted.descriptors = {
      in.reading.descriptor(),     out.writing.descriptor(),
      errors.writing.descriptor(), report.writing.descriptor(),
      filter.reading.descriptor(), options.agent != nullptr ? options.agent->descriptor() : -1};
  const bool is_root = ::geteuid() == 0;
  if (is_root) wanted.user = kFirstUser + static_cast<uid_t>(place_);
  const uint64_t others = is_root ? 0 : count_threads_of_user();
  wanted.limits = rlimits(limits_, limits_.processes + kOwnProcesses + others);
  set_time(limits_.seconds);
  child_ = MR_TRY(start_limited(wanted));
  input_ = std::move(in.writing);
  output_ = std::move(out.reading);
  errors_ = std::move(errors.reading);
  report_ = std::move(report.reading);
  room_.watch(this);
  return {};
}

Sandbox::~Sandbox() {
  if (child_ != 0 && !is_reaped_) {
    end(Ended::kStopped);
    static_cast<void>(finish());
  }
  room_.give_back(place_);
}

void Sandbox::set_time(uint64_t seconds) {
  until_us_.store(steady_us() + seconds * 1'000'000, std::memory_order_relaxed);
}

// Nobody has waited for the child while this may be called, so the number is still its own.
void Sandbox::end(Ended why) {
  Ended none = Ended::kByItself;
  if (!ended_.compare_exchange_strong(none, why)) return;
  if (child_ > 0) ::kill(child_, SIGKILL);
}

void Sandbox::look(uint64_t now_us) {
  if (now_us >= until_us_.load(std::memory_order_relaxed)) return end(Ended::kTime);
  if (resident_bytes(child_) > limits_.memory) end(Ended::kMemory);
}

std::optional<Error> Sandbox::find_end() const {
  switch (ended_.load()) {
    case Ended::kByItself:
      return std::nullopt;
    case Ended::kTime:
      return failure(fmt::format("{} was ended: it took longer than its limit", name_));
    case Ended::kMemory:
      return failure(
          fmt::format("{} was ended: it used more than {} bytes of memory", name_, limits_.memory));
    case Ended::kOutput:
      return failure(fmt::format("{} was ended: it wrote more than {} bytes", name_, limits_.output));
    case Ended::kStopped:
      return make_error(Code::kCancelled, "{} was ended: nobody waits for it", name_);
  }
  return std::nullopt;
}

std::string Sandbox::with_words(std::string text) const {
  const std::string said = quoted_words(words_);
  if (!said.empty()) text += fmt::format("; its last words: {}", said);
  return text;
}

Error Sandbox::failure(std::string why) const {
  return Error(kProgramFailed, with_words(std::move(why)));
}

Status Sandbox::write(std::string_view bytes) {
  // A program that reads no more would end this whole process by a signal.
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  while (!bytes.empty()) {
    const ssize_t written = ::write(input_.descriptor(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return make_error(Code::kUnavailable, "{} reads no more", name_);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

void Sandbox::close_input() {
  input_ = File();
}

bool Sandbox::hear_words() {
  char buffer[4096];
  const ssize_t got = ::read(errors_.descriptor(), buffer, sizeof buffer);
  if (got < 0 && errno == EINTR) return true;
  if (got <= 0) return false;
  words_.append(buffer, static_cast<size_t>(got));
  if (words_.size() > kLastWordsBytes) words_.erase(0, words_.size() - kLastWordsBytes);
  return true;
}

Result<size_t> Sandbox::read_some(std::span<std::byte> into) {
  while (true) {
    pollfd waiting[2] = {{output_.descriptor(), POLLIN, 0}, {errors_.descriptor(), POLLIN, 0}};
    if (::poll(waiting, errors_.is_open() ? 2 : 1, -1) < 0) {
      if (errno == EINTR) continue;
      return make_system_error(errno, "waiting for " + name_);
    }
    if (waiting[1].revents != 0 && errors_.is_open() && !hear_words()) errors_ = File();
    if (waiting[0].revents == 0) continue;
    const size_t got = MR_TRY(output_.read_some(into));
    output_bytes_ += got;
    if (output_bytes_ > limits_.output) end(Ended::kOutput);
    if (auto ended = find_end()) return std::move(*ended);
    return got;
  }
}

Status Sandbox::finish() {
  close_input();
  output_ = File();
  while (errors_.is_open()) {
    if (!hear_words()) errors_ = File();
  }
  siginfo_t ended{};
  // The watch goes on until the program has ended; only then its number may become somebody else's.
  while (::waitid(P_PID, static_cast<id_t>(child_), &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  room_.forget(this);
  int status = 0;
  while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
  is_reaped_ = true;
  if (auto why = find_end()) return std::move(*why);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  constexpr int kSignals = 128;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : kSignals + WTERMSIG(status);
  if (code == kSignals + SIGXCPU)
    return failure(
        fmt::format("{} was ended: it used more than {} s of processor time", name_, limits_.cpu_seconds));
  if (code > kSignals && code < kSignals + NSIG)
    return failure(fmt::format("{} was ended by signal {}", name_, code - kSignals));
  return failure(fmt::format("{} failed with exit code {}", name_, code));
}

std::string Sandbox::take_report() {
  std::string text;
  char buffer[4096];
  while (report_.is_open() && text.size() < kMostReportBytes) {
    const ssize_t got = ::read(report_.descriptor(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  report_ = File();
  return text;
}

}  // namespace millrace::transform
