// millrace keys: access keys and what they may do.
#include "cli/common.h"
#include "cli/copying.h"
#include "cli/key_place.h"
#include "cli/node_flags.h"
#include "node/node.h"

namespace millrace::cli {

namespace {

struct KeyFlags {
  NodeFlags node;
  std::vector<std::string> grants;
  bool admin = false;
  std::string note;
  std::string access_key;
};

Result<KeyPlace> find_place(const KeyFlags& flags) {
  node::Config config;
  Settings settings;
  MR_TRY(flags.node.load(config, settings));
  return KeyPlace::find(config);
}

// When the change is in force.
std::string when_text(const KeyPlace& place, const KeyPlace::Edited& edited) {
  if (!place.is_cluster()) return "a running node knows it within a second";
  if (edited.waiting.empty()) return "every node that serves knows it";
  std::string nodes;
  for (const std::string& address : edited.waiting) nodes += " " + address;
  return "these nodes did not say that they know it, and may not yet:" + nodes;
}

std::string rights_text(const gateway::Key& key) {
  if (key.admin) return "admin";
  std::string text;
  for (const gateway::Grant& grant : key.grants) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", grant.bucket,
                        grant.read && grant.write ? "read-write"
                        : grant.read              ? "read"
                                                  : "write");
  }
  return text;
}

Status create(Shell& shell, const KeyFlags& flags) {
  const KeyPlace place = MR_TRY(find_place(flags));
  gateway::Key key = gateway::make_key();
  key.admin = flags.admin;
  key.note = flags.note;
  for (const std::string& text : flags.grants) key.grants.push_back(MR_TRY(gateway::parse_grant(text)));
  if (!key.admin && key.grants.empty()) {
    return make_error(Code::kInvalid, "a key without rights opens nothing")
        .with_hint("--bucket train:read-write, --bucket '*:read' or --admin");
  }
  if (shell.dry_run) {
    say_step(shell, "make a key with the rights", rights_text(key), place.text());
    return {};
  }
  const auto add = [&key](gateway::KeyRing& ring) -> Status {
    ring.add(key);
    return {};
  };
  const KeyPlace::Edited edited = MR_TRY(place.edit(add));
  if (shell.json) {
    Shell::print(
        {{"access_key", key.access_key}, {"secret_key", key.secret_key}, {"rights", rights_text(key)}});
  } else {
    // The secret is data, for the one who asked; it is shown this once.
    fmt::print("MILLRACE_ACCESS_KEY={}\nMILLRACE_SECRET_KEY={}\n", key.access_key, key.secret_key);
    shell.say(fmt::format("rights: {}; {}", rights_text(key), when_text(place, edited)));
  }
  return {};
}

Status list(Shell& shell, const KeyFlags& flags) {
  const KeyPlace place = MR_TRY(find_place(flags));
  const gateway::KeyRing ring = MR_TRY(place.load());
  Json json = Json::array();
  for (const gateway::Key& key : ring.keys()) {
    if (shell.json)
      json.push_back({{"access_key", key.access_key}, {"rights", rights_text(key)}, {"note", key.note}});
    else
      fmt::print("{}  {}  {}\n", key.access_key, rights_text(key), key.note);
  }
  if (shell.json) Shell::print({{"keys", json}});
  return {};
}

Status remove(Shell& shell, const KeyFlags& flags) {
  const KeyPlace place = MR_TRY(find_place(flags));
  const auto remove_key = [&flags](gateway::KeyRing& ring) -> Status {
    if (ring.remove(flags.access_key)) return {};
    return make_error(Code::kNotFound, "there is no key {}", flags.access_key)
        .with_hint("millrace keys list");
  };
  if (shell.dry_run) {
    gateway::KeyRing ring = MR_TRY(place.load());
    MR_TRY(remove_key(ring));
    say_step(shell, "remove the key", flags.access_key);
    return {};
  }
  const KeyPlace::Edited edited = MR_TRY(place.edit(remove_key));
  shell.say(fmt::format("removed; {}", when_text(place, edited)));
  if (edited.ring.empty()) shell.say("that was the last key: on loopback everyone may do everything now");
  return {};
}

}  // namespace

void add_keys(CLI::App& app, Shell& shell) {
  CLI::App* keys = app.add_subcommand("keys", "Access keys: who may read and write which buckets");
  keys->require_subcommand(1);
  keys->fallthrough();
  const auto add = [&](const std::string& name, const std::string& help,
                       Status (*work)(Shell&, const KeyFlags&)) {
    CLI::App* verb = keys->add_subcommand(name, help);
    verb->fallthrough();
    auto flags = std::make_shared<KeyFlags>();
    flags->node.add_to(*verb);
    if (name != "list") add_dry_run(*verb, shell);
    verb->callback(
        [&shell, flags, work] { shell.action = [&shell, flags, work] { return work(shell, *flags); }; });
    return std::pair(verb, flags);
  };
  const auto [create_verb, create_flags] = add("create", "Make a key and print it", create);
  create_verb->add_option(
      "--bucket", create_flags->grants,
      "BUCKET:read, BUCKET:write or BUCKET:read-write; * is every bucket; may be repeated");
  create_verb->add_flag("--admin", create_flags->admin, "May do everything, administration too");
  create_verb->add_option("--note", create_flags->note, "What the key is for");
  create_verb->footer(
      "Examples:\n  millrace keys create --admin\n  millrace keys create --bucket train:read --note 'GPU "
      "cluster'\n  millrace keys create --registry etcd://10.0.0.9:2379 --admin");
  add("list", "List the keys, without their secrets", list);
  const auto [remove_verb, remove_flags] = add("remove", "Remove a key", remove);
  remove_verb->add_option("access_key", remove_flags->access_key, "The access key")->required();
}

}  // namespace millrace::cli
