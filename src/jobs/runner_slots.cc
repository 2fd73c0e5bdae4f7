// The threads that run tasks: each takes what waits and hands it to its worker process.
#include <filesystem>

#include "base/clock.h"
#include "jobs/runner.h"

namespace millrace::jobs {

std::vector<JobRunner::Finished> JobRunner::take_finished(const std::string& job) {
  const MutexLock lock(mutex_);
  const auto found = finished_.find(job);
  if (found == finished_.end()) return {};
  std::vector<Finished> finished = std::move(found->second);
  finished_.erase(found);
  return finished;
}

size_t JobRunner::count_finished(const std::string& job) const {
  const MutexLock lock(mutex_);
  const auto found = finished_.find(job);
  return found == finished_.end() ? 0 : found->second.size();
}

size_t JobRunner::under_way(const std::string& job) {
  const MutexLock lock(mutex_);
  const auto found = running_.find(job);
  return found == running_.end() ? 0 : found->second;
}

void JobRunner::cancel(const std::string& job) {
  const MutexLock lock(mutex_);
  waiting_.erase(job);
  for (const auto& slot : slots_) {
    if (slot->job == job) slot->process.kill();
  }
}

// Of several jobs the one with the fewest tasks under way here is next.
std::optional<JobRunner::Work> JobRunner::take_work(Slot& slot) {
  UniqueLock lock(mutex_);
  while (true) {
    unsigned running = 0;
    for (const auto& [job, count] : running_) running += count;
    std::deque<Work>* next = nullptr;
    unsigned fewest = 0;
    for (auto& [job, works] : waiting_) {
      const auto count = running_.find(job);
      const unsigned of_job = count == running_.end() ? 0 : count->second;
      if (works.empty() || (next != nullptr && of_job >= fewest)) continue;
      next = &works;
      fewest = of_job;
    }
    if (stopping_) return std::nullopt;
    if (next != nullptr && running < allowed_) {
      Work work = std::move(next->front());
      next->pop_front();
      ++running_[work.job];
      slot.job = work.job;
      return work;
    }
    changed_.wait(lock);
  }
}

void JobRunner::serve(Slot& slot) {
  while (auto work = take_work(slot)) {
    const uint64_t began = steady_us();
    Finished finished = run(slot, *work);
    finished.took_us = steady_us() - began;
    bool is_last = false;
    {
      const MutexLock lock(mutex_);
      slot.job.clear();
      if (--running_[work->job] == 0) running_.erase(work->job);
      finished.given_back = finished.given_back || stopping_;
      if (finished.given_back)
        ++reading_.given_back;
      else if (finished.result.outcome == Outcome::kDone)
        ++reading_.done;
      else
        ++reading_.failed;
      const auto waiting = waiting_.find(work->job);
      is_last = waiting == waiting_.end() || waiting->second.size() < options_.slots;
      finished_[work->job].push_back(std::move(finished));
    }
    changed_.notify_all();
    if (is_last) steps_.wake();
  }
}

JobRunner::Finished JobRunner::run(Slot& slot, const Work& work) {
  Finished finished;
  finished.table = work.table;
  finished.task = work.task;
  auto result = ask(slot, work);
  if (result) {
    finished.result = result.take();
  } else {
    // Killed by this node because the job was stopped: nobody's failure.
    finished.result = {Outcome::kFailed, {}, result.error().message()};
    if (!result.error().hint().empty()) finished.result.message += "\n  try: " + result.error().hint();
  }
  if (finished.result.outcome != Outcome::kDone) finished.log = slot.process.take_log();
  return finished;
}

Result<WorkResult> JobRunner::ask(Slot& slot, const Work& work) {
  WorkerProcess& process = slot.process;
  if (!process.is_running()) {
    slot.setup.reset();
    std::error_code failure;
    std::filesystem::remove_all(slot.directory, failure);
    std::filesystem::create_directories(slot.directory, failure);
    if (failure) return make_system_error(failure.value(), "making " + slot.directory);
    MR_TRY(process.start());
  }
  if (slot.setup != work.setup) {
    WorkSetup setup = *work.setup;
    setup.directory = slot.directory;
    MR_TRY(process.say(std::move(setup)));
    slot.setup = work.setup;
  }
  MR_TRY(process.say(WorkTask{work.what.number, work.what.input, work.what.output}));
  const WorkAnswer answer = MR_TRY(process.hear());
  if (const auto* const result = std::get_if<WorkResult>(&answer)) return *result;
  process.kill();
  return make_error(Code::kCorrupt, "the worker did not say how the task went");
}

}  // namespace millrace::jobs
