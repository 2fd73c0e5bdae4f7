// Connects the ranks, and moves framed messages over sockets that do not block.
#include "exchange/socket_group.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "base/crc.h"
#include "base/hash.h"
#include "net/digest.h"

namespace millrace::exchange {

namespace {

using Clock = std::chrono::steady_clock;

struct Head {
  uint64_t space;
  uint64_t size;
  uint32_t tag;
  uint32_t crc;
};
static_assert(sizeof(Head) == 24);

struct Channel {
  uint64_t space;
  uint32_t tag;
  auto operator<=>(const Channel&) const = default;
};

struct Sending {
  Group::Request request = 0;
  Head head{};
  std::string_view bytes;
  uint64_t done = 0;  // of the head and the bytes
};

struct Receiving {
  Group::Request request = 0;
  std::span<std::byte> into;
};

struct Arrived {
  std::string bytes;
  uint32_t crc = 0;
};

// What is being read from a peer.
struct Arriving {
  Head head{};
  uint64_t head_done = 0;
  uint64_t done = 0;
  std::optional<Receiving> into;  // nothing: `held`
  std::string held;
};

struct Peer {
  File socket;
  std::optional<Error> broken;
  std::deque<Sending> sends;
  std::map<Channel, std::deque<Receiving>> receives;
  std::map<Channel, std::deque<Arrived>> waiting;
  uint64_t waiting_bytes = 0;
  Arriving arriving;
};

// All connections of a rank; shared by a group and those that were split from it.
class Mesh {
 public:
  Mesh(uint32_t rank, std::vector<File> sockets) : rank_(rank), peers_(sockets.size()) {
    for (size_t i = 0; i < sockets.size(); ++i) peers_[i].socket = std::move(sockets[i]);
  }
  // What was sent goes out, unless a peer does not take it any more.
  ~Mesh() {
    const auto end = Clock::now() + std::chrono::seconds(5);
    while (Clock::now() < end) {
      bool open = false;
      for (Peer& peer : peers_) {
        if (peer.broken || !peer.socket.is_open()) continue;
        push(peer);
        open = open || (!peer.broken && !peer.sends.empty());
      }
      if (!open) return;
      ::poll(nullptr, 0, 1);
    }
  }
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  uint32_t rank() const { return rank_; }

  Result<Group::Request> send(uint32_t to, Channel channel, std::string_view bytes) {
    const Group::Request request = ++last_;
    owners_[request] = to;
    const Head head{channel.space, bytes.size(), channel.tag, crc32c(bytes)};
    if (to == rank_) {
      Arrived arrived{std::string(bytes), head.crc};
      accept(peers_[to], channel, std::move(arrived));
      owners_.erase(request);
      done_[request] = true;
      return request;
    }
    peers_[to].sends.push_back({request, head, bytes, 0});
    push(peers_[to]);
    return request;
  }

  Result<Group::Request> receive(uint32_t from, Channel channel, std::span<std::byte> into) {
    const Group::Request request = ++last_;
    owners_[request] = from;
    Peer& peer = peers_[from];
    const auto waiting = peer.waiting.find(channel);
    if (waiting == peer.waiting.end() || waiting->second.empty()) {
      peer.receives[channel].push_back({request, into});
      return request;
    }
    Arrived arrived = std::move(waiting->second.front());
    waiting->second.pop_front();
    peer.waiting_bytes -= arrived.bytes.size();
    if (waiting->second.empty()) peer.waiting.erase(waiting);
    deliver({request, into}, arrived.bytes);
    return request;
  }

  Result<bool> test(Group::Request request) {
    if (auto found = take_done(request)) return std::move(*found);
    const auto owner = owners_.find(request);
    if (owner == owners_.end()) return false;
    progress();
    if (auto found = take_done(request)) return std::move(*found);
    Peer& peer = peers_[owner->second];
    if (peer.broken) {
      Error error = peer.broken->copy();
      owners_.erase(owner);
      return error;
    }
    return false;
  }

 private:
  std::optional<Result<bool>> take_done(Group::Request request) {
    const auto found = done_.find(request);
    if (found == done_.end()) return std::nullopt;
    const bool fitted = found->second;
    done_.erase(found);
    if (fitted) return Result<bool>(true);
    return Result<bool>(make_error(Code::kCorrupt, "a message is longer than what was agreed on"));
  }

