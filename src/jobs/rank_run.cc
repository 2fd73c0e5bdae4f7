// The life of one rank: listen, wait for the others, sort, say how it went.
#include "jobs/rank_run.h"

#include <filesystem>
#include <utility>

namespace millrace::jobs {

namespace {

WorkResult lost(const Error& error) {
  return {Outcome::kFailed, {}, error.message()};
}

}  // namespace

RankRun::RankRun(RankRunOptions options)
    : options_(std::move(options)), process_(options_.worker), thread_([this] { run(); }) {}

RankRun::~RankRun() {
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
  }
  begun_.notify_all();
  process_.kill();
  thread_.join();
  std::error_code ignored;
  std::filesystem::remove_all(options_.setup.directory, ignored);
}

std::string RankRun::address() const {
  const MutexLock lock(mutex_);
  return address_;
}

void RankRun::begin(WorkRanks ranks) {
  {
    const MutexLock lock(mutex_);
    if (ranks_) return;
    ranks_ = std::move(ranks);
  }
  begun_.notify_all();
}

std::optional<WorkResult> RankRun::result() const {
  const MutexLock lock(mutex_);
  return result_;
}

std::string RankRun::log() const {
  const MutexLock lock(mutex_);
  return log_;
}

void RankRun::run() {
  WorkResult result = work();
  {
    const MutexLock lock(mutex_);
    result_ = std::move(result);
    log_ = process_.take_log();
  }
  options_.changed();
}

WorkResult RankRun::work() {
  std::error_code failure;
  std::filesystem::create_directories(options_.setup.directory, failure);
  if (failure) return lost(make_system_error(failure.value(), "making " + options_.setup.directory));
  if (const Status started = process_.start(); !started) return lost(started.error());
  {
    // Whoever stopped the run before the process was there could not kill it.
    const MutexLock lock(mutex_);
    if (stopped_) return lost(make_error(Code::kCancelled, "stopped"));
  }
  if (const Status said = process_.say(options_.setup); !said) return lost(said.error());
  if (const Status said = process_.say(WorkListen{options_.host}); !said) return lost(said.error());
  const auto port = process_.hear();
  if (!port) return lost(port.error());
  const auto* const listening = std::get_if<WorkPort>(&*port);
  if (listening == nullptr)
    return lost(make_error(Code::kCorrupt, "the worker did not say where it listens"));
  WorkRanks ranks;
  {
    UniqueLock lock(mutex_);
    const bool is_six = options_.host.find(':') != std::string::npos;
    address_ = fmt::format(fmt::runtime(is_six ? "[{}]:{}" : "{}:{}"), options_.host, listening->port);
    lock.unlock();
    options_.changed();
    lock.lock();
    begun_.wait(lock, [&]() MR_REQUIRES(mutex_) { return stopped_ || ranks_; });
    if (stopped_) return lost(make_error(Code::kCancelled, "stopped"));
    ranks = *ranks_;
  }
  if (const Status said = process_.say(std::move(ranks)); !said) return lost(said.error());
  auto answer = process_.hear();
  if (!answer) return lost(answer.error());
  if (auto* const result = std::get_if<WorkResult>(&*answer)) return std::move(*result);
  return lost(make_error(Code::kCorrupt, "the worker did not say how it went"));
}

}  // namespace millrace::jobs
