// Makes, reads and judges the seals of messages between nodes: docs/formats/peer-messages.md.
#include "cluster/peer_seal.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/number.h"
#include "base/text.h"
#include "net/digest.h"
#include "net/poly1305.h"

namespace millrace::cluster {

namespace {

constexpr size_t kMacDigits = 64;
constexpr size_t kSaltBytes = 16;
constexpr size_t kMaxHeader = 256;
constexpr int64_t kLatestMs = 253'402'300'799'999;  // the end of the year 9999: dates have four digits

bool is_lower_hex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_cluster_id(std::string_view text) {
  return !text.empty() && text.size() <= kMaxClusterId &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

std::string_view take_word(std::string_view& text) {
  const size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

Error denied(std::string_view why) {
  return make_error(Code::kDenied, "peer seal: {}", why);
}

Status check_version(std::string_view version) {
  if (version == kSealVersion) return {};
  return make_error(Code::kDenied, "peer seal: it is of version {}, this node speaks {}",
                    printable(version, 16), kSealVersion)
      .with_hint("update the older of the two nodes");
}

// The code of a head, which no two messages have in common, and a body. Bodies are many bytes: they get a key
// of their own for a fast code, and the slow one covers that.
std::string seal_code(const PeerSecret& secret, const std::string& head, std::string_view body,
                      std::string_view more) {
  const std::string key = secret.mac("body\n" + head);
  return net::to_hex(secret.mac(fmt::format("{}\n{}", head, net::to_hex(net::poly1305(key, body, more)))));
}

std::string request_mac(const PeerSecret& secret, const RequestSeal& seal, const SealedParts& parts) {
  const std::string head =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{:016x}\n{}\n{}", parts.method, parts.path, seal.cluster, seal.from,
                  seal.to, seal.process, seal.counter, seal.wall_ms);
  return seal_code(secret, head, parts.body, parts.more);
}

// With a salt: a node that starts again may answer a message twice.
struct ReplyParts {
  const RequestSeal& request;
  int status = 0;
  std::string_view salt;
  std::string_view body;
  std::string_view more = {};
};
std::string reply_text(const PeerSecret& secret, const ReplyParts& parts) {
  const std::string head = fmt::format("reply\n{}\n{}\n{}", parts.request.mac, parts.status, parts.salt);
  return fmt::format("{} {} {}", kSealVersion, parts.salt, seal_code(secret, head, parts.body, parts.more));
}

uint64_t draw_process() {
  uint64_t process = 0;
  std::memcpy(&process, net::random_bytes(sizeof process).data(), sizeof process);
  return process;
}

}  // namespace

Result<PeerSecret> PeerSecret::make(std::string cluster, std::string secret) {
  if (!is_cluster_id(cluster)) {
    return make_error(Code::kInvalid, "\"{}\" cannot be a cluster's id: 1 to {} letters without blanks",
                      printable(cluster, kMaxClusterId), kMaxClusterId);
  }
  if (secret.size() < kLeastSecretBytes) {
    return make_error(Code::kInvalid, "the secret of cluster {} has {} bytes, at least {} are needed",
                      cluster, secret.size(), kLeastSecretBytes);
  }
  return PeerSecret(std::move(cluster), std::move(secret));
}

std::string PeerSecret::mac(std::string_view text) const {
  return net::hmac_sha256(secret_, text);
}

std::string RequestSeal::text() const {
  return fmt::format("{} {} {} {} {:016x} {} {} {}", kSealVersion, cluster, from, to, process, counter,
                     wall_ms, mac);
}

Result<RequestSeal> parse_request_seal(std::string_view value) {
  if (value.size() > kMaxHeader) return denied("it is too long");
  MR_TRY(check_version(take_word(value)));
  RequestSeal seal;
  seal.cluster = take_word(value);
  const auto from = parse_number<uint32_t>(take_word(value));
  const auto to = parse_number<uint32_t>(take_word(value));
  const std::string_view process_digits = take_word(value);
  const auto process = parse_number<uint64_t>(process_digits, 16);
  const auto counter = parse_number<uint64_t>(take_word(value));
  const auto wall_ms = parse_number<int64_t>(take_word(value));
  seal.mac = value;
  if (!is_cluster_id(seal.cluster)) return denied("its cluster cannot be read");
  if (!from || !to) return denied("its nodes cannot be read");
  if (!process || process_digits.size() != 16) return denied("its process cannot be read");
  if (!counter || *counter == 0) return denied("its counter cannot be read");
  if (!wall_ms || *wall_ms < 0 || *wall_ms > kLatestMs) return denied("its time cannot be read");
  if (seal.mac.size() != kMacDigits || !is_lower_hex(seal.mac)) return denied("its code cannot be read");
  seal.from = *from;
  seal.to = *to;
  seal.process = *process;
  seal.counter = *counter;
  seal.wall_ms = *wall_ms;
  return seal;
}

Sealer::Sealer(PeerSecret secret, uint32_t self)
    : secret_(std::move(secret)), self_(self), process_(draw_process()) {}

RequestSeal Sealer::seal(uint32_t to, const SealedParts& parts, int64_t wall_ms) {
  RequestSeal seal{secret_.cluster(), self_, to, process_, 0, wall_ms, ""};
  {
    const MutexLock lock(mutex_);
    seal.counter = ++counters_[to];
  }
  seal.mac = request_mac(secret_, seal, parts);
  return seal;
}

Status Sealer::check_reply(const RequestSeal& request, std::string_view value, int status,
                           std::string_view body) const {
  if (value.empty()) return denied("the answer has none");
  if (value.size() > kMaxHeader) return denied("it is too long");
  std::string_view words = value;
  MR_TRY(check_version(take_word(words)));
  const std::string_view salt = take_word(words);
  if (net::equal_secrets(value, reply_text(secret_, {request, status, salt, body}))) return {};
  return make_error(Code::kDenied, "peer seal: the answer is not from a node that knows the cluster's secret")
      .with_hint("compare the secrets of the two nodes, and what is between them");
}

SealChecker::SealChecker(PeerSecret secret, uint32_t self, size_t most_processes)
    : secret_(std::move(secret)), self_(self), most_processes_(most_processes) {}

Result<RequestSeal> SealChecker::read(std::string_view value, int64_t wall_ms) const {
  if (value.empty()) {
    return make_error(Code::kDenied, "peer seal: the message has none")
        .with_hint("only nodes of the cluster may ask here");
  }
  RequestSeal seal = MR_TRY(parse_request_seal(value));
  if (seal.cluster != secret_.cluster()) {
    return make_error(Code::kDenied, "peer seal: the message is of cluster {}, this node of {}",
                      printable(seal.cluster, kMaxClusterId), secret_.cluster())
        .with_hint("the sender's map has an address that belongs to another cluster now");
  }
  if (seal.to != self_) {
    return make_error(Code::kDenied, "peer seal: the message is for node {}, this is node {}", seal.to, self_)
        .with_hint("the sender's map has an address that belongs to another node now");
  }
  if (seal.wall_ms < wall_ms - kSealWindowMs || seal.wall_ms > wall_ms + kSealWindowMs) {
    return make_error(Code::kDenied, "peer seal: it was made at {}, here it is {}",
                      format_iso_date(seal.wall_ms), format_iso_date(wall_ms))
        .with_hint("set the clocks of both nodes: they may differ by 15 minutes");
  }
  return seal;
}

Status SealChecker::check(const RequestSeal& seal, const SealedParts& parts, int64_t wall_ms) {
  if (!net::equal_secrets(seal.mac, request_mac(secret_, seal, parts))) {
    return make_error(Code::kDenied, "peer seal: it was made with another secret, or for another message")
        .with_hint("compare the secrets of the two nodes, and what is between them");
  }
  const Sender sender{seal.from, seal.process};
  const MutexLock lock(mutex_);
  auto found = seen_.find(sender);
  if (found == seen_.end()) {
    // What is older than the window is refused by its time, whether it is remembered or not.
    if (seen_.size() >= most_processes_) {
      std::erase_if(seen_,
                    [&](const auto& entry) { return entry.second.newest_ms < wall_ms - kSealWindowMs; });
    }
    if (seen_.size() >= most_processes_) {
      return make_error(Code::kDenied, "peer seal: {} processes have sent messages within 15 minutes",
                        seen_.size())
          .with_hint("see which nodes start again and again");
    }
    found = seen_.try_emplace(sender).first;
  }
  found->second.newest_ms = std::max(found->second.newest_ms, seal.wall_ms);
  if (found->second.add(seal.counter)) return {};
  return make_error(Code::kDenied, "peer seal: message {} of node {} was here before, or {} later ones were",
                    seal.counter, seal.from, kReplayWindow)
      .with_hint("somebody may be repeating the messages of this node");
}

std::string SealChecker::seal_reply(const RequestSeal& request, int status, std::string_view body,
                                    std::string_view more) const {
  const std::string salt = net::to_hex(net::random_bytes(kSaltBytes));
  return reply_text(secret_, {request, status, salt, body, more});
}

size_t SealChecker::processes() const {
  const MutexLock lock(mutex_);
  return seen_.size();
}

bool SealChecker::Seen::add(uint64_t counter) {
  if (counter > newest) {
    // The places between the old newest and the new one are of counters that were not seen.
    const uint64_t steps = counter - newest;
    if (steps >= kReplayWindow) {
      counters.reset();
    } else {
      for (uint64_t skipped = newest + 1; skipped < counter; ++skipped)
        counters.reset(static_cast<size_t>(skipped % kReplayWindow));
    }
    newest = counter;
    counters.set(static_cast<size_t>(counter % kReplayWindow));
    return true;
  }
  if (newest - counter >= kReplayWindow) return false;
  const auto place = static_cast<size_t>(counter % kReplayWindow);
  if (counters.test(place)) return false;
  counters.set(place);
  return true;
}

}  // namespace millrace::cluster
