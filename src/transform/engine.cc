// Chooses the runner, and counts around it.
#include "transform/engine.h"

#include <algorithm>
#include <thread>

#include "base/clock.h"
#include "tar/format.h"

namespace millrace::transform {

namespace {

constexpr int64_t kRememberedMs = 30'000;

unsigned thread_count(const EngineOptions& options) {
  return options.threads > 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
}

class CountingSource final : public tar::ByteSource {
 public:
  explicit CountingSource(tar::ByteSource& source) : source_(source) {}
  Result<size_t> read_some(std::span<std::byte> into) override {
    const size_t got = MR_TRY(source_.read_some(into));
    bytes_ += got;
    return got;
  }
  Result<uint64_t> skip(uint64_t bytes) override {
    const uint64_t passed = MR_TRY(source_.skip(bytes));
    bytes_ += passed;
    return passed;
  }
  uint64_t bytes() const { return bytes_; }

 private:
  tar::ByteSource& source_;
  uint64_t bytes_ = 0;
};

// Errors of whoever takes the bytes are his own.
class CountingSink final : public tar::ByteSink {
 public:
  explicit CountingSink(tar::ByteSink& sink) : sink_(sink) {}
  Status write(std::string_view bytes) override {
    bytes_ += bytes.size();
    Status written = sink_.write(bytes);
    is_refused_ = is_refused_ || !written;
    return written;
  }
  Status finish() override { return sink_.finish(); }
  uint64_t bytes() const { return bytes_; }
  bool is_refused() const { return is_refused_; }

 private:
  tar::ByteSink& sink_;
  uint64_t bytes_ = 0;
  bool is_refused_ = false;
};

// What its runner does not write itself.
bool needs_end(Kind kind) {
  return kind == Kind::kImages || kind == Kind::kPython;
}

}  // namespace

Engine::Engine(const EngineOptions& options)
    : workers_(thread_count(options)),
      images_(workers_, thread_count(options)),
      programs_(room_, options.agent),
      python_(room_, thread_count(options)) {}

Engine::~Engine() {
  stop();
}

void Engine::stop() {
  room_.stop();
  python_.stop();
  workers_.stop();
}

Runner& Engine::runner_of(Kind kind) {
  switch (kind) {
    case Kind::kImages:
      return images_;
    case Kind::kCommand:
    case Kind::kFilter:
      return programs_;
    case Kind::kPython:
      return python_;
    case Kind::kService:
      return services_;
  }
  return images_;
}

Result<Outcome> Engine::run(const Registered& transform, const Input& input, tar::ByteSink& out) {
  const auto counts = counts_of(transform.name);
  const uint64_t began = steady_us();
  CountingSource source(input.tar);
  CountingSink sink(out);
  const Kind kind = transform.description.kind;
  auto outcome = runner_of(kind).run(transform, {input.object, source, input.size}, sink);
  if (outcome && needs_end(kind)) {
    const std::string end(2 * tar::kBlock, '\0');
    if (auto written = sink.write(end); !written) outcome = written.take_error();
  }
  counts->runs.count(sink.bytes(), steady_us() - began);
  counts->bytes_in += source.bytes();
  if (outcome) {
    counts->samples_failed += outcome->failed;
    return outcome;
  }
  // Whoever asked went away: nobody's failure.
  if (sink.is_refused()) return outcome.take_error();
  counts->runs.count_error();
  const Code code = outcome.error().code();
  Error error = outcome.take_error().within(fmt::format("transform {} of {}", transform.name, input.object));
  const bool is_of_the_node = code == Code::kUnavailable || code == Code::kCancelled || error.is(kNoSandbox);
  note({wall_ms(), transform.name, transform.tag(), input.object, error.message(), !is_of_the_node});
  if (is_of_the_node) return error;
  return Error(kTransformFailed, error.message()).with_hint(error.hint());
}

std::shared_ptr<Engine::Counts> Engine::counts_of(const std::string& name) {
  const MutexLock lock(mutex_);
  const auto known = counts_.find(name);
  if (known != counts_.end()) return known->second;
  auto fresh = std::make_shared<Counts>();
  if (counts_.size() < kMostNames) counts_.emplace(name, fresh);
  return fresh;
}

void Engine::note(Failure failure) {
  const MutexLock lock(mutex_);
  failures_.push_front(std::move(failure));
  if (failures_.size() > kMostFailures) failures_.pop_back();
}

std::vector<Counted> Engine::read() const {
  const MutexLock lock(mutex_);
  std::vector<Counted> all;
  for (const auto& [name, counts] : counts_)
    all.push_back({name, counts->runs.read(), counts->bytes_in, counts->samples_failed});
  return all;
}

std::vector<Failure> Engine::failures(const std::string& name) const {
  const MutexLock lock(mutex_);
  std::vector<Failure> found;
  std::ranges::copy_if(failures_, std::back_inserter(found),
                       [&](const Failure& failure) { return failure.transform == name; });
  return found;
}

std::optional<Failure> Engine::find_failure(const Registered& transform, const std::string& object) const {
  const std::string tag = transform.tag();
  const int64_t since = wall_ms() - kRememberedMs;
  const MutexLock lock(mutex_);
  for (const Failure& failure : failures_) {
    if (failure.is_lasting && failure.at_ms >= since && failure.tag == tag &&
        failure.transform == transform.name && failure.object == object)
      return failure;
  }
  return std::nullopt;
}

}  // namespace millrace::transform
