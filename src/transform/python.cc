// Keeps workers, and talks with each of them by turns.
#include "transform/python.h"

#include <chrono>

#include "base/clock.h"

namespace millrace::transform {

class PythonRunner::Worker {
 public:
  static Result<std::unique_ptr<Worker>> start(SandboxRoom& room, const Description& description) {
    auto worker = std::make_unique<Worker>();
    worker->limits_ = description.limits;
    const SandboxOptions options{{"/usr/bin/python3", "-I", "-c", std::string(kPythonWorker)},
                                 description.limits};
    worker->sandbox_ = MR_TRY(room.start(options));
    auto answer = worker->ask(source_message(description.source, description.function));
    if (!answer && !answer.error().is(kProgramFailed)) return answer.take_error();
    if (!answer) return Error(kNotStarted, "loading the source: " + answer.error().message());
    if (!answer->error.empty()) return Error(kNotStarted, "loading the source: " + one_line(answer->error));
    return worker;
  }

  // An error: the worker is of no use any more.
  Result<PythonAnswer> ask(const std::string& message) {
    sandbox_->set_time(limits_.seconds);
    sandbox_->reset_output();
    const Status written = sandbox_->write(message);
    std::string head;
    auto received = written ? receive(head, kMessageHeadBytes) : Status(written.error().copy());
    if (!received) return explain(received.take_error());
    const MessageHead sizes = parse_message_head(head);
    if (sizes.text > kMostMessageText || sizes.bytes > limits_.output)
      return make_error(kProgramFailed, "the worker's answer is too large");
    std::string text;
    std::string bytes;
    received = receive(text, sizes.text);
    if (received) received = receive(bytes, sizes.bytes);
    if (!received) return explain(received.take_error());
    sandbox_->set_time(kForeverSeconds);
    return parse_python_answer(text, bytes);
  }

  // The kernel counts a process' time from its start: one that used half of it makes room for a fresh one.
  bool is_used_up(double cpu_seconds) const {
    return cpu_seconds > static_cast<double>(limits_.cpu_seconds) / 2;
  }

  static std::string one_line(const std::string& text) {
    std::string line;
    for (const char c : text) line += c == '\n' ? std::string(" | ") : std::string(1, c);
    while (line.ends_with(" | ")) line.resize(line.size() - 3);
    return line;
  }

 private:
  static constexpr uint64_t kForeverSeconds = uint64_t{1} << 40;

  Status receive(std::string& into, uint64_t size) {
    constexpr uint64_t kPieceBytes = 1 << 20;
    while (into.size() < size) {
      const size_t have = into.size();
      into.resize(std::min(size, have + kPieceBytes));
      const size_t got = MR_TRY(sandbox_->read_some(std::as_writable_bytes(std::span(into)).subspan(have)));
      into.resize(have + got);
      if (got == 0) return make_error(kProgramFailed, "the worker ended");
    }
    return {};
  }

  // How the worker ended says more than that it did.
  Error explain(Error error) {
    if (error.code() == Code::kIo) return error;
    Status ended = sandbox_->finish();
    return ended ? Error(kProgramFailed, sandbox_->with_words("the worker ended")) : ended.take_error();
  }

  Limits limits_;
  std::unique_ptr<Sandbox> sandbox_;
};

PythonRunner::PythonRunner(SandboxRoom& room, unsigned threads)
    : room_(room), threads_(threads), workers_(threads) {
  ending_.start(std::chrono::seconds(5), [this] { end_idle(); });
}

PythonRunner::~PythonRunner() {
  stop();
}

void PythonRunner::stop() {
  ending_.stop();
  workers_.stop();
  std::list<Idle> idle;
  const MutexLock lock(mutex_);
  stopped_ = true;
  idle.swap(idle_);
}

void PythonRunner::forget(const std::string& name) {
  std::list<Idle> gone;  // ended without the lock
  const MutexLock lock(mutex_);
  for (auto idle = idle_.begin(); idle != idle_.end();) {
    const auto next = std::next(idle);
    if (idle->tag.starts_with(name + "/")) gone.splice(gone.end(), idle_, idle);
    idle = next;
  }
}

size_t PythonRunner::count_idle() const {
  const MutexLock lock(mutex_);
  return idle_.size();
}

void PythonRunner::end_idle() {
  std::list<Idle> old;
  const uint64_t now = steady_us();
  {
    const MutexLock lock(mutex_);
    while (!idle_.empty() && now - idle_.back().since_us > kIdleSeconds * 1'000'000)
      old.splice(old.begin(), idle_, std::prev(idle_.end()));
  }
}

Result<std::unique_ptr<PythonRunner::Worker>> PythonRunner::take(const Registered& transform) {
  const std::string tag = transform.name + "/" + transform.tag();
  {
    const MutexLock lock(mutex_);
    for (auto idle = idle_.begin(); idle != idle_.end(); ++idle) {
      if (idle->tag != tag) continue;
      auto worker = std::move(idle->worker);
      idle_.erase(idle);
      return worker;
    }
  }
  return Worker::start(room_, transform.description);
}

void PythonRunner::give_back(const std::string& tag, std::unique_ptr<Worker> worker) {
  std::list<Idle> out;  // ended without the lock
  const MutexLock lock(mutex_);
  out.push_back({tag, std::move(worker), steady_us()});
  if (stopped_) return;
  idle_.splice(idle_.begin(), out, out.begin());
  if (idle_.size() > kMostIdleWorkers) out.splice(out.begin(), idle_, std::prev(idle_.end()));
}

Result<MadeSamples> PythonRunner::call(const Registered& transform, const tar::Sample& sample) {
  std::unique_ptr<Worker> worker = MR_TRY(take(transform));
  PythonAnswer answer = MR_TRY(worker->ask(sample_message(sample)));
  if (!worker->is_used_up(answer.cpu_seconds))
    give_back(transform.name + "/" + transform.tag(), std::move(worker));
  if (!answer.error.empty()) return Error(kProgramFailed, Worker::one_line(answer.error));
  return std::move(answer.made);
}

Result<Outcome> PythonRunner::run(const Registered& transform, const Input& input, tar::ByteSink& out) {
  const InOrder options{input, transform.description.on_error, workers_, threads_,
                        [&](const tar::Sample& sample) { return call(transform, sample); }};
  return map_in_order(options, out);
}

}  // namespace millrace::transform
