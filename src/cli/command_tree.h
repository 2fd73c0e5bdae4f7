// The command line as a tree of texts: what manual pages and completion scripts are made of.
//
// The verbs themselves are the only source: describe() walks what they registered on the parser, so a flag
// has its name, its help and its values in one place. The name of an option's type says what may stand there:
//   first-dot|last-dot   lower case: these words and no others
//   FILE, SHARD, ...     a file, or an address
//   DIR                  a directory
//   anything else        a word that nobody can guess
// Plain values; any thread.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace millrace::cli {

enum class Takes { kNothing, kText, kFile, kDirectory, kChoice };

struct Argument {
  std::vector<std::string> names;  // "-o", "--output"; none where it is told by its place
  std::string placeholder;         // FILE, or the choices: first-dot|last-dot
  std::string default_value;
  std::string help;
  std::vector<std::string> choices;
  Takes takes = Takes::kNothing;
  bool required = false;
  bool repeats = false;
};

struct Command {
  std::string words;  // "millrace tar sort"
  std::string summary;
  std::vector<std::string> remarks;   // paragraphs
  std::vector<std::string> examples;  // command lines
  std::vector<Argument> flags;        // of its own; those of the program count for every verb, too
  std::vector<Argument> places;
  std::vector<Command> verbs;

  std::string name() const { return words.substr(words.rfind(' ') + 1); }
};

Command describe(const CLI::App& program);

// The command and all verbs below it, each before its own verbs.
std::vector<const Command*> with_verbs(const Command& command);

}  // namespace millrace::cli
