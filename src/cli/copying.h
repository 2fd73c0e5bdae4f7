// The common code of put, get, cp and sync: sources and a destination as people write them, and the report at
// the end.
#pragma once

#include <string>
#include <vector>

#include "cli/common.h"
#include "transfer/select.h"
#include "transfer/sync.h"

namespace millrace::cli {

inline constexpr unsigned kDefaultStreams =
    8;  // requests at a time: more than cores, they wait for the network

struct CopyFlags {
  std::vector<std::string> words;  // sources, then the destination
  bool recursive = false;
  unsigned jobs = kDefaultStreams;
  std::string content_type;
  std::vector<std::string> metadata;  // name=value

  void add_to(CLI::App& verb, Shell& shell);
  Result<transfer::TransferOptions> options(Shell& shell) const;
};

// Which side must be in a store.
enum class Direction { kUp, kDown, kAny };
Status run_copies(Shell& shell, const CopyFlags& flags, Direction direction);

// A line of a dry run: "would copy a.tar to mr://train/a.tar".
void say_step(const Shell& shell, const std::string& what, const std::string& name,
              const std::string& to = {});
Result<transfer::Place> find_place(Shell& shell, const std::string& word);
// Brace ranges are undone, globs matched against the listing.
Result<std::vector<transfer::Choice>> choose(Shell& shell, const std::vector<std::string>& addresses,
                                             transfer::Recursion recursion);
// Uploads under way, by key: of a glob, of everything below a prefix, or of one key.
Result<std::vector<transfer::UploadSummary>> choose_uploads(const transfer::Location& location,
                                                            transfer::Recursion recursion);
Status report_copies(Shell& shell, const transfer::CopyReport& report, const Stopwatch& watch, Json more);

}  // namespace millrace::cli
