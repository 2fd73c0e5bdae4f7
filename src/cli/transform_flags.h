// Flags of `millrace transform`, and the description that they make.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/shell.h"

namespace millrace::cli {

struct TransformFlags {
  std::string endpoint;
  std::string name;
  // add
  std::string file;  // a description as JSON
  std::string select;
  std::string image;
  std::string to;
  std::optional<uint64_t> quality;
  std::optional<uint64_t> stack;
  std::string label;
  std::string shell_command;
  bool is_command = false;
  bool is_filter = false;
  bool many = false;
  std::string python;
  std::string service;
  std::string on_error;
  bool keep = false;
  std::string note;
  std::string memory;
  std::string disk;
  std::string most_output;
  std::optional<uint64_t> cpu_seconds;
  std::optional<uint64_t> seconds;
  std::optional<uint64_t> processes;
  // test
  std::string shard;
  std::string samples;
  std::string output;

  void add_to(CLI::App& verb);
  // `words`: the program behind --.
  Result<Json> description(const std::vector<std::string>& words) const;

 private:
  void add_kinds_to(CLI::App& verb);
  Result<Json> kind(const std::vector<std::string>& words) const;
  Result<Json> limits() const;
};

}  // namespace millrace::cli
