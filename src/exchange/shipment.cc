// Implements Shipment: both sides cut the same messages, and a few are under way at a time.
#include "exchange/shipment.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <optional>
#include <set>
#include <thread>

#include "base/assert.h"

namespace millrace::exchange {

namespace {

using Clock = std::chrono::steady_clock;

// Below this a sample is copied into a message with others. Measured with 110 KB samples, two ranks: 1.7 GB/s
// sent one by one, 3.0 gathered; on a busy machine, where each message may cost a time slice, 0.2 against
// 0.6.
constexpr uint64_t kLarge = 512 << 10;
// Quiet machines like messages that stay in the processor's cache between the copy into and the copy out of
// them (256 KiB), busy ones like them large.
constexpr uint64_t kGathered = 1 << 20;
// Messages that are sent from where they lie cost nothing to have under way, and where processors are shared
// every wait for the other side costs a time slice: with 8 a busy machine moved a hundredth of what it could.
constexpr size_t kUnderWayEachPeer = 64;
constexpr size_t kMostGathered = 32;  // buffers: 32 MiB
// Copied from neighbours before messages are looked at again.
constexpr uint64_t kCopiedAtOnce = 4 << 20;

// Small samples lie anywhere: without this each copy begins with waiting for memory. Their beginnings only:
// the processor sees by itself how it goes on.
void fetch_ahead(std::string_view blocks) {
  constexpr size_t kLine = 64;
  constexpr size_t kMost = 256;
  for (size_t at = 0; at < std::min(blocks.size(), kMost); at += kLine)
    __builtin_prefetch(blocks.data() + at);
}

}  // namespace

std::vector<Cut> cut_messages(std::span<const uint64_t> sample_bytes) {
  std::vector<Cut> cuts;
  uint64_t offset = 0;
  bool open = false;
  for (uint32_t i = 0; i < sample_bytes.size(); ++i) {
    const uint64_t bytes = sample_bytes[i];
    if (bytes >= kLarge) {
      for (uint64_t at = 0; at < bytes; at += kMaxMessage)
        cuts.push_back({offset + at, std::min(kMaxMessage, bytes - at), i});
      open = false;
    } else if (open && cuts.back().bytes + bytes <= kGathered) {
      cuts.back().bytes += bytes;
    } else {
      cuts.push_back({offset, bytes, i});
      open = true;
    }
    offset += bytes;
  }
  return cuts;
}

// Everything that a request under way may touch.
struct Shipment::State {
  struct Posted {
    Group::Request request = 0;
    size_t buffer = SIZE_MAX;  // of those to gather in
  };
  // One direction with one rank.
  struct Peer {
    uint32_t rank = 0;
    std::vector<Cut> cuts;
    size_t next = 0;  // cut to be posted
    // In order; only the first is looked at: to ask for each of hundreds costs more than moving them.
    std::deque<Posted> posted;
  };
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  std::vector<std::vector<Parcel>> lists_in;
  std::vector<Peer> senders;     // like outgoing
  std::vector<Peer> receivers;   // like incoming
  std::vector<uint64_t> starts;  // of each incoming peer's bytes
  struct Copy {
    std::string_view from;
    uint64_t to = 0;
  };
  std::vector<Copy> copies;  // from neighbours
  size_t next_copy = 0;
  std::span<std::byte> into;
  std::shared_ptr<GatherPool> pool;
  std::vector<size_t> free_buffers;
};

Shipment::Shipment(Group& group, std::vector<Outgoing> outgoing, std::vector<Incoming> incoming,
                   Patience patience)
    : group_(group), patience_(patience), state_(std::make_shared<State>()) {
  state_->outgoing = std::move(outgoing);
  state_->incoming = std::move(incoming);
}

Shipment::~Shipment() {
  if (under_way()) group_.keep(state_);
}

bool Shipment::under_way() const {
  const auto waits = [](const State::Peer& peer) { return !peer.posted.empty(); };
  return std::ranges::any_of(state_->senders, waits) || std::ranges::any_of(state_->receivers, waits);
}

Error Shipment::stalled() const {
  std::set<uint32_t> ranks;
  for (const auto* peers : {&state_->senders, &state_->receivers}) {
    for (const State::Peer& peer : *peers) {
      if (!peer.posted.empty()) ranks.insert(peer.rank);
    }
  }
  std::string names;
  for (const uint32_t rank : ranks) names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
  return make_error(Code::kUnavailable, "nothing moved for {:.1f} s while {}: waiting for rank {}",
                    static_cast<double>(patience_.timeout_ms) / 1000, patience_.doing, names)
      .with_hint("look at what that rank is doing; a longer time: --timeout");
}

// True where something was done.
Result<bool> Shipment::finish_some() {
  bool progressed = false;
  for (auto* peers : {&state_->receivers, &state_->senders}) {
    for (State::Peer& peer : *peers) {
      while (!peer.posted.empty() && MR_TRY(group_.test(peer.posted.front().request))) {
        if (peer.posted.front().buffer != SIZE_MAX)
          state_->free_buffers.push_back(peer.posted.front().buffer);
        peer.posted.pop_front();
        progressed = true;
      }
    }
  }
  return progressed;
}

Result<std::span<const std::vector<Parcel>>> Shipment::exchange_lists() {
  State& state = *state_;
  state.lists_in.resize(state.incoming.size());
  for (size_t i = 0; i < state.incoming.size(); ++i) {
    state.lists_in[i].resize(state.incoming[i].count);
    state.receivers.push_back({state.incoming[i].from, {}, 0, {}});
    const auto into = std::as_writable_bytes(std::span(state.lists_in[i]));
    state.receivers.back().posted.push_back(
        {MR_TRY(group_.receive(state.incoming[i].from, Tag::kList, into)), SIZE_MAX});
  }
  for (size_t i = 0; i < state.outgoing.size(); ++i) {
    const Outgoing& out = state.outgoing[i];
    const bool is_taken = neighbours_ && neighbours_->is_read_by(out.to);
    std::vector<uint64_t> sizes;
    for (const Parcel& parcel : out.list) {
      if (!is_taken) sizes.push_back(parcel.bytes);
      bytes_sent_ += parcel.bytes;
    }
    state.senders.push_back({out.to, cut_messages(sizes), 0, {}});
    const auto bytes = std::as_bytes(std::span(out.list));
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    state.senders.back().posted.push_back(
        {MR_TRY(group_.send(state.outgoing[i].to, Tag::kList, text)), SIZE_MAX});
    ++messages_;
  }
  Clock::time_point moved = Clock::now();
  int idle = 0;
  while (under_way()) {
    if (MR_TRY(finish_some())) {
      moved = Clock::now();
      continue;
    }
    if (++idle < 256) {
      std::this_thread::yield();
      continue;
    }
    if (Clock::now() - moved > std::chrono::milliseconds(patience_.timeout_ms)) return stalled();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  for (size_t i = 0; i < state.lists_in.size(); ++i) {
    for (const Parcel& parcel : state.lists_in[i]) {
      if (parcel.bytes > kMaxSample || parcel.bytes == 0)
        return make_error(Code::kCorrupt, "rank {} announces sample {} of {} bytes", state.incoming[i].from,
                          parcel.id, parcel.bytes);
    }
  }
  return std::span<const std::vector<Parcel>>(state.lists_in);
}

Status Shipment::send_next(size_t number) {
  State& state = *state_;
  State::Peer& peer = state.senders[number];
  const Cut& cut = peer.cuts[peer.next];
  const std::vector<std::string_view>& blocks = state.outgoing[number].blocks;
  std::string_view bytes = blocks[cut.first];
  size_t buffer = SIZE_MAX;
  if (bytes.size() >= kLarge) {
    // Where in its sample a cut lies: the sum of the cuts of the same sample before it.
    uint64_t before = 0;
    for (size_t i = peer.next; i > 0 && peer.cuts[i - 1].first == cut.first; --i)
      before += peer.cuts[i - 1].bytes;
    bytes = bytes.substr(before, cut.bytes);
  } else if (bytes.size() < cut.bytes) {
    buffer = state.free_buffers.back();
    state.free_buffers.pop_back();
    std::unique_ptr<std::byte[]>& memory = state.pool->buffers[buffer];
    if (!memory) memory = std::make_unique_for_overwrite<std::byte[]>(kGathered);
    std::byte* to = memory.get();
    uint64_t filled = 0;
    for (size_t i = cut.first; filled < cut.bytes; ++i) {
      if (i + 2 < blocks.size()) fetch_ahead(blocks[i + 2]);
      std::memcpy(to + filled, blocks[i].data(), blocks[i].size());
      filled += blocks[i].size();
    }
    bytes = {reinterpret_cast<const char*>(to), filled};
  }
  peer.posted.push_back({MR_TRY(group_.send(peer.rank, Tag::kSamples, bytes)), buffer});
  ++peer.next;
  ++messages_;
  return {};
}

Status Shipment::receive_next(size_t number) {
  State& state = *state_;
  State::Peer& peer = state.receivers[number];
  const Cut& cut = peer.cuts[peer.next];
  const auto into = state.into.subspan(state.starts[number] + cut.offset, cut.bytes);
  peer.posted.push_back({MR_TRY(group_.receive(peer.rank, Tag::kSamples, into)), SIZE_MAX});
  ++peer.next;
  return {};
}

Status Shipment::open_segments() {
  if (!neighbours_) return {};
  neighbours_->forget_removed();
  size_t most = 0;
  for (const auto& list : state_->lists_in) most += list.size();
  state_->copies.reserve(most);
  uint64_t to = 0;
  for (size_t i = 0; i < state_->incoming.size(); ++i) {
    const uint32_t rank = state_->incoming[i].from;
    const bool takes = neighbours_->reads(rank);
    // Samples that follow each other are mostly of one segment.
    std::optional<uint32_t> number;
    std::string_view segment;
    for (const Parcel& parcel : state_->lists_in[i]) {
      const uint64_t place = to;
      to += parcel.bytes;
      if (!takes) continue;
      if (number != parcel.segment) {
        MR_TRY(neighbours_->open(rank, parcel.segment));
        number = parcel.segment;
        segment = neighbours_->segment(rank, *number);
      }
      if (parcel.bytes > segment.size() || parcel.offset > segment.size() - parcel.bytes)
        return make_error(Code::kCorrupt, "rank {} says that sample {} lies beyond its segment {}", rank,
                          parcel.id, parcel.segment);
      state_->copies.push_back({segment.substr(parcel.offset, parcel.bytes), place});
    }
  }
  return {};
}

// True while some are not posted yet.
Result<bool> Shipment::post_messages() {
  State& state = *state_;
  bool open = false;
  for (size_t i = 0; i < state.receivers.size(); ++i) {
    State::Peer& peer = state.receivers[i];
    while (peer.next < peer.cuts.size() && peer.posted.size() < kUnderWayEachPeer) MR_TRY(receive_next(i));
    open |= peer.next < peer.cuts.size();
  }
  for (size_t i = 0; i < state.senders.size(); ++i) {
    State::Peer& peer = state.senders[i];
    // A few each by turns, so that no peer waits for all of another's.
    for (int turn = 0; turn < 8 && peer.next < peer.cuts.size(); ++turn) {
      if (peer.posted.size() >= kUnderWayEachPeer || state.free_buffers.empty()) break;
      MR_TRY(send_next(i));
    }
    open |= peer.next < peer.cuts.size();
  }
  return open;
}

// True where something was done.
bool Shipment::copy_some() {
  State& state = *state_;
  const size_t before = state.next_copy;
  for (uint64_t copied = 0; state.next_copy < state.copies.size() && copied < kCopiedAtOnce;
       ++state.next_copy) {
    constexpr size_t kAhead = 8;
    if (state.next_copy + kAhead < state.copies.size())
      fetch_ahead(state.copies[state.next_copy + kAhead].from);
    const auto& [from, to] = state.copies[state.next_copy];
    std::memcpy(state.into.data() + to, from.data(), from.size());
    copied += from.size();
  }
  return state.next_copy > before;
}

Status Shipment::exchange_samples(std::span<std::byte> into) {
  State& state = *state_;
  state.into = into;
  uint64_t start = 0;
  for (size_t i = 0; i < state.receivers.size(); ++i) {
    const bool takes = neighbours_ && neighbours_->reads(state.receivers[i].rank);
    state.starts.push_back(start);
    std::vector<uint64_t> sizes;
    for (const Parcel& parcel : state.lists_in[i]) {
      if (!takes) sizes.push_back(parcel.bytes);
      start += parcel.bytes;
    }
    state.receivers[i].cuts = cut_messages(sizes);
  }
  MR_ASSERT(start == into.size(), start, into.size());
  for (size_t i = kMostGathered; i-- > 0;) state.free_buffers.push_back(i);
  state.pool = pool_;
  state.pool->buffers.resize(kMostGathered);
  Clock::time_point moved = Clock::now();
  int idle = 0;
  while (true) {
    const bool open = MR_TRY(post_messages());
    const bool copied = copy_some();
    if (!open && !copied && !under_way()) return {};
    if (MR_TRY(finish_some()) || copied) {
      moved = Clock::now();
      idle = 0;
    } else if (++idle > 256) {
      if (Clock::now() - moved > std::chrono::milliseconds(patience_.timeout_ms)) return stalled();
      std::this_thread::sleep_for(std::chrono::microseconds(std::min(idle - 256, 100)));
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace millrace::exchange