  void finish(Group::Request request, bool fitted) {
    owners_.erase(request);
    done_[request] = fitted;
  }

  void deliver(const Receiving& to, std::string_view bytes) {
    const bool fits = bytes.size() <= to.into.size();
    if (fits && !bytes.empty()) std::memcpy(to.into.data(), bytes.data(), bytes.size());
    finish(to.request, fits);
  }

  void accept(Peer& peer, Channel channel, Arrived arrived) {
    const auto posted = peer.receives.find(channel);
    if (posted != peer.receives.end() && !posted->second.empty()) {
      const Receiving to = posted->second.front();
      posted->second.pop_front();
      deliver(to, arrived.bytes);
      return;
    }
    peer.waiting_bytes += arrived.bytes.size();
    peer.waiting[channel].push_back(std::move(arrived));
  }

  void progress() {
    for (uint32_t i = 0; i < peers_.size(); ++i) {
      Peer& peer = peers_[i];
      if (i == rank_ || peer.broken) continue;
      push(peer);
      pull(peer, i);
    }
  }

  void fail(Peer& peer, Error error) {
    if (!peer.broken) peer.broken = std::move(error);
  }

  Error gone(const Peer& peer, std::string_view why) const {
    const auto rank = static_cast<size_t>(&peer - peers_.data());
    return make_error(Code::kUnavailable, "rank {} is gone: {}", rank, why);
  }

  void push(Peer& peer) {
    while (!peer.sends.empty() && !peer.broken) {
      Sending& sending = peer.sends.front();
      iovec parts[2];
      int count = 0;
      if (sending.done < sizeof(Head)) {
        parts[count++] = {reinterpret_cast<char*>(&sending.head) + sending.done, sizeof(Head) - sending.done};
      }
      const uint64_t body = sending.done < sizeof(Head) ? 0 : sending.done - sizeof(Head);
      if (body < sending.bytes.size())
        parts[count++] = {const_cast<char*>(sending.bytes.data()) + body, sending.bytes.size() - body};
      msghdr message{};
      message.msg_iov = parts;
      message.msg_iovlen = static_cast<size_t>(count);
      const ssize_t sent = ::sendmsg(peer.socket.descriptor(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0) {
        if (errno == EINTR) continue;
        if (errno != EAGAIN) fail(peer, gone(peer, std::strerror(errno)));
        return;
      }
      sending.done += static_cast<uint64_t>(sent);
      if (sending.done < sizeof(Head) + sending.bytes.size()) return;
      finish(sending.request, true);
      peer.sends.pop_front();
    }
  }

  // Nothing: there is nothing to read now.
  std::optional<size_t> read(Peer& peer, char* into, uint64_t size) {
    while (true) {
      const ssize_t got = ::recv(peer.socket.descriptor(), into, size, MSG_DONTWAIT);
      if (got > 0) return static_cast<size_t>(got);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return std::nullopt;
      fail(peer, gone(peer, got == 0 ? "it closed the connection" : std::strerror(errno)));
      return std::nullopt;
    }
  }

  void pull(Peer& peer, uint32_t from) {
    Arriving& arriving = peer.arriving;
    // A turn ends at some point, so that all peers have theirs.
    for (uint64_t turn = 0; turn < (4 << 20) && !peer.broken;) {
      if (arriving.head_done < sizeof(Head)) {
        if (arriving.head_done == 0 && peer.waiting_bytes >= kMostWaitingBytes) return;
        const auto got = read(peer, reinterpret_cast<char*>(&arriving.head) + arriving.head_done,
                              sizeof(Head) - arriving.head_done);
        if (!got) return;
        arriving.head_done += *got;
        if (arriving.head_done < sizeof(Head)) continue;
        begin(peer, from);
        continue;
      }
      const uint64_t left = arriving.head.size - arriving.done;
      if (left > 0) {
        char* const into =
            arriving.into ? reinterpret_cast<char*>(arriving.into->into.data()) : arriving.held.data();
        const auto got = read(peer, into + arriving.done, left);
        if (!got) return;
        arriving.done += *got;
        turn += *got;
      }
      if (arriving.done == arriving.head.size) end(peer);
    }
  }

  void begin(Peer& peer, uint32_t from) {
    Arriving& arriving = peer.arriving;
    if (arriving.head.size > kMaxMessage) {
      fail(peer, make_error(Code::kCorrupt, "rank {} talks nonsense", from));
      return;
    }
    arriving.done = 0;
    const auto posted = peer.receives.find({arriving.head.space, arriving.head.tag});
    if (posted != peer.receives.end() && !posted->second.empty() &&
        posted->second.front().into.size() >= arriving.head.size) {
      arriving.into = posted->second.front();
      posted->second.pop_front();
    } else {
      arriving.held.resize(arriving.head.size);
    }
    if (arriving.head.size == 0) end(peer);
  }

  void end(Peer& peer) {
    Arriving arriving = std::exchange(peer.arriving, {});
    const std::string_view bytes =
        arriving.into
            ? std::string_view(reinterpret_cast<const char*>(arriving.into->into.data()), arriving.head.size)
            : std::string_view(arriving.held);
    if (crc32c(bytes) != arriving.head.crc) {
      fail(peer, make_error(Code::kCorrupt, "a message arrived damaged"));
      return;
    }
    if (arriving.into) {
      finish(arriving.into->request, true);
    } else {
      accept(peer, {arriving.head.space, arriving.head.tag}, {std::move(arriving.held), arriving.head.crc});
    }
  }

  const uint32_t rank_;
  std::vector<Peer> peers_;
  std::map<Group::Request, uint32_t> owners_;  // of requests under way: which peer
  std::map<Group::Request, bool> done_;        // false: too long
  Group::Request last_ = 0;
};

class SocketGroup final : public Group {
 public:
  SocketGroup(std::shared_ptr<Mesh> mesh, uint64_t space, std::vector<uint32_t> members, uint32_t rank)
      : mesh_(std::move(mesh)), space_(space), members_(std::move(members)), rank_(rank) {}

