// Asks the holders of some objects ahead, hears them in the order of keys, and hands over what is bad.
#include "cluster/verification.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/rendezvous.h"
#include "cluster/cluster_calls.h"
#include "cluster/cluster_list.h"
#include "cluster/hidden_bucket.h"
#include "store/waiting.h"

namespace millrace::cluster {

namespace {

constexpr uint64_t kPageUs = 3'000'000;  // after it no further object is begun
constexpr size_t kAhead = 4;             // objects that are asked for at once
// A mark may be on its way to its last holder; and an object may be replaced while it is looked at.
constexpr unsigned kMostTurns = 10;
constexpr auto kTurnPause = std::chrono::milliseconds(100);

using Found = VerifyReply::Found;

// One object whose slices are being compared.
struct Checking {
  ObjectName name;
  store::Record record;
  uint64_t block = 0;
  std::set<unsigned> settled;
  bool below = false;
  unsigned turns = 0;

  struct Asked {
    unsigned slot = 0;
    std::future<Result<Reply>> answer;
  };
  std::vector<Asked> asked;
};

struct Heard {
  unsigned slot = 0;
  Result<VerifyReply> reply;
};

class Page {
 public:
  explicit Page(Cluster& cluster) : cluster_(cluster), until_us_(steady_us() + kPageUs) {}

  Result<Verified> run(const VerifyPosition& from) {
    RecordPage page = MR_TRY(list_some_records(cluster_, {from.bucket, "", from.after}));
    std::string after = from.after;
    auto next = page.listed.begin();
    std::deque<Checking> ahead;
    while (next != page.listed.end() || !ahead.empty()) {
      const bool late = steady_us() >= until_us_;
      while (next != page.listed.end() && ahead.size() < kAhead && (!late || after == from.after)) {
        ahead.push_back(begin({from.bucket, std::move(next->key)}, std::move(next->record), from));
        ++next;
      }
      if (ahead.empty()) return stop_at({from.bucket, after, "", 0, {}, false});
      Checking& first = ahead.front();
      if (!finish(first)) {
        return stop_at({from.bucket, after, first.record.spread.write_id, first.block,
                        std::move(first.settled), first.below});
      }
      after = std::move(first.name.key);
      ahead.pop_front();
    }
    if (!page.reached.empty()) return stop_at({from.bucket, page.reached, "", 0, {}, false});
    const std::string following = next_hidden(from.bucket);
    if (following.empty()) return std::move(verified_);
    return stop_at({following, "", "", 0, {}, false});
  }

 private:
  Result<Verified> stop_at(VerifyPosition position) {
    verified_.next = std::move(position);
    return std::move(verified_);
  }

  Checking begin(ObjectName name, store::Record record, const VerifyPosition& from) {
    Checking checking{std::move(name), std::move(record), 0, {}, false, 0, {}};
    if (!from.write_id.empty() && checking.record.spread.write_id == from.write_id) {
      checking.block = from.block;
      checking.settled = from.settled;
      checking.below = from.below;
    }
    ask(checking);
    return checking;
  }

  void ask(Checking& checking) {
    const store::Spread& spread = checking.record.spread;
    const auto maps = cluster_.membership().maps();
    checking.asked.clear();
    for (unsigned slot = 0; slot < spread.holders.size(); ++slot) {
      if (checking.settled.contains(slot)) continue;
      const DriveId drive = spread.holders[slot];
      VerifyRequest request{drive, checking.name, spread.write_id, static_cast<uint8_t>(slot),
                            checking.block};
      checking.asked.push_back({slot, store::ask_for<Reply>([&](Done<Reply> done) {
                                  if (!maps->back()->is_alive(drive))
                                    return done(make_error(Code::kUnavailable, "its node is away"));
                                  cluster_.call(maps->back()->node_of(drive)->number, std::move(request),
                                                std::move(done));
                                })});
    }
  }

  static std::vector<Heard> hear(Checking& checking) {
    std::vector<Heard> heard;
    for (Checking::Asked& asked : checking.asked) {
      Result<Reply> reply = asked.answer.get();
      auto* told = reply ? std::get_if<VerifyReply>(&*reply) : nullptr;
      if (told != nullptr) {
        heard.push_back({asked.slot, std::move(*told)});
      } else {
        heard.push_back({asked.slot, reply ? make_error(Code::kUnavailable, "its node answered nonsense")
                                           : reply.take_error()});
      }
    }
    return heard;
  }

