// Shell: how every verb talks to the person at the terminal.
//
// Standard output is data, standard error is talk. A verb registers itself on the parser and leaves its work
// in `action`; main runs it and turns an Error into a message and an exit code. Made once in main.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/progress.h"
#include "base/result.h"
#include "transfer/stores.h"

namespace millrace::cli {

using Json = nlohmann::ordered_json;

class Shell {
 public:
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  std::vector<std::string> trailing;  // a command line behind --
  std::function<Status()> action;
  Progress progress;
  std::string ca_file;
  bool insecure = false;
  bool dry_run = false;  // only say what would be done
  bool stamps = false;   // lines of the log carry the time

  Log& log();
  // prod/bucket/key as an address, where prod is an alias; other words as they are.
  enum class Names { kAddresses, kAlsoFiles };
  Result<std::string> resolve(const std::string& word, Names names);
  // The stores that addresses lead to, with what environment and flags say; made when first asked for.
  Result<transfer::Stores*> stores();
  // A line for the person, on standard error; not with --quiet.
  void say(const std::string& line) const;
  // A result for a program, on standard output; names that are not UTF-8 are shown as well as they can be.
  static void print(const Json& value);
  // Drawn until it is destroyed; nothing where nobody looks.
  std::unique_ptr<ProgressBar> bar(const std::string& what, const std::string& items = "samples") const;

 private:
  std::unique_ptr<Log> log_;
  std::optional<std::vector<transfer::Alias>> aliases_;
  std::unique_ptr<transfer::Stores> stores_;
};

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace millrace::cli
