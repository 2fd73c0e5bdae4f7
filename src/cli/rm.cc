// millrace rm: objects go.
#include <map>

#include "base/units.h"
#include "cli/copying.h"

namespace millrace::cli {

namespace {

struct RmFlags {
  std::vector<std::string> addresses;
  bool recursive = false;
  bool missing_is_fine = false;
};

Status run(Shell& shell, const RmFlags& flags) {
  const auto recursion = flags.recursive ? transfer::Recursion::kYes : transfer::Recursion::kNo;
  auto chosen = choose(shell, flags.addresses, recursion);
  if (!chosen && flags.missing_is_fine && chosen.error().code() == Code::kNotFound) return {};
  std::vector<transfer::Choice> choices = MR_TRY(std::move(chosen));
  // S3 deletes what is not there without a word; a person who names one object wants to know.
  if (choices.size() == 1 && !flags.recursive && !flags.missing_is_fine)
    MR_TRY(transfer::get_head(choices.front().location));
  // By bucket, as many in one request as there may be.
  std::map<std::pair<transfer::Store*, std::string>, std::vector<std::string>> by_bucket;
  for (const transfer::Choice& choice : choices)
    by_bucket[{choice.location.store, choice.location.bucket}].push_back(choice.location.key);
  for (const auto& [bucket, keys] : by_bucket) {
    const transfer::Location root{bucket.first, bucket.second, "", bucket.first->url(bucket.second, "")};
    if (keys.size() == 1) {
      MR_TRY(transfer::remove_object(root.with_key(keys.front())));
    } else {
      MR_TRY(transfer::remove_all({root, ""}, keys));
    }
  }
  if (shell.json) {
    Shell::print({{"removed", choices.size()}});
  } else {
    shell.say(
        fmt::format("removed {} object{}", format_count(choices.size()), choices.size() == 1 ? "" : "s"));
  }
  return {};
}

}  // namespace

void add_rm(CLI::App& app, Shell& shell) {
  CLI::App* verb = app.add_subcommand("rm", "Remove objects");
  verb->fallthrough();
  auto flags = std::make_shared<RmFlags>();
  verb->add_option("objects", flags->addresses, "Addresses, with ranges and globs")
      ->required()
      ->type_name("URL");
  verb->add_flag("-r,--recursive", flags->recursive, "All that is below a prefix or in a bucket");
  verb->add_flag("-f,--force", flags->missing_is_fine, "Nothing to remove is not an error");
  verb->footer(
      "Examples:\n"
      "  millrace rm mr://imagenet/train-000000.tar\n"
      "  millrace rm 'mr://imagenet/tmp-*'\n"
      "  millrace rm -r mr://imagenet/old/");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
