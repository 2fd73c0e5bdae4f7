// Implements Shell: prints data, messages and errors.
#include "cli/shell.h"

#include <cstdio>

#include "base/file.h"

namespace millrace::cli {

Log& Shell::log() {
  if (!log_) {
    const LogLevel spoken = verbose ? LogLevel::kDebug : LogLevel::kInfo;
    log_ =
        std::make_unique<Log>(quiet ? LogLevel::kWarn : spoken, stamps ? LogStamps::kTime : LogStamps::kNone);
  }
  return *log_;
}

Result<std::string> Shell::resolve(const std::string& word, Names names) {
  if (word.empty() || word.front() == '/' || word.front() == '.' || word.front() == '-') return word;
  if (word.find("://") != std::string::npos) return word;
  if (!aliases_) aliases_ = MR_TRY(transfer::read_aliases());
  const auto address = transfer::resolve_alias(*aliases_, word);
  if (!address) return word;
  const std::string name = word.substr(0, word.find('/'));
  if (names == Names::kAlsoFiles && file_exists(name)) {
    return make_error(Code::kInvalid, "{} may be a file here or an object of the store {}", word, name)
        .with_hint(fmt::format("./{} for the file, {} for the object", word, *address));
  }
  return *address;
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

std::unique_ptr<ProgressBar> Shell::bar(const std::string& what, const std::string& items) const {
  return quiet ? nullptr : std::make_unique<ProgressBar>(progress, ProgressWords{what, items});
}

}  // namespace millrace::cli
