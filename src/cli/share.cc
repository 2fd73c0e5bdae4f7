// millrace share: makes links to objects for people and programs without a key.
#include "transfer/share.h"
#include "base/clock.h"
#include "base/units.h"
#include "cli/copying.h"

namespace millrace::cli {

namespace {

struct ShareFlags {
  std::vector<std::string> addresses;
  std::string expires = "1h";
  bool put = false;
};

// What is to be written need not be there, so nothing is listed for it.
Result<std::vector<transfer::Location>> objects_of(Shell& shell, const ShareFlags& flags) {
  std::vector<transfer::Location> objects;
  if (flags.put) {
    transfer::Stores* stores = MR_TRY(shell.stores());
    for (const std::string& address : flags.addresses) objects.push_back(MR_TRY(stores->find(address)));
    return objects;
  }
  for (transfer::Choice& choice : MR_TRY(choose(shell, flags.addresses, transfer::Recursion::kNo)))
    objects.push_back(std::move(choice.location));
  return objects;
}

Status run(Shell& shell, const ShareFlags& flags) {
  transfer::ShareOptions options;
  options.right = flags.put ? transfer::ShareOptions::Right::kWrite : transfer::ShareOptions::Right::kRead;
  options.expires_seconds = MR_TRY(parse_seconds(flags.expires).within("--expires"));
  const int64_t now = wall_ms();
  for (const transfer::Location& object : MR_TRY(objects_of(shell, flags))) {
    const std::string link = MR_TRY(transfer::make_link(object, options, now));
    if (shell.json) {
      Shell::print(
          {{"url", object.text()},
           {"method", flags.put ? "PUT" : "GET"},
           {"link", link},
           {"expires", format_iso_date(now + static_cast<int64_t>(options.expires_seconds) * 1000)}});
    } else {
      fmt::print("{}\n", link);
    }
  }
  return {};
}

}  // namespace

void add_share(CLI::App& app, Shell& shell) {
  CLI::App* verb = app.add_subcommand("share", "Make links that need no key, for a while");
  verb->fallthrough();
  auto flags = std::make_shared<ShareFlags>();
  verb->add_option("objects", flags->addresses, "Addresses, with ranges and globs")
      ->required()
      ->type_name("URL");
  verb->add_option("--expires", flags->expires, "How long the links are good: 30m, 12h, at most 7d")
      ->type_name("TIME")
      ->capture_default_str();
  verb->add_flag("--put", flags->put, "Links to write these objects, by PUT, instead of to read them");
  verb->footer(
      "Whoever has a link has the right, until it expires or the key that signed it is removed.\n\n"
      "Examples:\n"
      "  millrace share mr://train/train-000000.tar --expires 1d\n"
      "  curl -T results.tar \"$(millrace share --put mr://inbox/results.tar --expires 30m)\"\n"
      "  millrace share 'mr://train/train-{000000..000127}.tar' > links.txt");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
