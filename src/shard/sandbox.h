// A sandbox around a command that somebody else gave: no network, no files but those it needs, no secrets.
//
// Bubblewrap makes it: a command sees the system's programs and libraries, what is listed in `readable`, and
// one writable directory. Its environment holds PATH, HOME, TMPDIR and LANG, and what `variables` adds. Pure:
// this makes the words to start; shard/command.h starts them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace millrace::shard {

// What every sandbox begins with: the words of bubblewrap for no network, no other processes, no rights, and
// the system's programs and libraries, read-only. More words of bubblewrap may follow.
std::vector<std::string> confinement_words();

enum class Confinement {
  kBubblewrap,
  kNone,  // only the environment is made anew
};
Result<Confinement> parse_confinement(std::string_view text);  // "bwrap", "none"

struct Sandbox {
  Confinement confinement = Confinement::kBubblewrap;
  std::string directory;                        // where the command runs, writable
  std::vector<std::string> readable;            // files and directories, at the same paths
  std::vector<std::string> variables;           // NAME=value
  uint64_t address_space = uint64_t{64} << 30;  // most bytes that a process may map
};

// The words that run `words` in the sandbox.
std::vector<std::string> sandboxed(const Sandbox& sandbox, const std::vector<std::string>& words);

// kUnsupported where this machine cannot make one, with what to do about it.
Status check_confinement(Confinement confinement);

}  // namespace millrace::shard
