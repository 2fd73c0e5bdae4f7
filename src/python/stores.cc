// Keeps the stores that addresses name, as long as process and environment stay the same.
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "python/bindings.h"

namespace millrace::python {

namespace {

// Everything read_settings() may look at. Called with the GIL, under which Python changes the environment.
std::string environment() {
  std::string text;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line(*entry);
    if (line.starts_with("MILLRACE_") || line.starts_with("AWS_") || line.starts_with("HOME="))
      text += fmt::format("{}\n", line);
  }
  return text;
}

struct Kept {
  pid_t process = 0;
  std::string environment;
  std::shared_ptr<transfer::Stores> stores;
};

}  // namespace

Result<std::shared_ptr<transfer::Stores>> shared_stores() {
  // Used with the GIL alone, and never destroyed: threads that still read may outlive the interpreter.
  static Kept& kept = *new Kept();
  std::string now = environment();
  if (kept.stores && kept.process == ::getpid() && kept.environment == now) return kept.stores;
  transfer::Settings settings = MR_TRY(transfer::read_settings());
  if (kept.process != ::getpid()) {
    // The parent's threads may have held their locks: its stores are left alone.
    new std::shared_ptr<transfer::Stores>(std::move(kept.stores));
  }
  kept = {::getpid(), std::move(now), std::make_shared<transfer::Stores>(std::move(settings))};
  return kept.stores;
}

}  // namespace millrace::python
