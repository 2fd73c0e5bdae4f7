// millrace alias: short names for stores, with their keys.
#include <algorithm>
#include <iostream>

#include "cli/common.h"
#include "transfer/aliases.h"

namespace millrace::cli {

namespace {

struct AliasFlags {
  std::string name;
  std::string endpoint;
  std::string access_key;
  std::string secret_key;
};

using transfer::Alias;

Status set(Shell& shell, AliasFlags flags) {
  std::optional<net::Credentials> keys;
  if (!flags.access_key.empty()) {
    // A secret on the command line is seen by everyone who lists processes.
    if (flags.secret_key.empty() && !std::getline(std::cin, flags.secret_key))
      return make_error(Code::kInvalid, "the secret key of {} is missing", flags.access_key)
          .with_hint("give it behind the access key, or on standard input");
    keys = net::Credentials{flags.access_key, flags.secret_key, "", "us-east-1"};
  }
  Alias made = MR_TRY(transfer::make_alias(flags.name, flags.endpoint, std::move(keys)));
  std::vector<Alias> aliases = MR_TRY(transfer::read_aliases());
  std::erase_if(aliases, [&](const Alias& one) { return one.name == made.name; });
  const std::string said = fmt::format("{} is {}: millrace ls {}", made.name, made.endpoint, made.name);
  aliases.push_back(std::move(made));
  if (shell.dry_run) {
    shell.say("would write to " + transfer::aliases_path() + ": " + said);
    return {};
  }
  MR_TRY(transfer::write_aliases(aliases));
  shell.say(said);
  return {};
}

Status list(Shell& shell, const AliasFlags&) {
  for (const Alias& alias : MR_TRY(transfer::read_aliases())) {
    const std::string key = alias.credentials ? alias.credentials->access_key : "";
    if (shell.json)
      Shell::print({{"alias", alias.name}, {"endpoint", alias.endpoint}, {"access_key", key}});
    else
      fmt::print("{}  {}  {}\n", alias.name, alias.endpoint, key.empty() ? "no keys" : "key " + key);
  }
  return {};
}

Status remove(Shell& shell, const AliasFlags& flags) {
  std::vector<Alias> aliases = MR_TRY(transfer::read_aliases());
  if (std::erase_if(aliases, [&](const Alias& one) { return one.name == flags.name; }) == 0)
    return make_error(Code::kNotFound, "there is no alias {}", flags.name).with_hint("millrace alias list");
  if (!shell.dry_run) MR_TRY(transfer::write_aliases(aliases));
  shell.say(fmt::format("{} {}", shell.dry_run ? "would remove" : "removed", flags.name));
  return {};
}

}  // namespace

void add_alias(CLI::App& app, Shell& shell) {
  CLI::App* alias =
      app.add_subcommand("alias", "Short names for stores: prod/bucket/key instead of an address");
  alias->require_subcommand(1);
  alias->fallthrough();
  const auto add = [&](const std::string& name, const std::string& help, auto work) {
    CLI::App* verb = alias->add_subcommand(name, help);
    verb->fallthrough();
    auto flags = std::make_shared<AliasFlags>();
    if (name != "list") {
      verb->add_option("name", flags->name, "The alias")->required();
      add_dry_run(*verb, shell);
    }
    verb->callback(
        [&shell, flags, work] { shell.action = [&shell, flags, work] { return work(shell, *flags); }; });
    return std::pair(verb, flags);
  };
  const auto [set_verb, set_flags] = add("set", "Make or change an alias", set);
  set_verb->add_option("endpoint", set_flags->endpoint, "The store: scheme, host and port")
      ->required()
      ->type_name("URL");
  set_verb->add_option("access_key", set_flags->access_key,
                       "Its access key (none: MILLRACE_ACCESS_KEY and MILLRACE_SECRET_KEY are used)");
  set_verb->add_option("secret_key", set_flags->secret_key,
                       "Its secret key (default: read from standard input)");
  set_verb->footer(
      "Aliases are kept in ~/.config/millrace/aliases, readable to you alone. Where a file or directory has "
      "the\n"
      "name of an alias, write ./NAME for the file.\n\n"
      "Examples:\n"
      "  millrace alias set prod https://store:9400\n"
      "  millrace alias set prod https://store:9400 ACCESSKEY < secret.txt\n"
      "  millrace ls prod/train/\n"
      "  millrace sync shards prod/train/shards");
  add("list", "Show the aliases, without secrets", list).first->footer("Example:\n  millrace alias list");
  add("remove", "Forget an alias", remove).first->footer("Example:\n  millrace alias remove prod");
}

}  // namespace millrace::cli
