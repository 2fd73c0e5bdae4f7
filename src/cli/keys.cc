// millrace keys: access keys and what they may do.
#include "node/keys.h"
#include "cli/common.h"
#include "cli/copying.h"
#include "cli/node_flags.h"
#include "node/node.h"

#include <sys/stat.h>

namespace millrace::cli {

namespace {

struct KeyFlags {
  NodeFlags node;
  std::vector<std::string> grants;
  bool admin = false;
  std::string note;
  std::string access_key;
};

Result<std::string> key_path(const KeyFlags& flags) {
  node::Config config;
  Settings settings;
  MR_TRY(flags.node.load(config, settings));
  if (::mkdir(config.data.c_str(), 0700) != 0 && errno != EEXIST)
    return make_system_error(errno, "making " + config.data);
  return node::key_file_path(config.data);
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
  const std::string path = MR_TRY(key_path(flags));
  gateway::Key key = gateway::make_key();
  key.admin = flags.admin;
  key.note = flags.note;
  for (const std::string& text : flags.grants) key.grants.push_back(MR_TRY(gateway::parse_grant(text)));
  if (!key.admin && key.grants.empty()) {
    return make_error(Code::kInvalid, "a key without rights opens nothing")
        .with_hint("--bucket train:read-write, --bucket '*:read' or --admin");
  }
  if (shell.dry_run) {
    say_step(shell, "make a key with the rights", rights_text(key), path);
    return {};
  }
  const auto add = [&key](gateway::KeyRing& ring) -> Status {
    ring.add(key);
    return {};
  };
  MR_TRY(node::edit_keys(path, add));
  if (shell.json) {
    Shell::print(
        {{"access_key", key.access_key}, {"secret_key", key.secret_key}, {"rights", rights_text(key)}});
  } else {
    // The secret is data, for the one who asked; it is shown this once.
    fmt::print("MILLRACE_ACCESS_KEY={}\nMILLRACE_SECRET_KEY={}\n", key.access_key, key.secret_key);
    shell.say(fmt::format("rights: {}; a running node takes the key within a second", rights_text(key)));
  }
  return {};
}

Status list(Shell& shell, const KeyFlags& flags) {
  const std::string path = MR_TRY(key_path(flags));
  const gateway::KeyRing ring = MR_TRY(node::load_keys(path));
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
  const std::string path = MR_TRY(key_path(flags));
  const auto remove_key = [&flags](gateway::KeyRing& ring) -> Status {
    if (ring.remove(flags.access_key)) return {};
    return make_error(Code::kNotFound, "there is no key {}", flags.access_key)
        .with_hint("millrace keys list");
  };
  if (shell.dry_run) {
    gateway::KeyRing ring = MR_TRY(node::load_keys(path));
    MR_TRY(remove_key(ring));
    say_step(shell, "remove the key", flags.access_key);
    return {};
  }
  const gateway::KeyRing ring = MR_TRY(node::edit_keys(path, remove_key));
  shell.say(ring.empty() ? "removed; that was the last key: on loopback the node is open now" : "removed");
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
      "cluster'");
  add("list", "List the keys, without their secrets", list);
  const auto [remove_verb, remove_flags] = add("remove", "Remove a key", remove);
  remove_verb->add_option("access_key", remove_flags->access_key, "The access key")->required();
}

}  // namespace millrace::cli
