// Talking and printing.
#include "cli/shell.h"

#include <cstdio>

namespace millrace::cli {

Log& Shell::log() {
  if (!log_) {
    const LogLevel spoken = verbose ? LogLevel::kDebug : LogLevel::kInfo;
    log_ = std::make_unique<Log>(quiet ? LogLevel::kWarn : spoken);
  }
  return *log_;
}

Result<transfer::Stores*> Shell::stores() {
  if (!stores_) {
    transfer::Settings settings = MR_TRY(transfer::read_settings());
    if (!ca_file.empty()) settings.ca_file = ca_file;
    if (insecure) settings.verify = net::Verify::kInsecure;
    stores_ = std::make_unique<transfer::Stores>(std::move(settings));
  }
  return stores_.get();
}

void Shell::say(const std::string& line) const {
  if (!quiet) fmt::print(stderr, "{}\n", line);
}

void Shell::print(const Json& value) {
  fmt::print("{}\n", value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::unique_ptr<ProgressBar> Shell::bar(const std::string& what) const {
  return quiet ? nullptr : std::make_unique<ProgressBar>(progress, what);
}

}  // namespace millrace::cli
