// Seals: how a node knows that a message comes from a node of its cluster, unchanged, and for the first time.
//
// Every message between nodes carries a header that only holders of the cluster's secret can make; also on
// loopback, also under TLS. The seal covers method, path, sender, receiver, time and body. A reply's seal
// covers the request's, so that no reply can be taken for another's. Form and reasons:
// docs/formats/peer-messages.md. Sealer and SealChecker are thread-safe.
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "base/result.h"

namespace millrace::cluster {

inline constexpr std::string_view kPeerPath = "/-/peer";
inline constexpr std::string_view kSealHeader = "x-millrace-peer";
inline constexpr std::string_view kSealVersion = "v2";
inline constexpr int64_t kSealWindowMs = 15 * 60 * 1000;  // by which two nodes' clocks may differ
inline constexpr size_t kReplayWindow = 4096;             // counters by which a message may be overtaken
inline constexpr size_t kMaxClusterId = 64;
inline constexpr size_t kLeastSecretBytes = 16;

// Which cluster, and what only its nodes know. A value.
class PeerSecret {
 public:
  // kInvalid: an id that does not fit into a header, or a secret that could be guessed.
  static Result<PeerSecret> make(std::string cluster, std::string secret);
  const std::string& cluster() const { return cluster_; }
  // 32 bytes.
  std::string mac(std::string_view text) const;

 private:
  PeerSecret(std::string cluster, std::string secret)
      : cluster_(std::move(cluster)), secret_(std::move(secret)) {}
  std::string cluster_;
  std::string secret_;
};

// What is sealed, beside the sender's words about itself.
struct SealedParts {
  std::string_view method;
  std::string_view path;
  std::string_view body;
  std::string_view more = {};  // of the body
};

// The header of a request, taken apart.
struct RequestSeal {
  std::string cluster;
  uint32_t from = 0;     // the sender's number
  uint32_t to = 0;       // the receiver's number: a message cannot be shown to a second node
  uint64_t process = 0;  // drawn by the Sealer, whose counters start at 1
  uint64_t counter = 0;
  int64_t wall_ms = 0;
  std::string mac;  // 64 hex digits, lower case

  std::string text() const;  // the header's value
};
// Outside bytes. kDenied: it cannot be read, or is of another version.
Result<RequestSeal> parse_request_seal(std::string_view value);

// Makes the seals of one sender. Each Sealer is a process of its own to those who check.
class Sealer {
 public:
  Sealer(PeerSecret secret, uint32_t self);
  RequestSeal seal(uint32_t to, const SealedParts& parts, int64_t wall_ms);
  // Of the answer to a request that this sender sealed. kDenied: it is not from a node of the cluster.
  Status check_reply(const RequestSeal& request, std::string_view value, int status,
                     std::string_view body) const;

 private:
  const PeerSecret secret_;
  const uint32_t self_;
  const uint64_t process_;
  Mutex mutex_;
  // By receiver: one that gets few messages must not see the counters run away.
  std::map<uint32_t, uint64_t> counters_ MR_GUARDED_BY(mutex_);
};

// Checks the seals of all who send to one receiver. What it has seen is forgotten when it goes; what stops
// the messages of before then is their epoch.
class SealChecker {
 public:
  static constexpr size_t kMostProcesses = 8192;

  SealChecker(PeerSecret secret, uint32_t self, size_t most_processes = kMostProcesses);

  // What can be judged before the body is there: form, cluster, receiver, time. kDenied says which.
  Result<RequestSeal> read(std::string_view value, int64_t wall_ms) const;
  // The rest: the secret, and that the message was not here before. Counts it as seen.
  Status check(const RequestSeal& seal, const SealedParts& parts, int64_t wall_ms);
  // The header of the answer to a request that was checked.
  std::string seal_reply(const RequestSeal& request, int status, std::string_view body,
                         std::string_view more = {}) const;

  size_t processes() const;

 private:
  // The counters of one sending process that were seen: `newest`, and which of those below it.
  struct Seen {
    uint64_t newest = 0;
    int64_t newest_ms = 0;
    std::bitset<kReplayWindow> counters;  // by counter modulo the window
    // False: seen before, or too old to say.
    bool add(uint64_t counter);
  };
  struct Sender {
    uint32_t node = 0;
    uint64_t process = 0;
    auto operator<=>(const Sender&) const = default;
  };

  const PeerSecret secret_;
  const uint32_t self_;
  const size_t most_processes_;
  mutable Mutex mutex_;
  std::map<Sender, Seen> seen_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::cluster
