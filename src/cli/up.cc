// millrace up: runs a node, or a playground of several, until it is told to stop. millrace config: prints the
// settings it would run with.
#include <csignal>
#include <cstdlib>

#include "base/text.h"
#include "base/units.h"
#include "cli/common.h"
#include "cli/node_flags.h"
#include "cli/playground.h"
#include "node/node.h"

namespace millrace::cli {

namespace {

// Taken by sigwait in the main thread; every other thread inherits the mask and is never interrupted.
sigset_t block_signals(const node::Config& config) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  // Without an audit it ends the node, as when its terminal goes.
  if (!config.audit.empty()) sigaddset(&signals, SIGHUP);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return signals;
}

void tell_drives(Shell& shell, node::Node& node) {
  for (const store::DriveStatus& drive : node.store().drives().status()) {
    if (drive.state == store::DriveState::kServing || drive.state == store::DriveState::kDraining) {
      shell.say(fmt::format("  drive {}: {} of {} free, {} objects{}", drive.path,
                            format_bytes(drive.free_bytes), format_bytes(drive.total_bytes),
                            format_count(drive.objects),
                            drive.state == store::DriveState::kDraining ? ", draining" : ""));
    } else {
      shell.log().warn("a drive does not serve", "drive", drive.path, "state",
                       store::drive_state_name(drive.state), "reason", drive.reason);
    }
  }
}

void welcome(Shell& shell, node::Node& node, const node::Config& config) {
  const std::string url = node.url();
  if (shell.json) {
    Shell::print({{"url", url}, {"node", node.store().node_id()}, {"data", config.data}});
    std::fflush(stdout);
    return;
  }
  shell.say(
      fmt::format("millrace serves at {} (node {}, data in {})", url, node.store().node_id(), config.data));
  tell_drives(shell, node);
  const std::string& certificate = node.self_signed();
  const std::string trust = certificate.empty() ? "" : fmt::format("--cacert {} ", certificate);
  if (!certificate.empty()) {
    shell.say(
        fmt::format("  self-signed certificate: curl --cacert {0}, aws --ca-bundle {0}, MILLRACE_CA_FILE={0}",
                    certificate));
  }
  if (node.is_open()) {
    shell.say("  open: no keys, so everyone who can connect may read and write");
    shell.say(
        fmt::format("try:\n  curl {1}-T shard.tar {0}/train/shard.tar\n  millrace ls {0}/train\n  aws "
                    "--endpoint-url {0} s3 ls s3://train",
                    url, trust));
  } else {
    shell.say(
        fmt::format("try:\n  export MILLRACE_ACCESS_KEY=… MILLRACE_SECRET_KEY=…\n  millrace mb {0}/train\n  "
                    "millrace put shard.tar {0}/train/",
                    url));
  }
}

Status run_up(Shell& shell, const NodeFlags& flags) {
  shell.stamps = true;
  node::Config config;
  Settings settings;
  MR_TRY(flags.load(config, settings));
  for (const DoubtfulVariable& variable : doubtful_variables(settings)) {
    shell.log().warn("an environment variable is not a setting", "variable", variable.name, "nearest",
                     variable.nearest);
  }
  const sigset_t signals = block_signals(config);
  auto node = MR_TRY(node::Node::start(config, shell.log()));
  welcome(shell, *node, config);
  int signal = SIGHUP;
  while (signal == SIGHUP) {
    ::sigwait(&signals, &signal);
    if (signal == SIGHUP) node->reopen_audit();
  }
  shell.log().info("stopping: requests under way may finish");
  const node::Node::Left left = node->drain(config.stop_seconds * 1000);
  if (left.of_clients > 0) shell.log().warn("stopped with requests under way", "requests", left.of_clients);
  // Their coroutines wait for answers that may never come; what they did not finish was not acknowledged.
  if (left.of_clients + left.of_nodes > 0) std::_Exit(left.of_clients > 0 ? 1 : 0);
  node.reset();
  shell.log().info("stopped");
  return {};
}

Status run_config(Shell& shell, const NodeFlags& flags) {
  node::Config config;
  Settings settings;
  MR_TRY(flags.load(config, settings));
  if (shell.json) {
    Json json = Json::object();
    for (const Settings::Option& option : settings.options()) {
      const std::vector<std::string> words = option.words();
      if (option.is_list)
        json[option.name] = words;
      else
        json[option.name] = words.front();
    }
    Shell::print(json);
    return {};
  }
  fmt::print("{}", settings.print());
  return {};
}

}  // namespace

void add_up(CLI::App& app, Shell& shell) {
  CLI::App* verb = app.add_subcommand("up", "Start a node: an object store over S3 and plain HTTP");
  verb->fallthrough();
  auto flags = std::make_shared<NodeFlags>();
  flags->add_to(*verb);
  auto nodes = std::make_shared<unsigned>(1);
  verb->add_option(
          "--nodes", *nodes,
          "A playground: so many nodes (2 to 16) of one cluster on loopback, at the ports from that of "
          "--listen on")
      ->check(CLI::Range(kLeastPlayers, kMostPlayers).description(""))
      ->type_name("N");
  verb->footer(
      "Examples:\n  millrace up\n  millrace up --drive /mnt/a --drive /mnt/b\n  millrace up --nodes 3\n"
      "  millrace keys create --admin && millrace up --listen 0.0.0.0:9400 --tls self-signed\n"
      "  millrace up --config /etc/millrace.toml --set read_window=16MiB\n"
      "  millrace up --audit /var/log/millrace/audit.log");
  verb->callback([&shell, flags, nodes] {
    shell.action = [&shell, flags, nodes] {
      return *nodes > 1 ? run_playground(shell, *flags, *nodes) : run_up(shell, *flags);
    };
  });
}

void add_config(CLI::App& app, Shell& shell) {
  CLI::App* verb =
      app.add_subcommand("config", "Print the settings of a node, each with a sentence and its default");
  verb->fallthrough();
  auto flags = std::make_shared<NodeFlags>();
  flags->add_to(*verb);
  verb->footer(
      "Examples:\n  millrace config > millrace.toml\n  millrace config --config millrace.toml --set "
      "cache=1GiB");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run_config(shell, *flags); }; });
}

}  // namespace millrace::cli
