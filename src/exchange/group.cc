// Implements ranks as threads, and votes over any transport.
#include "exchange/group.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/assert.h"
#include "base/mutex.h"
#include "base/number.h"

namespace millrace::exchange {

class ThreadGroup final : public Group {
 public:
  ThreadGroup(ThreadWorld& world, uint64_t space, std::vector<uint32_t> members, uint32_t rank)
      : world_(world), space_(space), members_(std::move(members)), rank_(rank) {}

  uint32_t rank() const override { return rank_; }
  uint32_t size() const override { return static_cast<uint32_t>(members_.size()); }

  Result<Request> send(uint32_t to, Tag tag, std::string_view bytes) override {
    return post({space_, rank_, to, tag}, {0, bytes, {}}, &ThreadWorld::Lane::sends);
  }
  Result<Request> receive(uint32_t from, Tag tag, std::span<std::byte> into) override {
    return post({space_, from, rank_, tag}, {0, {}, into}, &ThreadWorld::Lane::receives);
  }

  Result<bool> test(Request request) override {
    const MutexLock lock(world_.mutex_);
    const auto found = world_.done_.find(request);
    if (found == world_.done_.end()) return false;
    const bool fitted = found->second;
    world_.done_.erase(found);
    if (!fitted) return make_error(Code::kCorrupt, "a message is longer than what was agreed on");
    return true;
  }

  Result<std::unique_ptr<Group>> split(uint32_t colour) override {
    UniqueLock lock(world_.mutex_);
    const uint64_t number = ++splits_;
    ThreadWorld::Split& split = world_.splits_[{space_, number}];
    split.colours[rank_] = colour;
    split.left = size();
    world_.joined_.notify_all();
    world_.joined_.wait(lock, [&]() MR_REQUIRES(world_.mutex_) { return split.colours.size() == size(); });
    std::vector<uint32_t> members;
    uint32_t own = 0;
    for (const auto& [rank, other] : split.colours) {
      if (other != colour) continue;
      if (rank == rank_) own = static_cast<uint32_t>(members.size());
      members.push_back(members_[rank]);
    }
    if (--split.left == 0) world_.splits_.erase({space_, number});
    // Groups of one split are told apart by their first member.
    const uint64_t space = (space_ * 1'000'003 + number) * 1'000'003 + members.front() + 1;
    return std::unique_ptr<Group>(new ThreadGroup(world_, space, std::move(members), own));
  }
  Result<uint32_t> node() override { return members_[rank_] / world_.per_node_; }

 private:
  Result<Request> post(const ThreadWorld::LaneKey& key, ThreadWorld::Waiting waiting,
                       std::deque<ThreadWorld::Waiting> ThreadWorld::Lane::* queue) {
    const MutexLock lock(world_.mutex_);
    waiting.request = world_.next_request_++;
    ThreadWorld::Lane& lane = world_.lanes_[key];
    (lane.*queue).push_back(waiting);
    world_.match(lane);
    if (lane.sends.empty() && lane.receives.empty()) world_.lanes_.erase(key);
    return waiting.request;
  }

  ThreadWorld& world_;
  const uint64_t space_;
  const std::vector<uint32_t> members_;  // ranks of the world
  const uint32_t rank_;
  uint64_t splits_ = 0;
};

void ThreadWorld::match(Lane& lane) {
  while (!lane.sends.empty() && !lane.receives.empty()) {
    const Waiting send = lane.sends.front();
    const Waiting receive = lane.receives.front();
    lane.sends.pop_front();
    lane.receives.pop_front();
    const bool fits = send.bytes.size() <= receive.into.size();
    if (fits && !send.bytes.empty()) std::memcpy(receive.into.data(), send.bytes.data(), send.bytes.size());
    done_[send.request] = true;
    done_[receive.request] = fits;
  }
}

std::unique_ptr<Group> ThreadWorld::group(uint32_t rank) {
  MR_ASSERT(rank < ranks_, rank, ranks_);
  std::vector<uint32_t> all(ranks_);
  for (uint32_t i = 0; i < ranks_; ++i) all[i] = i;
  return std::make_unique<ThreadGroup>(*this, 0, std::move(all), rank);
}

namespace {

using Clock = std::chrono::steady_clock;

// Waits for requests, and gives the processor away meanwhile.
class Waiter {
 public:
  explicit Waiter(uint64_t timeout_ms) : end_(Clock::now() + std::chrono::milliseconds(timeout_ms)) {}
  // False when the time is over.
  bool pause() {
    ++idle_;
    if (idle_ < 64) {
      std::this_thread::yield();
      return true;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(std::min(idle_, 500)));
    return Clock::now() < end_;
  }
  void progressed() { idle_ = 0; }

