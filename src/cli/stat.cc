// millrace stat: prints what a store knows about an object, or whether a bucket exists.
#include "base/text.h"
#include "base/units.h"
#include "cli/copying.h"

namespace millrace::cli {

namespace {

Status run(Shell& shell, const std::vector<std::string>& addresses) {
  for (const transfer::Choice& choice : MR_TRY(choose(shell, addresses, transfer::Recursion::kNo))) {
    const transfer::ObjectHead head = MR_TRY(transfer::get_head(choice.location));
    if (shell.json) {
      Json headers = Json::object();
      for (const auto& [name, value] : head.headers) headers[name] = value;
      Json line = {{"url", choice.location.text()}, {"etag", head.etag}, {"headers", std::move(headers)}};
      if (head.size) line["size"] = *head.size;
      Shell::print(line);
      continue;
    }
    fmt::print("{}\n", printable(choice.location.text()));
    if (head.size) fmt::print("  size: {} ({} bytes)\n", format_bytes(*head.size), *head.size);
    for (const auto& [name, value] : head.headers)
      fmt::print("  {}: {}\n", printable(name), printable(value));
  }
  return {};
}

}  // namespace

void add_stat(CLI::App& app, Shell& shell) {
  CLI::App* verb = app.add_subcommand("stat", "Show what a store knows about objects");
  verb->fallthrough();
  auto addresses = std::make_shared<std::vector<std::string>>();
  verb->add_option("objects", *addresses, "Addresses, with ranges and globs")->required()->type_name("URL");
  verb->footer("Example:\n  millrace stat mr://imagenet/train-000000.tar");
  verb->callback(
      [&shell, addresses] { shell.action = [&shell, addresses] { return run(shell, *addresses); }; });
}

}  // namespace millrace::cli