  uint32_t rank() const override { return rank_; }
  uint32_t size() const override { return static_cast<uint32_t>(members_.size()); }
  Result<Request> send(uint32_t to, Tag tag, std::string_view bytes) override {
    return mesh_->send(members_[to], {space_, static_cast<uint32_t>(tag)}, bytes);
  }
  Result<Request> receive(uint32_t from, Tag tag, std::span<std::byte> into) override {
    return mesh_->receive(members_[from], {space_, static_cast<uint32_t>(tag)}, into);
  }
  Result<bool> test(Request request) override { return mesh_->test(request); }

  Result<std::unique_ptr<Group>> split(uint32_t colour) override {
    const std::string own(reinterpret_cast<const char*>(&colour), sizeof colour);
    const auto all = MR_TRY(gather_all(*this, own, {60'000, "splitting the group"}));
    const uint64_t number = ++splits_;
    std::vector<uint32_t> members;
    uint32_t rank = 0;
    for (uint32_t other = 0; other < all.size(); ++other) {
      if (all[other] != own) continue;
      if (other == rank_) rank = static_cast<uint32_t>(members.size());
      members.push_back(members_[other]);
    }
    const uint64_t words[] = {space_, number, members.front()};
    const uint64_t space = hash64({reinterpret_cast<const char*>(words), sizeof words});
    return std::unique_ptr<Group>(new SocketGroup(mesh_, space, std::move(members), rank));
  }
  // Processes of one machine do not know it of each other, and need not.
  Result<uint32_t> node() override { return members_[rank_]; }

 private:
  const std::shared_ptr<Mesh> mesh_;
  const uint64_t space_;
  const std::vector<uint32_t> members_;  // ranks of the mesh
  const uint32_t rank_;
  uint64_t splits_ = 0;
};

// ---- Connecting: each rank calls those below it and is called by those above it. -------------------------

constexpr std::string_view kMagic = "MRRANKS1";
constexpr size_t kNonceBytes = 32;
constexpr size_t kProofBytes = 32;

struct Hello {
  char magic[8];
  uint32_t rank;
  uint32_t ranks;
  char nonce[kNonceBytes];
};
static_assert(sizeof(Hello) == 16 + kNonceBytes);

Hello make_hello(const SocketRanks& ranks) {
  Hello hello{};
  std::memcpy(hello.magic, kMagic.data(), kMagic.size());
  hello.rank = ranks.rank;
  hello.ranks = static_cast<uint32_t>(ranks.ranks.size());
  const std::string nonce = net::random_bytes(kNonceBytes);
  std::memcpy(hello.nonce, nonce.data(), kNonceBytes);
  return hello;
}

std::string_view bytes_of(const Hello& hello) {
  return {reinterpret_cast<const char*>(&hello), sizeof hello};
}

// Over both greetings, so that no proof fits another connection, and over who gives it.
std::string proof(const SocketRanks& ranks, std::string_view side, const Hello& caller, const Hello& called) {
  return net::hmac_sha256(ranks.secret, fmt::format("{}{}{}", side, bytes_of(caller), bytes_of(called)));
}

class Connecting {
 public:
  Connecting(const RankListener& listener, const SocketRanks& ranks)
      : listener_(listener),
        ranks_(ranks),
        end_(Clock::now() + std::chrono::milliseconds(ranks.timeout_ms)),
        sockets_(ranks.ranks.size()) {}

  Result<std::vector<File>> run() {
    for (uint32_t other = 0; other < ranks_.rank; ++other)
      MR_TRY(call(other).within(fmt::format("connecting to rank {}", other)));
    for (size_t missing = ranks_.ranks.size() - ranks_.rank - 1; missing > 0;) {
      File socket = MR_TRY(accept());
      const auto heard = hear(socket);
      // Somebody who is no rank of this group is not let in, and does not keep the ranks from coming.
      if (!heard || sockets_[*heard].is_open()) continue;
      sockets_[*heard] = std::move(socket);
      --missing;
    }
    for (File& socket : sockets_) {
      if (!socket.is_open()) continue;
      const int one = 1;
      ::setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    return std::move(sockets_);
  }

 private:
  int left_ms() const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now()).count();
    return static_cast<int>(std::max<int64_t>(left, 0));
  }

  Error too_late(std::string_view what) const {
    return make_error(Code::kUnavailable, "{} within {:.1f} s", what,
                      static_cast<double>(ranks_.timeout_ms) / 1000);
  }

  Status wait_for(const File& socket, short events) const {
    while (true) {
      pollfd watched{socket.descriptor(), events, 0};
      const int ready = ::poll(&watched, 1, left_ms());
      if (ready > 0) return {};
      if (ready == 0) return too_late("nothing came");
      if (errno != EINTR) return make_system_error(errno, "waiting for a rank");
    }
  }

  Status read_all(const File& socket, std::span<char> into) const {
    for (size_t done = 0; done < into.size();) {
      MR_TRY(wait_for(socket, POLLIN));
      const ssize_t got = ::recv(socket.descriptor(), into.data() + done, into.size() - done, MSG_DONTWAIT);
      if (got == 0) return make_error(Code::kUnavailable, "the connection was closed");
      if (got < 0 && errno != EAGAIN && errno != EINTR) return make_system_error(errno, "reading");
      if (got > 0) done += static_cast<size_t>(got);
    }
    return {};
  }

  // Greetings are short: they fit into any socket's buffer.
  static Status write_all(const File& socket, std::string_view bytes) {
    const ssize_t sent = ::send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent == static_cast<ssize_t>(bytes.size())) return {};
    return make_error(Code::kUnavailable, "the connection was closed");
  }

  Result<File> connect(const net::HostAndPort& to) const {
    for (const net::SocketAddress& address : MR_TRY(net::resolve(to))) {
      File socket(::socket(address.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), to.host);
      if (!socket.is_open()) return make_system_error(errno, "making a socket");
      if (::connect(socket.descriptor(), address.get(), address.size) != 0 && errno != EINPROGRESS) continue;
      if (!wait_for(socket, POLLOUT)) continue;
      int failure = 0;
      socklen_t size = sizeof failure;
      ::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &failure, &size);
      if (failure == 0) return socket;
    }
    return make_error(Code::kUnavailable, "nobody answers at {}:{}", to.host, to.port);
  }

