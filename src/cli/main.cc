// main: builds the parser, runs the verb, and turns errors into messages and exit codes.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "cli/colour.h"
#include "cli/program.h"
#include "cli/shell.h"
#include "cli/transform_agent.h"
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

int run(int argc, char** argv) {
  const std::string_view called(argv[0]);
  const bool as_tarshards = called.substr(called.rfind('/') + 1) == "tarshards";
  using millrace::cli::Program;
  Shell shell;
  const std::unique_ptr<CLI::App> program =
      millrace::cli::make_program(as_tarshards ? Program::kTarshards : Program::kMillrace, shell);
  CLI::App& app = *program;
  // What follows -- after `tar map` and `transform add` is a command of its own, options and all.
  std::vector<std::string> words(argv + 1, argv + argc);
  const auto dashes = std::find(words.begin(), words.end(), "--");
  const auto is_before = [&](const char* word) { return std::find(words.begin(), dashes, word) != dashes; };
  if ((is_before("map") || is_before("transform")) && dashes != words.end()) {
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
    if (millrace::cli::is_agent(argc, argv)) return millrace::cli::run_agent(argc, argv);
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "millrace: out of memory\n");
  } catch (const std::exception& failure) {
    fmt::print(stderr, "millrace: {}\n", failure.what());
  }
  return 1;
}
