// run_filter: a command between two streams, such as a tar in and a tar out.
//
// One thread writes to the command while the caller's reads from it, so that neither waits for the other. A
// command may leave input unread; what counts is its exit code. Blocks until the command has ended; where
// something fails the command is ended first.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tar/window.h"
#include "tar/writer.h"

namespace millrace::shard {

struct Filter {
  std::vector<std::string> words;
  std::string directory;  // where it runs; empty: here
  // What it reads; called on a thread of its own.
  std::function<Status(tar::ByteSink&)> feed;
  // What it writes. Output that is left unread makes the command wait, and then fail.
  std::function<Status(tar::ByteSource&)> take;
};

Status run_filter(const Filter& filter);

// Everything from one to the other.
Status copy_bytes(tar::ByteSource& from, const std::function<Status(std::string_view)>& to);

}  // namespace millrace::shard
