// PythonRunner: transforms of the kind python: a function, called by workers that live on between runs.
//
// A worker is a Python interpreter in a sandbox that has loaded one version of one transform. It takes one
// sample after the other. One that hangs, dies or answers nonsense is replaced, and fails that sample alone.
// At most `threads` work for one version at a time. Workers that nobody needed for kIdleSeconds end.
// Thread-safe.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/background.h"
#include "base/mutex.h"
#include "base/workers.h"
#include "transform/python_worker.h"
#include "transform/run.h"
#include "transform/sandbox.h"

namespace millrace::transform {

inline constexpr uint64_t kIdleSeconds = 60;
// Of all transforms together: the one unused longest makes room.
inline constexpr size_t kMostIdleWorkers = 16;

class PythonRunner final : public Runner {
 public:
  PythonRunner(SandboxRoom& room, unsigned threads);
  ~PythonRunner() override;
  Result<Outcome> run(const Registered& transform, const Input& input, tar::ByteSink& out) override;
  // The idle workers of a transform that is gone end.
  void forget(const std::string& name);
  // Ends the idle workers. Before the room stops.
  void stop();
  size_t count_idle() const;

 private:
  class Worker;
  struct Idle {
    std::string tag;
    std::unique_ptr<Worker> worker;
    uint64_t since_us = 0;
  };
  Result<std::unique_ptr<Worker>> take(const Registered& transform);
  void give_back(const std::string& tag, std::unique_ptr<Worker> worker);
  Result<MadeSamples> call(const Registered& transform, const tar::Sample& sample);
  void end_idle();

  SandboxRoom& room_;
  const unsigned threads_;
  Workers workers_;  // wait for workers
  mutable Mutex mutex_;
  std::list<Idle> idle_ MR_GUARDED_BY(mutex_);  // newest first
  bool stopped_ MR_GUARDED_BY(mutex_) = false;
  Background ending_;
};

}  // namespace millrace::transform
