// Starts the nodes, waits for each to say that it serves, hands signals on, and waits for the nodes' ends.
#include "cli/playground.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "net/server.h"

namespace millrace::cli {

namespace {

struct Player {
  unsigned number = 0;
  std::string url;
  std::string data;
  std::vector<std::string> words;  // its command line
  pid_t process = 0;               // 0: has ended
  File output;                     // closed once it serves or has ended
  bool serves = false;
};

// In the child, between fork and exec: only what is safe there.
[[noreturn]] void become(const std::vector<char*>& arguments, int output, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  // The parent may have ended before that call.
  if (::getppid() != parent) ::_exit(1);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(output, STDOUT_FILENO);
  ::execv("/proc/self/exe", arguments.data());
  ::_exit(127);
}

Status start_player(Player& player) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return make_system_error(errno, "making a pipe");
  player.output = File(ends[0], player.url);
  const File theirs(ends[1], player.url);
  std::vector<char*> arguments;
  for (std::string& word : player.words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return make_system_error(errno, "starting a node");
  if (child == 0) become(arguments, theirs.descriptor(), parent);
  player.process = child;
  return {};
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return fmt::format("signal {}", WTERMSIG(status));
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

class Playground {
 public:
  Playground(Shell& shell, std::vector<Player> players) : shell_(shell), players_(std::move(players)) {}

  Status run(const std::string& data) {
    data_ = data;
    signals_ = MR_TRY(take_signals());
    start_next();
    while (std::ranges::any_of(players_, [](const Player& player) { return player.process != 0; })) watch();
    if (problem_) return std::move(*problem_);
    if (!stopping_)
      return make_error(Code::kUnavailable, "no node is left")
          .with_hint("start them again: what they acknowledged is on their drives");
    return {};
  }

 private:
  // Signals wait in a descriptor, so that one poll sees them and the nodes' words alike.
  static Result<File> take_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&signals, signal);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    const int descriptor = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (descriptor < 0) return make_system_error(errno, "waiting for signals");
    return File(descriptor, "signals");
  }

  // One after the other: so the nodes' numbers are in the order of their ports.
  void start_next() {
    if (stopping_ || started_ == players_.size()) return;
    Status started = start_player(players_[started_++]);
    if (!started) fail(started.take_error());
  }

  void watch() {
    std::vector<pollfd> polled = {{signals_.descriptor(), POLLIN, 0}};
    std::vector<Player*> speakers;
    for (Player& player : players_) {
      if (!player.output.is_open()) continue;
      polled.push_back({player.output.descriptor(), POLLIN, 0});
      speakers.push_back(&player);
    }
    // A poll that is interrupted looked at nothing: the next one does.
    if (::poll(polled.data(), polled.size(), -1) < 0) return;
    for (size_t i = 0; i < speakers.size(); ++i) {
      if (polled[i + 1].revents != 0) hear(*speakers[i]);
    }
    if (polled[0].revents != 0) take_signal();
  }

  // A node says one line, when it serves. One that ended without it is reaped by its signal.
  void hear(Player& player) {
    std::array<std::byte, 4096> words{};
    const auto count = player.output.read_some(words);
    player.output = File();
    if (!count || *count == 0) return;
    player.serves = true;
    start_next();
    const bool all = std::ranges::all_of(players_, [](const Player& one) { return one.serves; });
    if (all && !stopping_) welcome();
  }

  void take_signal() {
    signalfd_siginfo taken{};
    while (::read(signals_.descriptor(), &taken, sizeof taken) == sizeof taken) {
      if (taken.ssi_signo == SIGCHLD) continue;
      stopping_ = true;
      shell_.log().info("stopping all nodes");
      stop_all();
    }
    // One signal may stand for several ends.
    for (Player& player : players_) reap(player);
  }

  void reap(Player& player) {
    int status = 0;
    if (player.process == 0 || ::waitpid(player.process, &status, WNOHANG) != player.process) return;
    player.process = 0;
    const bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (stopping_ && clean) return;
    const std::string name = fmt::format("node {} at {}", player.number, player.url);
    if (!player.serves && !stopping_) {
      fail(make_error(Code::kUnavailable, "{} cannot start ({})", name, how_it_ended(status))
               .with_hint("its own message stands above"));
    } else if (stopping_) {
      fail(make_error(Code::kUnavailable, "{} did not stop cleanly ({})", name, how_it_ended(status)));
    } else {
      shell_.log().warn("a node ended; the others go on", "node", player.url, "how", how_it_ended(status));
    }
  }

