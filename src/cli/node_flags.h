// Flags of the verbs that concern a node: its config from file, environment and flags.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "node/config.h"

namespace millrace::cli {

struct NodeFlags {
  std::string file;
  std::vector<std::pair<std::string, std::string>> set;  // in the order of the command line
  std::vector<std::string> drives;

  void add_to(CLI::App& verb);
  // Flags over environment over file over defaults. `config` must stay where it is.
  Status load(node::Config& config, Settings& settings) const;
};

// MILLRACE_… variables that look like settings and are none: slips that would change nothing, silently.
struct DoubtfulVariable {
  std::string name;
  std::string nearest;
};
std::vector<DoubtfulVariable> doubtful_variables(const Settings& settings);

}  // namespace millrace::cli
