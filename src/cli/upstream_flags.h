// The flags of millrace bucket that put a bucket in front of other storage, and the settings they make.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/shell.h"

namespace millrace::cli {

struct UpstreamFlags {
  std::string url;
  std::string endpoint;
  std::string keys_file;
  std::string write;
  std::string check;
  std::vector<std::string> pins;

  void add_to(CLI::App& verb);
  // What the node is told as "upstream"; null where no flag is given.
  Result<Json> settings(Shell& shell) const;
};

// The keys in a file such as ~/.aws/credentials, as settings of an upstream.
Result<Json> read_upstream_keys(std::string_view text, const std::string& file);

// The settings as they may be shown: what is secret is left out.
Json without_secrets(Json settings);
// "upstream=s3://bucket/prefix write=none check=never", with a blank in front; empty: no upstream.
std::string upstream_text(const Json& bucket);

}  // namespace millrace::cli
