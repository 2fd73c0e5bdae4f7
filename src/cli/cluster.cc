// millrace cluster: who belongs to a cluster and how it is, nodes that are to leave, tokens for new ones, and
// where an object lies.
#include "base/clock.h"
#include "base/units.h"
#include "cli/cluster_text.h"
#include "cli/common.h"
#include "cli/copying.h"
#include "cli/remote.h"
#include "net/url.h"

namespace millrace::cli {

namespace {

struct ClusterFlags {
  std::string endpoint;
  std::string node;
  std::string valid = "1h";
};

void show(const Shell& shell, const Json& cluster) {
  if (shell.json)
    Shell::print(cluster);
  else
    fmt::print("{}", cluster_text(cluster, wall_ms()));
}

Status status(Shell& shell, const ClusterFlags& flags) {
  show(shell, MR_TRY(administer(shell, flags.endpoint, "GET", "cluster", Json())));
  return {};
}

Status change(Shell& shell, const ClusterFlags& flags, const std::string& action) {
  if (shell.dry_run) {
    say_step(shell, action + " the node", flags.node);
    return {};
  }
  show(shell, MR_TRY(administer(shell, flags.endpoint, "POST", "cluster",
                                {{"action", action}, {"node", flags.node}})));
  return {};
}

Status drain(Shell& shell, const ClusterFlags& flags) {
  return change(shell, flags, "drain");
}

Status remove(Shell& shell, const ClusterFlags& flags) {
  return change(shell, flags, "remove");
}

Status token(Shell& shell, const ClusterFlags& flags) {
  const uint64_t seconds = MR_TRY(parse_seconds(flags.valid).within("--valid"));
  if (shell.dry_run) {
    say_step(shell, "make a token for", flags.valid);
    return {};
  }
  const Json made = MR_TRY(administer(shell, flags.endpoint, "POST", "cluster",
                                      {{"action", "token"}, {"valid_seconds", seconds}}));
  if (shell.json) {
    Shell::print(made);
    return {};
  }
  // The token is data, for the one who asked; it is shown this once.
  fmt::print("{}\n", made.at("token").get<std::string>());
  shell.say(
      fmt::format("any number of nodes may join with it for {}: millrace up --registry etcd://… --join TOKEN",
                  flags.valid));
  return {};
}

Status where(Shell& shell, const ClusterFlags& flags) {
  transfer::Stores* stores = MR_TRY(shell.stores());
  const transfer::Location object = MR_TRY(stores->find(flags.endpoint));
  if (object.bucket.empty() || object.key.empty())
    return make_error(Code::kInvalid, "{} is not the address of an object", flags.endpoint)
        .with_hint("for example mr://train/train-000000.tar");
  NodeRequest request;
  request.what = "cluster/where";
  request.query = fmt::format("bucket={}&key={}", net::percent_encode(object.bucket, net::Encode::kAll),
                              net::percent_encode(object.key, net::Encode::kAll));
  const Json found = MR_TRY(administer(*object.store, request));
  if (shell.json)
    Shell::print(found);
  else
    fmt::print("{}", where_text(found));
  return {};
}

void add_endpoint(CLI::App& verb, ClusterFlags& flags) {
  verb.add_option("url", flags.endpoint,
                  "Any node of the cluster that runs; default MILLRACE_ENDPOINT or http://127.0.0.1:9400")
      ->type_name("URL");
}

void add_node(CLI::App& verb, ClusterFlags& flags, Shell& shell) {
  verb.add_option("node", flags.node, "Number or id of the node, as cluster status shows it")
      ->type_name("NODE")
      ->required();
  add_endpoint(verb, flags);
  add_dry_run(verb, shell);
}

}  // namespace

void add_cluster(CLI::App& app, Shell& shell) {
  CLI::App* cluster =
      app.add_subcommand("cluster", "Many nodes as one store: who is there, who leaves, what lies where");
  cluster->require_subcommand(1);
  cluster->fallthrough();
  const auto add = [&](const std::string& name, const std::string& help,
                       Status (*work)(Shell&, const ClusterFlags&)) {
    CLI::App* verb = cluster->add_subcommand(name, help);
    verb->fallthrough();
    auto flags = std::make_shared<ClusterFlags>();
    verb->callback(
        [&shell, flags, work] { shell.action = [&shell, flags, work] { return work(shell, *flags); }; });
    return std::pair(verb, flags);
  };
  const auto [status_verb, status_flags] =
      add("status", "Show the nodes, who leads, who is away, and what to do", status);
  add_endpoint(*status_verb, *status_flags);
  status_verb->footer(
      "Examples:\n  millrace cluster status\n  millrace --json cluster status http://10.0.0.2:9400");
  const auto [drain_verb, drain_flags] =
      add("drain", "Move what a node holds to others, and give it no new objects", drain);
  add_node(*drain_verb, *drain_flags, shell);
  drain_verb->footer("Example:\n  millrace cluster drain 3 http://10.0.0.1:9400");
  const auto [remove_verb, remove_flags] =
      add("remove",
          "Take a node that is stopped or drained out of the cluster for good; what it holds is given up",
          remove);
  add_node(*remove_verb, *remove_flags, shell);
  remove_verb->footer("Example:\n  millrace cluster remove 3 http://10.0.0.1:9400");
  const auto [token_verb, token_flags] =
      add("token", "Make a token that lets new nodes join a cluster with etcd", token);
  add_endpoint(*token_verb, *token_flags);
  token_verb->add_option("--valid", token_flags->valid, "How long: 30m, 1h, at most 24h")
      ->type_name("TIME")
      ->capture_default_str();
  add_dry_run(*token_verb, shell);
  token_verb->footer(
      "Example:\n  millrace cluster token http://10.0.0.1:9400 --valid 30m\n"
      "  millrace up --registry etcd://10.0.0.9:2379 --join TOKEN");
  const auto [where_verb, where_flags] =
      add("where", "Show which drives of which nodes hold the slices of an object", where);
  where_verb->add_option("object", where_flags->endpoint, "Address of an object")
      ->type_name("URL")
      ->required();
  where_verb->footer(
      "Examples:\n  millrace cluster where mr://train/train-000000.tar\n"
      "  millrace cluster where http://10.0.0.1:9400/train/train-000000.tar");
  add_cluster_verify(*cluster, shell);
}

}  // namespace millrace::cli
