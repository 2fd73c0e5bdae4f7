// millrace rb: removes buckets.
#include "base/units.h"
#include "cli/copying.h"

namespace millrace::cli {

namespace {

struct RbFlags {
  std::vector<std::string> addresses;
  bool force = false;
};

Status run(Shell& shell, const RbFlags& flags) {
  transfer::Stores* stores = MR_TRY(shell.stores());
  for (const std::string& address : flags.addresses) {
    const transfer::Location location = MR_TRY(stores->find(address));
    if (location.bucket.empty() || !location.key.empty())
      return make_error(Code::kInvalid, "{} is not the name of a bucket", address)
          .with_hint("millrace rm -r removes what is below a prefix");
    uint64_t removed = 0;
    if (flags.force) {
      std::vector<std::string> keys;
      MR_TRY(transfer::list_objects(location, transfer::Depth::kAll, [&](transfer::Listing& page) -> Status {
        for (transfer::ObjectSummary& object : page.objects) keys.push_back(std::move(object.key));
        return {};
      }));
      if (!shell.dry_run) MR_TRY(transfer::remove_all({location, ""}, keys));
      for (const std::string& key : keys) {
        if (shell.dry_run) say_step(shell, "remove", location.with_key(key).text());
      }
      removed = keys.size();
    }
    if (shell.dry_run) {
      say_step(shell, "remove", location.text());
      continue;
    }
    auto done = transfer::remove_bucket(location);
    if (!done && done.error().code() == Code::kExists)
      return done.take_error().with_hint("the bucket is not empty: --force removes its objects too");
    MR_TRY(std::move(done));
    if (shell.json) Shell::print({{"bucket", location.bucket}, {"removed", removed}});
    if (!shell.json)
      shell.say(fmt::format("removed {} and {} objects", location.text(), format_count(removed)));
  }
  return {};
}

}  // namespace

void add_rb(CLI::App& app, Shell& shell) {
  CLI::App* verb = app.add_subcommand("rb", "Remove buckets");
  verb->fallthrough();
  auto flags = std::make_shared<RbFlags>();
  verb->add_option("buckets", flags->addresses, "Addresses of buckets")->required()->type_name("URL");
  verb->add_flag("--force", flags->force, "And all objects in them");
  add_dry_run(*verb, shell);
  verb->footer("Example:\n  millrace rb --force mr://scratch");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
