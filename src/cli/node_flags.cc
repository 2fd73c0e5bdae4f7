// Adds the node's flags. Every setting can be given by its own name with --set; the usual ones have flags.
#include "cli/node_flags.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace millrace::cli {

namespace {

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

void NodeFlags::add_to(CLI::App& verb) {
  const auto setting = [this, &verb](const std::string& flag, const std::string& name,
                                     const std::string& help) {
    return verb.add_option_function<std::string>(
        flag, [this, name](const std::string& value) { set.emplace_back(name, value); }, help);
  };
  verb.add_option("--config", file, "TOML file with settings (millrace config prints one)")
      ->type_name("FILE");
  setting("--listen", "listen", "Address and port; default 127.0.0.1:9400");
  setting("--data", "data", "The node's own directory; default ./millrace-data")->type_name("DIR");
  verb.add_option("--drive", drives, "A directory that holds data, one per physical drive; may be repeated")
      ->type_name("DIR");
  setting("--registry", "registry", "Makes it a node of a cluster: a directory, or etcd://HOST:2379,…")
      ->type_name("DIR|URL");
  setting("--join", "join", "Token for a new node of a cluster with etcd")->type_name("TOKEN");
  setting("--zone", "zone", "Rack or room of the node; slices go to different ones")->type_name("NAME");
  setting("--tls", "tls", "self-signed: HTTPS with a certificate made for trials")->type_name("self-signed");
  setting("--tls-cert", "tls_cert", "Certificate chain (PEM)")->type_name("FILE");
  setting("--tls-key", "tls_key", "Private key (PEM)")->type_name("FILE");
  setting("--tls-ca", "tls_ca", "Who signed the certificates of the other nodes (PEM)")->type_name("FILE");
  verb.add_flag_function(
      "--insecure", [this](int64_t) { set.emplace_back("insecure", "true"); },
      "Serve everyone without keys, also beyond loopback");
  verb.add_flag_function(
      "--access-log", [this](int64_t) { set.emplace_back("access_log", "true"); }, "Log every request");
  setting("--audit", "audit",
          "Keep who did what to which object, a JSON object a line; SIGHUP opens the file anew")
      ->type_name("FILE|syslog");
  verb.add_option_function<std::vector<std::string>>(
      "--set",
      [this](const std::vector<std::string>& pairs) {
        for (const std::string& pair : pairs) {
          const size_t equals = pair.find('=');
          set.emplace_back(pair.substr(0, equals),
                           equals == std::string::npos ? "" : pair.substr(equals + 1));
        }
      },
      "Any setting: name=value; may be repeated");
}

Status NodeFlags::load(node::Config& config, Settings& settings) const {
  settings = config.settings();
  if (!file.empty()) MR_TRY(settings.load_file(file));
  MR_TRY(settings.load_environment());
  if (!drives.empty()) MR_TRY(settings.set_list("drives", drives, "command line"));
  for (const auto& [name, value] : set) MR_TRY(settings.set(name, value, "command line"));
  return config.check();
}

std::vector<DoubtfulVariable> doubtful_variables(const Settings& settings) {
  // Variables of the other verbs, of Python and of tests.
  const std::vector<std::string> others = {"endpoint",     "access_key", "secret_key",   "timeout",
                                           "patience",     "ca_file",    "insecure_tls", "allow_pipe",
                                           "allow_pickle", "mpi_module", "crash_at",     "fuzz_seconds"};
  std::vector<std::string> names;
  for (const Settings::Option& option : settings.options()) names.push_back(option.name);
  std::vector<DoubtfulVariable> doubts;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    if (!text.starts_with("MILLRACE_")) continue;
    const std::string_view given = text.substr(0, text.find('='));
    const std::string name = lower_case(given.substr(9));
    if (std::ranges::find(names, name) != names.end() || std::ranges::find(others, name) != others.end())
      continue;
    const std::string near = nearest_word(name, names);
    if (!near.empty()) doubts.push_back({std::string(given), "MILLRACE_" + upper(near)});
  }
  return doubts;
}

}  // namespace millrace::cli
