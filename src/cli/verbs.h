// Checks the words of a command line: a word that is not a verb is an error with the nearest verb.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace millrace::cli {

// A word that stands where a verb must be and is none is an error that names the nearest ones. Options are
// passed over, and so is what follows the verb.
Status check_verb(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace millrace::cli