  // False: time is over, and some of its blocks are left.
  bool finish(Checking& checking) {
    while (true) {
      const std::vector<Heard> heard = hear(checking);
      const bool trouble = std::ranges::any_of(
          heard, [](const Heard& one) { return !one.reply || one.reply->found != Found::kWhole; });
      if (trouble) {
        const Look look = look_again(checking, heard);
        if (look == Look::kGone) return true;
        if (look == Look::kAnew) {
          ask(checking);
          continue;
        }
      }
      const uint64_t next = take(checking, heard);
      if (next == 0) {
        count(checking);
        return true;
      }
      checking.block = next;
      if (steady_us() >= until_us_) return false;
      ask(checking);
    }
  }

  enum class Look : uint8_t {
    kSame,
    kAnew,
    kGone,
  };
  // Whether what was heard is to be believed: the object may be another by now, or its last mark on its way.
  Look look_again(Checking& checking, const std::vector<Heard>& heard) {
    if (++checking.turns >= kMostTurns) return Look::kSame;
    auto now = find_now(cluster_, checking.name);
    if (!now) return Look::kSame;
    if (!*now) return Look::kGone;
    const store::Spread& spread = (*now)->spread;
    if (spread.write_id != checking.record.spread.write_id ||
        spread.holders != checking.record.spread.holders) {
      checking.record = std::move(**now);
      checking.block = 0;
      checking.settled.clear();
      checking.below = false;
      return Look::kAnew;
    }
    const bool unmarked = std::ranges::any_of(
        heard, [](const Heard& one) { return one.reply && one.reply->found == Found::kUnmarked; });
    if (!unmarked) return Look::kSame;
    std::this_thread::sleep_for(kTurnPause);
    return Look::kAnew;
  }

  // The block to go on with; 0: all of them were compared.
  uint64_t take(Checking& checking, const std::vector<Heard>& heard) {
    uint64_t next = 0;
    std::set<unsigned> lost;
    bool unmarked = false;
    for (const Heard& one : heard) {
      if (one.reply) verified_.bytes += one.reply->bytes;
      const bool whole = one.reply && one.reply->found == Found::kWhole;
      if (whole && one.reply->next != 0) {
        next = one.reply->next;
        continue;
      }
      checking.settled.insert(one.slot);
      if (whole) {
        ++verified_.slices;
        continue;
      }
      add_finding(checking, one);
      if (!one.reply) continue;
      checking.below = true;
      if (one.reply->found == Found::kUnmarked) {
        unmarked = true;
      } else {
        lost.insert(one.slot);
      }
    }
    if (unmarked && cluster_.ask_to_mend(checking.name)) ++verified_.handed_over;
    if (has_slice_beside(checking.record)) rebuild(checking, lost);
    return next;
  }

  void rebuild(const Checking& checking, const std::set<unsigned>& lost) {
    const store::Spread& spread = checking.record.spread;
    if (spread.holders.size() < lost.size() + spread.k) return;  // there is nothing to make them from
    for (const unsigned slot : lost) {
      SliceBuilder::Order order{checking.name, checking.record, spread, spread.holders[slot], lost};
      order.spread.slot = static_cast<uint8_t>(slot);
      cluster_.rebuild(std::move(order), [](Result<uint64_t>) {});
      ++verified_.handed_over;
    }
  }

  void count(const Checking& checking) {
    const store::Spread& spread = checking.record.spread;
    ++verified_.objects;
    if (checking.below || spread.holders.size() < size_t{spread.k} + spread.m) ++verified_.below;
  }

  void add_finding(const Checking& checking, const Heard& one) {
    SliceFinding finding;
    finding.name = checking.name;
    finding.belongs_to = target_of(checking.record);
    finding.slot = one.slot;
    finding.drive = checking.record.spread.holders[one.slot];
    if (!one.reply) {
      finding.kind = SliceFinding::Kind::kUnseen;
      finding.why = one.reply.error().message();
    } else {
      const bool damaged = one.reply->found == Found::kDamaged;
      finding.kind = damaged ? SliceFinding::Kind::kDamaged : SliceFinding::Kind::kMissing;
      finding.block = one.reply->bad_block;
      finding.why = one.reply->why;
    }
    verified_.findings.push_back(std::move(finding));
  }

  Cluster& cluster_;
  const uint64_t until_us_;
  Verified verified_;
};

}  // namespace

Result<Verified> verify_some(Cluster& cluster, const VerifyPosition& from) {
  return Page(cluster).run(from);
}

}  // namespace millrace::cluster