 private:
  const Clock::time_point end_;
  int idle_ = 0;
};

// Buffers of one gathering; kept by the group if it fails.
struct Gathering {
  uint64_t own_size = 0;
  std::string own;
  std::vector<uint64_t> sizes;
  std::vector<std::string> parts;
  uint64_t verdict_size = 0;
  std::string verdict;  // an 'e' and an error, or a 'g' and the parts
};

std::string pack(const std::vector<std::string>& parts) {
  std::string all = "g";
  for (const std::string& part : parts) {
    const uint64_t size = part.size();
    all.append(reinterpret_cast<const char*>(&size), sizeof size);
    all += part;
  }
  return all;
}

std::span<std::byte> writable(std::string& text) {
  return std::as_writable_bytes(std::span(text));
}
template <typename T>
std::span<std::byte> writable(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}
std::string_view readable(const uint64_t& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// Which of the requests did not end in time.
Result<std::vector<size_t>> wait_all(Group& group, const std::vector<Group::Request>& requests,
                                     uint64_t timeout_ms) {
  std::vector<size_t> open(requests.size());
  for (size_t i = 0; i < open.size(); ++i) open[i] = i;
  Waiter waiter(timeout_ms);
  while (!open.empty()) {
    std::vector<size_t> still;
    for (const size_t one : open) {
      if (!MR_TRY(group.test(requests[one]))) still.push_back(one);
    }
    if (still.size() < open.size()) waiter.progressed();
    open = std::move(still);
    if (!open.empty() && !waiter.pause()) break;
  }
  return open;
}

Error too_slow(std::string_view who, const Patience& patience) {
  return make_error(Code::kUnavailable, "{} did not answer within {:.1f} s while {}", who,
                    static_cast<double>(patience.timeout_ms) / 1000, patience.doing)
      .with_hint("look at what that rank is doing; a longer time: --timeout");
}

std::string names_of(const std::vector<size_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (size_t i = 0; i < ranks.size() && i < 16; ++i) text += fmt::format(" {}", ranks[i] + 1);
  return ranks.size() > 16 ? fmt::format("{} and {} more", text, ranks.size() - 16) : text;
}

// Rank 0 asks everyone; who does not answer is named in the verdict.
Status collect(Group& group, Gathering& gathering, const Patience& patience) {
  gathering.sizes.resize(group.size());
  gathering.parts.resize(group.size());
  gathering.parts[0] = gathering.own;
  std::vector<Group::Request> requests;
  for (uint32_t rank = 1; rank < group.size(); ++rank)
    requests.push_back(MR_TRY(group.receive(rank, Tag::kVoteSize, writable(gathering.sizes[rank]))));
  const std::vector<size_t> missing = MR_TRY(wait_all(group, requests, patience.timeout_ms));
  if (!missing.empty()) {
    gathering.verdict = "e" + too_slow(names_of(missing), patience).message();
    return {};
  }
  requests.clear();
  for (uint32_t rank = 1; rank < group.size(); ++rank) {
    if (gathering.sizes[rank] > kMaxMessage)
      return make_error(Code::kCorrupt, "rank {} answers nonsense", rank);
    gathering.parts[rank].resize(gathering.sizes[rank]);
    requests.push_back(MR_TRY(group.receive(rank, Tag::kVote, writable(gathering.parts[rank]))));
  }
  const std::vector<size_t> late = MR_TRY(wait_all(group, requests, patience.timeout_ms));
  gathering.verdict =
      late.empty() ? pack(gathering.parts) : "e" + too_slow(names_of(late), patience).message();
  return {};
}

// From rank 0 down a binomial tree: rank r hears from r without its lowest bit.
Status spread(Group& group, Gathering& gathering, const Patience& patience) {
  const uint32_t rank = group.rank();
  // Rank 0 itself may have waited for someone as long as anybody waits.
  const uint64_t longer = 2 * patience.timeout_ms + 5000;
  uint32_t lowest = 1;
  while (rank != 0 && (rank & lowest) == 0) lowest <<= 1;
  if (rank != 0) {
    const uint32_t parent = rank - lowest;
    const auto hear = [&](Tag tag, std::span<std::byte> into) -> Status {
      const Group::Request request = MR_TRY(group.receive(parent, tag, into));
      if (!MR_TRY(wait_all(group, {request}, longer)).empty())
        return too_slow(fmt::format("rank {}", parent), {longer, patience.doing});
      return {};
    };
    MR_TRY(hear(Tag::kVerdictSize, writable(gathering.verdict_size)));
    if (gathering.verdict_size > kMaxMessage)
      return make_error(Code::kTooLarge, "too much is said in one vote");
    gathering.verdict.resize(gathering.verdict_size);
    MR_TRY(hear(Tag::kVerdict, writable(gathering.verdict)));
  } else {
    while (lowest < group.size()) lowest <<= 1;
    gathering.verdict_size = gathering.verdict.size();
  }
  std::vector<Group::Request> requests;
  for (uint32_t bit = lowest >> 1; bit > 0; bit >>= 1) {
    if (rank + bit >= group.size()) continue;
    requests.push_back(MR_TRY(group.send(rank + bit, Tag::kVerdictSize, readable(gathering.verdict_size))));
    requests.push_back(MR_TRY(group.send(rank + bit, Tag::kVerdict, gathering.verdict)));
  }
  // A rank that hears nothing any more is the failure of the next vote, not of this one.
  MR_TRY(wait_all(group, requests, patience.timeout_ms));
  return {};
}

Result<std::vector<std::string>> unpack(std::string_view verdict, uint32_t ranks) {
  if (verdict.starts_with('e')) return make_error(Code::kUnavailable, "{}", verdict.substr(1));
  std::vector<std::string> parts;
  verdict.remove_prefix(std::min<size_t>(1, verdict.size()));
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    uint64_t size = 0;
    if (verdict.size() < sizeof size) return make_error(Code::kCorrupt, "a vote is cut short");
    std::memcpy(&size, verdict.data(), sizeof size);
    verdict.remove_prefix(sizeof size);
    if (size > verdict.size()) return make_error(Code::kCorrupt, "a vote is cut short");
    parts.emplace_back(verdict.substr(0, size));
    verdict.remove_prefix(size);
  }
  return parts;
}

Status gather(Group& group, Gathering& gathering, const Patience& patience) {
  gathering.own_size = gathering.own.size();
  if (group.rank() == 0) {
    MR_TRY(collect(group, gathering, patience));
    return spread(group, gathering, patience);
  }
  const Group::Request size = MR_TRY(group.send(0, Tag::kVoteSize, readable(gathering.own_size)));
  const Group::Request body = MR_TRY(group.send(0, Tag::kVote, gathering.own));
  MR_TRY(spread(group, gathering, patience));
  // What was answered was also received, except where others kept rank 0 from asking for it.
  if (gathering.verdict.starts_with('e')) return {};
  if (!MR_TRY(wait_all(group, {size, body}, patience.timeout_ms)).empty())
    return too_slow("rank 0", patience);
  return {};
}

}  // namespace

Result<std::vector<std::string>> gather_all(Group& group, std::string_view own, const Patience& patience) {
  const auto gathering = std::make_shared<Gathering>();
  gathering->own = own;
  const Status done = gather(group, *gathering, patience);
  if (!done || gathering->verdict.starts_with('e')) group.keep(gathering);
  if (!done) return done.error().copy();
  return unpack(gathering->verdict, group.size());
}

Status vote(Group& group, const Status& own, const Patience& patience) {
  std::string said;
  if (!own)
    said = fmt::format("{}\n{}\n{}", static_cast<int>(own.error().code()), own.error().message(),
                       own.error().hint());
  const std::vector<std::string> all = MR_TRY(gather_all(group, said, patience));
  for (uint32_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    if (rank == group.rank()) return own.error().copy().within(fmt::format("rank {}", rank));
    const size_t line = all[rank].find('\n');
    const size_t end = all[rank].rfind('\n');
    const auto code = parse_number<unsigned>(std::string_view(all[rank]).substr(0, line));
    if (!code || line == std::string::npos || end <= line || *code > static_cast<unsigned>(Code::kCancelled))
      return make_error(Code::kCorrupt, "rank {} votes nonsense", rank);
    return make_error(static_cast<Code>(*code), "rank {}: {}", rank,
                      all[rank].substr(line + 1, end - line - 1))
        .with_hint(all[rank].substr(end + 1));
  }
  return {};
}

}  // namespace millrace::exchange
