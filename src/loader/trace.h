// Trace: what each thread did when, as a timeline that a browser's tracing view opens.
//
// Off unless someone gives one to a loader. Holds at most kMostSpans; what comes later is counted and left
// out. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"

namespace millrace::loader {

class Trace {
 public:
  static constexpr size_t kMostSpans = 1'000'000;

  // `what` outlives the trace.
  void add(std::string_view what, uint64_t begin_ns, uint64_t end_ns);
  // What the calling thread is called in the timeline; `role` outlives the trace.
  void name_thread(std::string_view role);
  // The Trace Event Format: one JSON object.
  std::string json() const;

 private:
  struct Span {
    std::string_view what;
    uint64_t begin_ns;
    uint64_t end_ns;
    int thread;
  };
  mutable Mutex mutex_;
  std::vector<Span> spans_ MR_GUARDED_BY(mutex_);
  uint64_t left_out_ MR_GUARDED_BY(mutex_) = 0;
  std::map<int, std::string_view> roles_ MR_GUARDED_BY(mutex_);  // by thread
};

}  // namespace millrace::loader
