// millrace du: counts objects and bytes below a prefix.
#include "base/text.h"
#include "base/units.h"
#include "cli/copying.h"
#include "shard/names.h"

namespace millrace::cli {

namespace {

Status sum_up(const transfer::Location& location, const Shell& shell) {
  if (location.bucket.empty()) return make_error(Code::kInvalid, "{} names no bucket", location.text());
  uint64_t bytes = 0;
  uint64_t objects = 0;
  const bool glob = transfer::has_glob(location.key);
  const std::string prefix = location.key.substr(0, location.key.find_first_of("*?["));
  MR_TRY(transfer::list_objects(location.with_key(prefix), transfer::Depth::kAll,
                                [&](transfer::Listing& page) -> Status {
                                  for (const transfer::ObjectSummary& object : page.objects) {
                                    if (glob && !transfer::matches_glob(object.key, location.key)) continue;
                                    bytes += object.size;
                                    ++objects;
                                  }
                                  return {};
                                }));
  if (objects == 0 && !location.key.empty())
    return make_error(Code::kNotFound, "nothing begins with {}", location.text());
  if (shell.json) {
    Shell::print({{"url", location.text()}, {"objects", objects}, {"bytes", bytes}});
  } else {
    fmt::print("{:>10}  {:>10} objects  {}\n", format_bytes(bytes), format_count(objects),
               printable(location.text()));
  }
  return {};
}

Status run(Shell& shell, const std::vector<std::string>& addresses) {
  transfer::Stores* stores = MR_TRY(shell.stores());
  for (const std::string& address : addresses) {
    for (const std::string& one : MR_TRY(shard::expand_braces(address))) {
      const transfer::Location location = MR_TRY(stores->find(one));
      MR_TRY(sum_up(location, shell));
    }
  }
  return {};
}

}  // namespace

void add_du(CLI::App& app, Shell& shell) {
  CLI::App* verb = app.add_subcommand("du", "Sum the sizes of objects");
  verb->fallthrough();
  auto addresses = std::make_shared<std::vector<std::string>>();
  verb->add_option("addresses", *addresses, "Buckets, prefixes or globs")->required()->type_name("URL");
  verb->footer("Examples:\n  millrace du mr://imagenet\n  millrace du 'mr://imagenet/train-*.tar'");
  verb->callback(
      [&shell, addresses] { shell.action = [&shell, addresses] { return run(shell, *addresses); }; });
}

}  // namespace millrace::cli
