// The programs that the one binary is: their names, common flags and verbs, put together.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string_view>

#include "cli/shell.h"

namespace millrace::cli {

enum class Program { kMillrace, kTarshards };

// The parser with every verb on it. What is parsed lands in `shell`, which must outlive the parser.
std::unique_ptr<CLI::App> make_program(Program program, Shell& shell);

std::string_view program_version();

}  // namespace millrace::cli
