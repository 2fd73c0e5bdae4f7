// Feeds samples to workers and puts their results back in order.
#include "transform/in_order.h"

#include <algorithm>
#include <deque>
#include <memory>

#include "base/mutex.h"
#include "transform/sandbox.h"

namespace millrace::transform {

namespace {

// One sample on its way: its blocks, then what became of it. Workers may hold it longer than the run.
class Task {
 public:
  std::string key;
  std::string blocks;

  void finish(Result<MadeSamples> made) {
    {
      const MutexLock lock(mutex_);
      made_ = std::move(made);
      done_ = true;
    }
    finished_.notify_one();
  }
  Result<MadeSamples> wait() {
    UniqueLock lock(mutex_);
    finished_.wait(lock, [&]() MR_REQUIRES(mutex_) { return done_; });
    return std::move(made_);
  }

 private:
  Mutex mutex_;
  ConditionVariable finished_;
  Result<MadeSamples> made_ MR_GUARDED_BY(mutex_);
  bool done_ MR_GUARDED_BY(mutex_) = false;
};

class Mapping {
 public:
  Mapping(const InOrder& options, tar::ByteSink& out) : options_(options), out_(out) {}
  // Whoever works refers to what the caller owns.
  ~Mapping() {
    for (const auto& task : in_flight_) static_cast<void>(task->wait());
  }

  Result<Outcome> run() {
    tar::StreamWindow window(options_.input.tar);
    tar::SampleReader reader(window, options_.input.object);
    const size_t most = std::min(kMostInFlight, 4 * options_.at_a_time);
    while (true) {
      const tar::Sample* sample = MR_TRY(reader.next());
      if (sample == nullptr) break;
      ++outcome_.in;
      while (!in_flight_.empty() && (in_flight_.size() >= most || bytes_ > kMostInFlightBytes))
        MR_TRY(emit_oldest());
      auto task = std::make_shared<Task>();
      task->key = sample->key;
      MR_TRY(tar::append_blocks(task->blocks, *sample));
      bytes_ += task->blocks.size();
      in_flight_.push_back(task);
      const auto work = [task, &options = options_] { task->finish(work_on(*task, options)); };
      if (!options_.workers.submit(work)) work();
    }
    while (!in_flight_.empty()) MR_TRY(emit_oldest());
    return outcome_;
  }

 private:
  static Result<MadeSamples> work_on(const Task& task, const InOrder& options) {
    tar::SampleParser parser(tar::KeyRule::kFirstDot);
    const tar::Sample* sample = MR_TRY(parser.parse(task.blocks));
    return options.work(*sample);
  }

  Status emit_oldest() {
    const auto task = in_flight_.front();
    auto made = task->wait();
    in_flight_.pop_front();
    bytes_ -= task->blocks.size();
    if (made) {
      outcome_.out += made->samples;
      if (made->blocks.empty()) return {};
      return out_.write(made->blocks);
    }
    // Of the node or of the whole transform, and not of the sample.
    const Error& error = made.error();
    const bool is_its_own = error.code() != Code::kCancelled && error.code() != Code::kUnavailable &&
                            !error.is(kNoSandbox) && !error.is(kNotStarted);
    if (options_.on_error == OnError::kAbort || !is_its_own)
      return made.take_error().within(fmt::format("sample \"{}\"", task->key));
    ++outcome_.failed;
    if (options_.on_error == OnError::kSkip) return {};
    ++outcome_.out;
    return out_.write(task->blocks);
  }

  const InOrder& options_;
  tar::ByteSink& out_;
  std::deque<std::shared_ptr<Task>> in_flight_;
  uint64_t bytes_ = 0;
  Outcome outcome_;
};

}  // namespace

Result<Outcome> map_in_order(const InOrder& options, tar::ByteSink& out) {
  return Mapping(options, out).run();
}

}  // namespace millrace::transform
