// millrace cat: writes objects, one after the other, to standard output.
#include "cli/copying.h"

namespace millrace::cli {

namespace {

Status run(Shell& shell, const std::vector<std::string>& addresses) {
  if (shell.json) return make_error(Code::kInvalid, "cat writes the objects themselves, not JSON");
  for (transfer::Choice& choice : MR_TRY(choose(shell, addresses, transfer::Recursion::kNo))) {
    const transfer::Copy copy{
        {std::move(choice.location), ""}, {std::nullopt, std::string(transfer::kStandardStream)}, 0};
    MR_TRY(transfer::copy_one(copy, {}));
  }
  return {};
}

}  // namespace

void add_cat(CLI::App& app, Shell& shell) {
  CLI::App* verb = app.add_subcommand("cat", "Write objects to standard output");
  verb->fallthrough();
  auto addresses = std::make_shared<std::vector<std::string>>();
  verb->add_option("objects", *addresses, "Addresses, with ranges and globs")->required()->type_name("URL");
  verb->footer(
      "Examples:\n"
      "  millrace cat mr://imagenet/train-000000.tar | tar -t\n"
      "  millrace cat 'mr://logs/day-{01..31}.txt' | wc -l");
  verb->callback(
      [&shell, addresses] { shell.action = [&shell, addresses] { return run(shell, *addresses); }; });
}

}  // namespace millrace::cli
