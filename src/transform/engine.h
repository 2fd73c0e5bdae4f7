// Engine: runs transforms of every kind, counts them, and remembers how they failed.
//
// What the gateway of a node, `millrace transform test` and jobs use: bytes of a tar in, bytes of a tar out.
// run() blocks and may be called by many threads. Sandboxes and workers end with stop(), which comes before
// the threads that run are waited for.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/meter.h"
#include "base/mutex.h"
#include "base/workers.h"
#include "transform/images.h"
#include "transform/program.h"
#include "transform/python.h"
#include "transform/run.h"
#include "transform/sandbox.h"
#include "transform/service.h"

namespace millrace::transform {

struct EngineOptions {
  unsigned threads = 0;  // of images and of Python workers; 0: one for each core
  std::string agent;     // see ProgramRunner
};

struct Failure {
  int64_t at_ms = 0;
  std::string transform;
  std::string tag;
  std::string object;
  std::string message;
  bool is_lasting = true;  // trying again would fail again
};

// Since the start, by name.
struct Counted {
  std::string name;
  Meter::Reading runs;  // durations, bytes that came out, failures
  uint64_t bytes_in = 0;
  uint64_t samples_failed = 0;  // left out or kept as they were
};

class Engine {
 public:
  static constexpr size_t kMostFailures = 64;
  static constexpr size_t kMostNames = 1024;

  explicit Engine(const EngineOptions& options);
  ~Engine();

  // The whole tar, with its end. An error names transform, object and, where it is one's fault, the sample.
  Result<Outcome> run(const Registered& transform, const Input& input, tar::ByteSink& out);
  // The transform is gone: what waits for its next run ends.
  void forget(const std::string& name) { python_.forget(name); }
  void stop();

  std::vector<Counted> read() const;
  std::vector<Failure> failures(const std::string& name) const;  // the latest first
  // How this version failed with this object in the last seconds.
  std::optional<Failure> find_failure(const Registered& transform, const std::string& object) const;
  size_t sandboxes() const { return room_.count(); }

 private:
  struct Counts {
    Meter runs;
    std::atomic<uint64_t> bytes_in = 0;
    std::atomic<uint64_t> samples_failed = 0;
  };
  Runner& runner_of(Kind kind);
  std::shared_ptr<Counts> counts_of(const std::string& name);
  void note(Failure failure);

  SandboxRoom room_;
  Workers workers_;
  ImageRunner images_;
  ProgramRunner programs_;
  PythonRunner python_;
  ServiceRunner services_;
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<Counts>> counts_ MR_GUARDED_BY(mutex_);
  std::deque<Failure> failures_ MR_GUARDED_BY(mutex_);  // the latest first
};

}  // namespace millrace::transform
