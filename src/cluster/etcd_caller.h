// EtcdCaller: one thread's or one purpose's way to an etcd cluster: several endpoints, a user, a token.
//
// A call goes to the endpoint that answered last. If that one does not answer, the call goes to the next,
// until each was tried (at least two attempts). A token is fetched when one is needed, and again when etcd
// refuses it. Any thread; has connections of its own, which nobody else's calls delay.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "net/client.h"

namespace millrace::cluster {

inline constexpr size_t kMostEtcdEndpoints = 16;

// etcd://[user:password@]a:2379,b:2379[/prefix]; etcds:// for TLS. User and password are percent-encoded.
struct EtcdAddress {
  std::vector<net::Url> endpoints;  // http or https; never empty
  std::string user;                 // empty: no authentication
  std::string password;
  std::string prefix;  // of all keys; ends in "/"
};
bool is_etcd_address(std::string_view text);
Result<EtcdAddress> parse_etcd_address(std::string_view text);

class EtcdCaller {
 public:
  static Result<std::unique_ptr<EtcdCaller>> make(EtcdAddress address, const net::ClientOptions& options);

  struct Answer {
    std::string body;
    // An attempt before this one went unanswered, so etcd may have done what was asked twice.
    bool repeated = false;
  };
  Result<Answer> call(const std::string& path, const std::string& body);
  // One attempt at the endpoint that answered last; the answer is read as it comes. A failure, here or while
  // reading, is told by move_on().
  Result<net::Response> open_stream(const std::string& path, const std::string& body);
  void move_on();

 private:
  EtcdCaller(EtcdAddress address, std::unique_ptr<net::Client> client)
      : address_(std::move(address)), client_(std::move(client)) {}

  size_t current() const;
  void move_on_from(size_t endpoint);
  Result<net::Response> post(size_t endpoint, const std::string& path, const std::string& body);
  Result<net::Response> post_once(size_t endpoint, const std::string& path, const std::string& body);
  Result<std::string> get_token(size_t endpoint);
  void forget_token();

  const EtcdAddress address_;
  const std::unique_ptr<net::Client> client_;
  mutable Mutex mutex_;
  size_t current_ MR_GUARDED_BY(mutex_) = 0;
  std::string token_ MR_GUARDED_BY(mutex_);  // empty: none
};

}  // namespace millrace::cluster
