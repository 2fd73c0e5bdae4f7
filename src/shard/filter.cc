// Feeds a command on one thread and reads it on another.
#include "shard/filter.h"

#include <signal.h>

#include <thread>

#include "shard/command.h"

namespace millrace::shard {

namespace {

constexpr size_t kGatherBytes = 256 << 10;

// The command does not read any more: nothing is wrong with that by itself.
inline constexpr Reason kClosed{Code::kCancelled, "the command closed its input"};

class CommandInput final : public tar::ByteSink {
 public:
  explicit CommandInput(File& file) : file_(file) { gathered_.reserve(kGatherBytes); }
  Status write(std::string_view bytes) override {
    if (gathered_.size() + bytes.size() <= kGatherBytes) {
      gathered_ += bytes;
      return {};
    }
    MR_TRY(finish());
    return send(bytes);
  }
  Status finish() override {
    MR_TRY(send(gathered_));
    gathered_.clear();
    return {};
  }

 private:
  Status send(std::string_view bytes) {
    if (bytes.empty()) return {};
    if (file_.write_all(bytes)) return {};
    return make_error(kClosed, "the command does not read any more");
  }

  File& file_;
  std::string gathered_;
};

class CommandOutput final : public tar::ByteSource {
 public:
  explicit CommandOutput(File& file) : file_(file) {}
  Result<size_t> read_some(std::span<std::byte> into) override { return file_.read_some(into); }
  Result<uint64_t> skip(uint64_t bytes) override { return tar::skip_by_reading(*this, bytes); }

 private:
  File& file_;
};

// A pipe without a reader is an error of the writer here, not the end of the process. The signal goes to the
// thread that writes.
void ignore_broken_pipes() {
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
}

}  // namespace

Status run_filter(const Filter& filter) {
  Command command = MR_TRY(Command::start({filter.words, filter.directory, "", true, true}));
  Status fed;
  std::thread feeder([&] {
    ignore_broken_pipes();
    CommandInput input(command.input());
    fed = filter.feed(input);
    if (fed) fed = input.finish();
    command.input() = File();
  });
  CommandOutput output(command.output());
  Status taken = filter.take(output);
  // Output that ends too early is that of a command that ends: how it ends says more.
  const bool is_ending = !taken && taken.error().code() == Code::kTruncated;
  if (!taken && !is_ending) command.kill();
  feeder.join();
  const bool input_failed = !fed && !fed.error().is(kClosed);
  if (input_failed) command.kill();
  Status ended = command.finish();
  // What the command was not given whole it cannot have done right.
  if (input_failed) return fed;
  if (taken || (is_ending && !ended)) return ended;
  return taken;
}

Status copy_bytes(tar::ByteSource& from, const std::function<Status(std::string_view)>& to) {
  std::vector<std::byte> buffer(kGatherBytes);
  while (true) {
    const size_t got = MR_TRY(from.read_some(buffer));
    if (got == 0) return {};
    MR_TRY(to({reinterpret_cast<const char*>(buffer.data()), got}));
  }
}

}  // namespace millrace::shard
