// main: builds the parser, runs the verb, and turns errors into messages and exit codes.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "cli/colour.h"
#include "cli/common.h"
#include "cli/shell.h"
#include "cli/verbs.h"

namespace {

using millrace::Error;
using millrace::cli::Shell;

int complain(const Error& error) {
  // Messages quote names from archives; those must not drive the terminal.
  using millrace::cli::Colour, millrace::cli::Stream, millrace::cli::paint;
  fmt::print(stderr, "{} {}\n", paint(Stream::kError, Colour::kRed, "millrace:"),
             millrace::printable(error.message()));
  if (!error.hint().empty()) fmt::print(stderr, "  try: {}\n", millrace::printable(error.hint()));
  return millrace::exit_code(error.code());
}

void add_verbs(CLI::App& app, Shell& shell) {
  using namespace millrace::cli;
  app.require_subcommand(1);
  add_up(app, shell);
  add_alias(app, shell);
  add_config(app, shell);
  add_keys(app, shell);
  add_bucket(app, shell);
  add_drives(app, shell);
  add_fsck(app, shell);
  add_put(app, shell);
  add_get(app, shell);
  add_load(app, shell);
  add_plan(app, shell);
  add_pls(app, shell);
  add_ls(app, shell);
  add_cat(app, shell);
  add_stat(app, shell);
  add_du(app, shell);
  add_cp(app, shell);
  add_sync(app, shell);
  add_rm(app, shell);
  add_share(app, shell);
  add_mb(app, shell);
  add_rb(app, shell);
  add_bench(app, shell);
  add_shard(app, shell);
  CLI::App* tar = app.add_subcommand("tar", "Look at, change, check and take apart tar shards");
  tar->require_subcommand(1);
  tar->fallthrough();
  add_tar_ls(*tar, shell);
  add_tar_stat(*tar, shell);
  add_tar_cat(*tar, shell);
  add_tar_split(*tar, shell);
  add_tar_merge(*tar, shell);
  add_tar_sort(*tar, shell);
  add_tar_shuffle(*tar, shell);
  add_tar_reshard(*tar, shell);
  add_tar_map(*tar, shell);
  add_tar_index(*tar, shell);
  add_tar_verify(*tar, shell);
  add_tar_extract(*tar, shell);
}

// The parser of options takes -1 for the largest number there is.
void refuse_negative_counts(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_type_name().starts_with("UINT")) option->check(CLI::NonNegativeNumber);
  }
  for (CLI::App* verb : app.get_subcommands([](CLI::App*) { return true; })) refuse_negative_counts(*verb);
}

// Words that may be addresses may begin with an alias. Which options take such words is told by the name of
// their type: URL where only addresses are taken, the others also take files.
void resolve_aliases(CLI::App& app, Shell& shell) {
  constexpr std::string_view kAlsoFiles[] = {"SHARD", "SOURCE... DEST", "FROM TO", "OUTPUT"};
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    const bool also_files = std::ranges::find(kAlsoFiles, type) != std::end(kAlsoFiles);
    if (type != "URL" && !also_files) continue;
    const auto names = also_files ? Shell::Names::kAlsoFiles : Shell::Names::kAddresses;
    option->transform([&shell, names](const std::string& word) {
      auto resolved = shell.resolve(word, names);
      if (!resolved)
        throw CLI::ValidationError(
            fmt::format("{}\n  try: {}", resolved.error().message(), resolved.error().hint()));
      return resolved.take();
    });
  }
  for (CLI::App* verb : app.get_subcommands([](CLI::App*) { return true; })) resolve_aliases(*verb, shell);
}

int run(int argc, char** argv) {
  const std::string_view called(argv[0]);
  const bool as_tarshards = called.substr(called.rfind('/') + 1) == "tarshards";
  CLI::App app(
      as_tarshards ? "Cut a tar stream into shards" : "Millrace: training data from drives to batches",
      as_tarshards ? "tarshards" : "millrace");
  app.set_version_flag("--version", "millrace " MILLRACE_VERSION);
  Shell shell;
  app.add_flag("--json", shell.json, "Results as JSON on standard output");
  app.add_flag("-q,--quiet", shell.quiet, "Say nothing but errors and warnings");
  app.add_flag("-v,--verbose", shell.verbose, "Say more of what is done");
  app.add_option("--ca-file", shell.ca_file, "Certificates to trust, PEM (default: the system's)")
      ->type_name("FILE");
  app.add_flag("--insecure-tls", shell.insecure,
               "Trust any certificate: for a self-signed server of your own");
  if (as_tarshards) {
    millrace::cli::add_tarshards(app, shell);
  } else {
    add_verbs(app, shell);
  }
  refuse_negative_counts(app);
  resolve_aliases(app, shell);
  // What follows -- after `tar map` is a command of its own, options and all.
  std::vector<std::string> words(argv + 1, argv + argc);
  const auto dashes = std::find(words.begin(), words.end(), "--");
  if (std::find(words.begin(), dashes, "map") != dashes && dashes != words.end()) {
    shell.trailing.assign(dashes + 1, words.end());
    words.erase(dashes, words.end());
  }
  const bool wants_help = !as_tarshards && !words.empty() && words.front() == "help";
  if (wants_help) words.erase(words.begin());
  const auto known = millrace::cli::check_verb(app, words);
  if (!known) return complain(known.error());
  if (wants_help) words.push_back("--help");
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    app.parse(words);
  } catch (const CLI::ParseError& failure) {
    const int code = app.exit(failure);
    return code == 0 ? 0 : 2;
  }
  auto done = shell.action();
  if (!done) return complain(done.error());
  if (std::fflush(stdout) != 0)
    return complain(millrace::make_system_error(errno, "writing standard output"));
  return 0;
}

// Where one of the first three descriptors is closed, a file that is opened later would take its place, and
// what is said on standard error would end up in a shard.
void fill_standard_descriptors() {
  while (true) {
    const int descriptor = ::open("/dev/null", O_RDWR);
    if (descriptor > STDERR_FILENO) ::close(descriptor);
    if (descriptor < 0 || descriptor > STDERR_FILENO) return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_descriptors();
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "millrace: out of memory\n");
  } catch (const std::exception& failure) {
    fmt::print(stderr, "millrace: {}\n", failure.what());
  }
  return 1;
}