  // The first problem is the one to tell.
  void fail(Error error) {
    if (!problem_) problem_ = std::move(error);
    stopping_ = true;
    stop_all();
  }

  void stop_all() {
    for (const Player& player : players_) {
      if (player.process != 0) ::kill(player.process, SIGTERM);
    }
  }

  void welcome() {
    if (shell_.json) {
      Json nodes = Json::array();
      for (const Player& player : players_)
        nodes.push_back({{"url", player.url}, {"pid", player.process}, {"data", player.data}});
      Shell::print({{"nodes", nodes}, {"registry", data_ + "/registry"}});
      std::fflush(stdout);
      return;
    }
    shell_.say(fmt::format("{} nodes serve as one cluster (data in {})", players_.size(), data_));
    for (const Player& player : players_)
      shell_.say(fmt::format("  {}  process {}", player.url, player.process));
    shell_.say(fmt::format(
        "try:\n  millrace mb {0}/train --redundancy copies={1}\n  millrace put shard.tar {0}/train/\n"
        "  kill -9 {2}\n  millrace get {3}/train/shard.tar back.tar\n  millrace cluster status {3}",
        players_[0].url, std::min<size_t>(3, players_.size()), players_[0].process, players_[1].url));
  }

  Shell& shell_;
  std::vector<Player> players_;
  std::string data_;
  File signals_;
  size_t started_ = 0;
  bool stopping_ = false;
  std::optional<Error> problem_;
};

// What each node must have for itself.
bool is_own(std::string_view setting) {
  constexpr std::string_view kOwn[] = {"data", "listen", "registry"};
  return std::ranges::find(kOwn, setting) != std::end(kOwn);
}

Status check(const node::Config& config, const net::ListenAddress& listen, unsigned nodes) {
  if (!config.drives.empty() || !config.registry.empty() || !config.advertise.empty())
    return make_error(Code::kInvalid, "--nodes gives each node its own data and one registry for all")
        .with_hint("leave out drives, registry and advertise; or start each node by itself with --registry");
  if (!listen.is_loopback())
    return make_error(Code::kInvalid, "--nodes is a playground on loopback, and {} is not", listen.text())
        .with_hint("start each node by itself with --registry");
  if (listen.port == 0 || listen.port + nodes - 1 > 65535)
    return make_error(Code::kInvalid, "{} nodes need as many ports from {} on", nodes, listen.port)
        .with_hint("--listen 127.0.0.1:9400 takes 9400 and the next ones");
  return {};
}

}  // namespace

Status run_playground(Shell& shell, const NodeFlags& flags, unsigned nodes) {
  shell.stamps = true;
  node::Config config;
  Settings settings;
  MR_TRY(flags.load(config, settings));
  net::ListenAddress listen = MR_TRY(net::parse_listen_address(config.listen));
  MR_TRY(check(config, listen, nodes));
  if (::mkdir(config.data.c_str(), 0700) != 0 && errno != EEXIST)
    return make_system_error(errno, "making " + config.data);
  std::vector<std::string> common = {"millrace", "--json", shell.verbose ? "--verbose" : "--quiet", "up"};
  if (!flags.file.empty()) common.insert(common.end(), {"--config", flags.file});
  for (const auto& [name, value] : flags.set) {
    if (!is_own(name)) common.insert(common.end(), {"--set", name + "=" + value});
  }
  std::vector<Player> players(nodes);
  for (unsigned i = 0; i < nodes; ++i, ++listen.port) {
    Player& player = players[i];
    player.number = i + 1;
    player.url = fmt::format("http://{}", listen.text());
    player.data = fmt::format("{}/node{}", config.data, i + 1);
    player.words = common;
    player.words.insert(player.words.end(), {"--data", player.data, "--listen", listen.text(), "--registry",
                                             config.data + "/registry"});
  }
  return Playground(shell, std::move(players)).run(config.data);
}

}  // namespace millrace::cli
