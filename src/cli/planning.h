// The common code of the verbs of `millrace plan`: reads the file with its changes, and prints tables for
// people.
#pragma once

#include <string>
#include <vector>

#include "cli/common.h"
#include "plan/check.h"

namespace millrace::cli {

using plan::to_double;

struct PlanFlags {
  std::string file;
  std::vector<std::string> changes;  // KEY=VALUE

  void add_to(CLI::App& verb);
  Result<TomlDocument> document() const;
  Result<plan::Installation> installation() const;
};

// A rate such as 200MB/s.
CLI::Option* add_rate(CLI::App& verb, const std::string& name, uint64_t& rate, const std::string& help);

// Columns as wide as their widest cell; numbers to the right.
void print_table(const std::vector<std::vector<std::string>>& rows);

// One resource: what passes it, what it could pass.
Json resource_json(const plan::Check& check, size_t resource);

// A bar of `width` cells of which a share is full.
std::string bar_text(double share, size_t width);

void add_plan_check(CLI::App& plan, Shell& shell);
void add_plan_parts(CLI::App& plan, Shell& shell);
void add_plan_place(CLI::App& plan, Shell& shell);
void add_plan_show(CLI::App& plan, Shell& shell);
void add_plan_simulate(CLI::App& plan, Shell& shell);
void add_plan_size(CLI::App& plan, Shell& shell);
void add_plan_sweep(CLI::App& plan, Shell& shell);

}  // namespace millrace::cli
