// EtcdProcess: a real etcd for tests, on free ports of the loopback device, ended with the test.
//
// EtcdMembers starts several that form one cluster. A member that is killed and started again keeps its ports
// and its data. One thread.
#pragma once

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/file.h"
#include "base/testing/temporary_directory.h"
#include "cluster/testing/eventually.h"
#include "net/client.h"
#include "net/testing/loopback.h"

namespace millrace::testing {

inline constexpr const char* kEtcdProgram = "/usr/bin/etcd";
inline bool has_etcd() {
  return ::access(kEtcdProgram, X_OK) == 0;
}

// Held by a socket that listens to nobody, so that no other test gets the same one, until etcd needs it.
class FreePort {
 public:
  FreePort() {
    const int socket = make_socket();
    number_ = take_free_port(socket);
    held_ = File(socket, "port");
  }
  uint16_t number() const { return number_; }
  void let_go() { held_ = File(); }

 private:
  File held_;
  uint16_t number_ = 0;
};

class EtcdProcess {
 public:
  struct Place {
    std::string name;
    std::string directory;
    std::string scheme = "http";
    std::vector<std::string> more;  // flags
  };
  explicit EtcdProcess(Place place) : place_(std::move(place)) {}
  EtcdProcess(const EtcdProcess&) = delete;
  EtcdProcess& operator=(const EtcdProcess&) = delete;
  ~EtcdProcess() { kill(); }

  std::string peer() const {
    return place_.name + "=http://127.0.0.1:" + std::to_string(peer_port_.number());
  }
  std::string host() const { return "127.0.0.1:" + std::to_string(client_port_.number()); }
  uint16_t port() const { return client_port_.number(); }
  std::string url(const std::string& path) const { return place_.scheme + "://" + host() + path; }

  void start(const std::string& cluster) {
    client_port_.let_go();
    peer_port_.let_go();
    const std::string peer_url = "http://127.0.0.1:" + std::to_string(peer_port_.number());
    std::vector<std::string> words = {kEtcdProgram,
                                      "--name=" + place_.name,
                                      "--data-dir=" + place_.directory,
                                      "--listen-client-urls=" + url(""),
                                      "--advertise-client-urls=" + url(""),
                                      "--listen-peer-urls=" + peer_url,
                                      "--initial-advertise-peer-urls=" + peer_url,
                                      "--initial-cluster=" + cluster,
                                      "--logger=zap",
                                      "--log-outputs=" + place_.directory + ".log"};
    words.insert(words.end(), place_.more.begin(), place_.more.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = ::fork();
    MR_ASSERT(pid_ >= 0);
    if (pid_ > 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int nowhere = ::open("/dev/null", O_RDWR);
    ::dup2(nowhere, STDOUT_FILENO);
    ::dup2(nowhere, STDERR_FILENO);
    ::execv(kEtcdProgram, arguments.data());
    ::_exit(127);
  }
  bool is_running() const { return pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == 0; }
  // -9, as a power loss would.
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  const Place place_;
  FreePort client_port_;
  FreePort peer_port_;
  pid_t pid_ = -1;
};

class EtcdMembers {
 public:
  explicit EtcdMembers(int count, std::string scheme = "http", const std::vector<std::string>& flags = {}) {
    for (int number = 0; number < count; ++number) {
      const std::string name = "m" + std::to_string(number);
      members_.push_back(
          std::make_unique<EtcdProcess>(EtcdProcess::Place{name, directory_.path(name), scheme, flags}));
      cluster_ += (number > 0 ? "," : "") + members_.back()->peer();
    }
    for (int number = 0; number < count; ++number) start(number);
  }

  void start(int number) { members_[static_cast<size_t>(number)]->start(cluster_); }
  void kill(int number) { members_[static_cast<size_t>(number)]->kill(); }
  uint16_t port(int number) const { return members_[static_cast<size_t>(number)]->port(); }
  // "127.0.0.1:1234,127.0.0.1:1235"
  std::string hosts() const {
    std::string hosts;
    for (const auto& member : members_) hosts += (hosts.empty() ? "" : ",") + member->host();
    return hosts;
  }
  // A call to etcd itself, around the registry.
  Result<std::string> post(int number, const std::string& path, const std::string& body) {
    net::Request request;
    request.method = "POST";
    request.url = MR_TRY(net::parse_url(members_[static_cast<size_t>(number)]->url(path)));
    request.body = std::string_view(body);
    net::Response response = MR_TRY(client_->call(request));
    return response.read_all(1 << 20);
  }
  // Answers, which it does only while it has a leader.
  bool wait_until_ready(int number) {
    bool ready = false;
    const auto found_out = [&] {
      ready = post(number, "/v3/kv/range", R"({"key":"eA=="})").has_value();
      return ready || !members_[static_cast<size_t>(number)]->is_running();
    };
    return eventually(found_out) && ready;
  }

 private:
  static std::unique_ptr<net::Client> make_client() {
    net::ClientOptions options;
    options.most_attempts = 1;
    options.patience_ms = 0;
    options.verify = net::Verify::kInsecure;
    return net::Client::make(options).take();
  }

  TemporaryDirectory directory_;
  const std::unique_ptr<net::Client> client_ = make_client();
  std::string cluster_;
  std::vector<std::unique_ptr<EtcdProcess>> members_;
};

}  // namespace millrace::testing
