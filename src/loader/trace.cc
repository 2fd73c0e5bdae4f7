// Collects spans and writes them as events for a browser's tracing view.
#include "loader/trace.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/mutex.h"

namespace millrace::loader {

void Trace::add(std::string_view what, uint64_t begin_ns, uint64_t end_ns) {
  const MutexLock lock(mutex_);
  if (spans_.size() == kMostSpans) {
    ++left_out_;
    return;
  }
  spans_.push_back({what, begin_ns, end_ns, ::gettid()});
}

void Trace::name_thread(std::string_view role) {
  const MutexLock lock(mutex_);
  roles_[::gettid()] = role;
}

std::string Trace::json() const {
  const MutexLock lock(mutex_);
  uint64_t start = UINT64_MAX;
  for (const Span& span : spans_) start = std::min(start, span.begin_ns);
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  for (const auto& [thread, role] : roles_) {
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", ::getpid()},
                      {"tid", thread},
                      {"args", {{"name", role}}}});
  }
  for (const Span& span : spans_) {
    events.push_back({{"name", span.what},
                      {"ph", "X"},
                      {"ts", static_cast<double>(span.begin_ns - start) / 1000},
                      {"dur", static_cast<double>(span.end_ns - span.begin_ns) / 1000},
                      {"pid", ::getpid()},
                      {"tid", span.thread}});
  }
  return nlohmann::ordered_json{{"traceEvents", events}, {"otherData", {{"spans_left_out", left_out_}}}}
      .dump();
}

}  // namespace millrace::loader