  Status call(uint32_t other) {
    File socket = MR_TRY(connect(ranks_.ranks[other]));
    const Hello own = make_hello(ranks_);
    MR_TRY(write_all(socket, bytes_of(own)));
    Hello theirs{};
    std::array<char, kProofBytes> proven{};
    MR_TRY(read_all(socket, {reinterpret_cast<char*>(&theirs), sizeof theirs}));
    MR_TRY(read_all(socket, proven));
    if (!is_proof({proven.data(), proven.size()}, proof(ranks_, "called", own, theirs)) ||
        theirs.rank != other)
      return make_error(Code::kDenied, "whoever answers there is not rank {} of this group", other);
    MR_TRY(write_all(socket, proof(ranks_, "caller", own, theirs)));
    sockets_[other] = std::move(socket);
    return {};
  }

  Result<File> accept() const {
    while (true) {
      const Status waited = wait_for(listener_.socket(), POLLIN);
      if (!waited) return too_late(fmt::format("{} did not come", missing()));
      const int socket =
          ::accept4(listener_.socket().descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (socket >= 0) return File(socket, "a rank");
      if (errno != EINTR && errno != EAGAIN && errno != ECONNABORTED)
        return make_system_error(errno, "accepting a rank");
    }
  }

  std::string missing() const {
    for (size_t other = ranks_.rank + 1; other < sockets_.size(); ++other) {
      if (!sockets_[other].is_open()) return fmt::format("rank {}", other);
    }
    return "a rank";
  }

  Result<uint32_t> hear(const File& socket) const {
    Hello theirs{};
    MR_TRY(read_all(socket, {reinterpret_cast<char*>(&theirs), sizeof theirs}));
    if (std::string_view(theirs.magic, kMagic.size()) != kMagic || theirs.ranks != ranks_.ranks.size() ||
        theirs.rank <= ranks_.rank || theirs.rank >= theirs.ranks)
      return make_error(Code::kDenied, "no rank of this group");
    const Hello own = make_hello(ranks_);
    MR_TRY(write_all(socket, bytes_of(own)));
    MR_TRY(write_all(socket, proof(ranks_, "called", theirs, own)));
    std::array<char, kProofBytes> proven{};
    MR_TRY(read_all(socket, proven));
    if (!is_proof({proven.data(), proven.size()}, proof(ranks_, "caller", theirs, own)))
      return make_error(Code::kDenied, "no rank of this group");
    return theirs.rank;
  }

  // In the same time wherever they differ.
  static bool is_proof(std::string_view given, std::string_view wanted) {
    unsigned char difference = given.size() == wanted.size() ? 0 : 1;
    for (size_t i = 0; i < std::min(given.size(), wanted.size()); ++i)
      difference = static_cast<unsigned char>(difference | (given[i] ^ wanted[i]));
    return difference == 0;
  }

  const RankListener& listener_;
  const SocketRanks& ranks_;
  const Clock::time_point end_;
  std::vector<File> sockets_;
};

}  // namespace

Result<RankListener> RankListener::open(const std::string& host) {
  const auto addresses = MR_TRY(net::resolve({host, 0}));
  if (addresses.empty()) return make_error(Code::kInvalid, "{} has no address", host);
  const net::SocketAddress& address = addresses.front();
  RankListener listener;
  listener.socket_ = File(::socket(address.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                          "the ranks' socket");
  if (!listener.socket_.is_open()) return make_system_error(errno, "making a socket");
  if (::bind(listener.socket_.descriptor(), address.get(), address.size) != 0 ||
      ::listen(listener.socket_.descriptor(), 128) != 0)
    return make_system_error(errno, "listening for ranks at " + host);
  listener.port_ = net::SocketAddress::of_own(listener.socket_.descriptor()).port();
  return listener;
}

Result<std::unique_ptr<Group>> open_socket_group(const RankListener& listener, const SocketRanks& ranks) {
  if (ranks.ranks.empty() || ranks.ranks.size() > kMostSocketRanks || ranks.rank >= ranks.ranks.size())
    return make_error(Code::kInvalid, "rank {} of {}: a group has 1 to {} ranks", ranks.rank,
                      ranks.ranks.size(), kMostSocketRanks);
  std::vector<uint32_t> all(ranks.ranks.size());
  for (uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  auto mesh = std::make_shared<Mesh>(ranks.rank, MR_TRY(Connecting(listener, ranks).run()));
  return std::unique_ptr<Group>(new SocketGroup(std::move(mesh), 0, std::move(all), ranks.rank));
}

}  // namespace millrace::exchange
