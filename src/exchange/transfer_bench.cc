// Measures the three ways in turn, in rounds timed between votes.
#include "exchange/transfer_bench.h"

#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "base/number.h"
#include "exchange/manifest.h"
#include "exchange/plan.h"
#include "exchange/shipment.h"

namespace millrace::exchange {

namespace {

using Clock = std::chrono::steady_clock;
constexpr Patience kPatience{600'000, "measuring"};
constexpr uint64_t kRawMessage = 16 << 20;
constexpr uint64_t kHeldToLeaving = 10;
constexpr uint64_t kPlaces = 5;

struct Moved {
  std::string_view from;
  std::span<std::byte> into;
  uint64_t sample_bytes;
};
struct Means {
  std::shared_ptr<GatherPool> pool;
  std::shared_ptr<Neighbours> neighbours;  // null: everything is sent
};

// A directory with one segment, gone afterwards.
class Samples {
 public:
  static Result<std::unique_ptr<Samples>> make(uint64_t bytes) {
    std::unique_ptr<Samples> made(new Samples);
    made->directory_ = std::filesystem::temp_directory_path() / "millrace-bench-XXXXXX";
    if (::mkdtemp(made->directory_.data()) == nullptr)
      return make_system_error(errno, "making " + made->directory_);
    const std::string path = made->directory_ + "/" + segment_name(0);
    {
      std::ofstream file(path, std::ios::binary);
      const std::string some(1 << 20, 'x');
      for (uint64_t at = 0; at < bytes; at += some.size())
        file.write(some.data(), static_cast<std::streamsize>(std::min<uint64_t>(some.size(), bytes - at)));
      if (!file.flush()) return make_error(Code::kIo, "{} cannot be written", path);
    }
    made->file_ = MR_TRY(MappedFile::open(path));
    return made;
  }
  ~Samples() {
    std::error_code ignored;
    if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
  }

  const std::string& directory() const { return directory_; }
  std::string_view bytes() const { return file_.bytes(); }

 private:
  Samples() = default;
  std::string directory_;
  MappedFile file_;
};

// As large messages as there may be, all posted at once.
Status move_raw(Group& group, const Planner& planner, const Moved& what) {
  const auto& [from, into, sample_bytes] = what;
  std::vector<Group::Request> requests;
  uint64_t at = 0;
  for (const Planner::Flow& flow : planner.receives(group.rank())) {
    for (uint64_t left = flow.count * sample_bytes; left > 0;) {
      const uint64_t now = std::min(left, kRawMessage);
      requests.push_back(MR_TRY(group.receive(flow.peer, Tag::kSamples, into.subspan(at, now))));
      at += now;
      left -= now;
    }
  }
  at = 0;
  for (const Planner::Flow& flow : planner.sends(group.rank())) {
    for (uint64_t left = flow.count * sample_bytes; left > 0;) {
      const uint64_t now = std::min(left, kRawMessage);
      requests.push_back(MR_TRY(group.send(flow.peer, Tag::kSamples, from.substr(at, now))));
      at += now;
      left -= now;
    }
  }
  while (!requests.empty()) {
    bool moved = false;
    for (size_t i = 0; i < requests.size();) {
      if (MR_TRY(group.test(requests[i]))) {
        requests[i] = requests.back();
        requests.pop_back();
        moved = true;
      } else {
        ++i;
      }
    }
    if (!moved) std::this_thread::yield();
  }
  return {};
}

Status move_samples(Group& group, const RankPlan& plan, const Moved& what, const Means& means) {
  const auto& [from, into, sample_bytes] = what;
  std::vector<Outgoing> outgoing;
  for (const Send& send : plan.sends) {
    Outgoing& to = outgoing.emplace_back();
    to.to = send.to;
    to.reserve(send.slots.size());
    for (const uint32_t slot : send.slots)
      to.add({slot, sample_bytes, slot * sample_bytes, 0, 0, 0, 0},
             from.substr(slot * sample_bytes, sample_bytes));
  }
  std::vector<Incoming> incoming;
  for (const Receive& receive : plan.receives) incoming.push_back({receive.from, receive.slots.size()});
  Shipment shipment(group, std::move(outgoing), std::move(incoming), kPatience);
  shipment.use(means.pool);
  shipment.use(means.neighbours);
  MR_TRY(shipment.exchange_lists());
  MR_TRY(shipment.open_segments());
  return shipment.exchange_samples(into.first(plan.received() * sample_bytes));
}

// The slowest rank's seconds.
template <typename Work>
Result<double> timed(Group& group, Work work) {
  MR_TRY(vote(group, {}, kPatience));
  const auto start = Clock::now();
  MR_TRY(work());
  const double own = std::chrono::duration<double>(Clock::now() - start).count();
  double slowest = 0;
  for (const std::string& said : MR_TRY(gather_all(group, fmt::format("{:.9f}", own), kPatience)))
    slowest = std::max(slowest, parse_number<double>(said).value_or(0));
  return slowest;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

Result<TransferRates> bench_transfer(Group& group, const TransferBench& options) {
  // A tenth leaves, from anywhere, and every round arrives elsewhere: as with real samples, caches do not
  // help. The raw messages take and leave their bytes in another stretch of the same memory every round, for
  // the same reason.
  const uint64_t held = kHeldToLeaving * options.samples;
  auto made = Samples::make(held * options.sample_bytes);
  MR_TRY(vote(group, made ? Status() : made.error().copy(), kPatience));
  const std::string_view from = (*made)->bytes();
  std::string into(kPlaces * options.samples * options.sample_bytes, 'x');
  std::vector<Resident> residents(held);
  for (uint64_t i = 0; i < held; ++i) residents[i].id = i;
  const Means sending{std::make_shared<GatherPool>(), nullptr};
  const Means taking{sending.pool, MR_TRY(Neighbours::meet(group, (*made)->directory(), kPatience))};
  std::vector<double> raw;
  std::vector<double> sent;
  std::vector<double> taken;
  uint64_t bytes = 0;
  uint64_t used = 0;
  const auto next_place = [&] {
    const uint64_t each = options.samples * options.sample_bytes;
    return std::as_writable_bytes(std::span(into)).subspan(used++ % kPlaces * each, each);
  };
  for (uint64_t round = 0; round <= options.rounds; ++round) {
    EpochView view;
    view.epoch = round;
    view.fraction = 1.0 / kHeldToLeaving;
    view.sizes.assign(group.size(), held);
    PlanOptions plan_options;
    plan_options.seed = options.seed;
    const Planner planner(plan_options, std::move(view));
    const RankPlan plan = MR_TRY(planner.plan(group.rank(), residents));
    bytes = plan.sent() * options.sample_bytes;
    const std::string_view stretch =
        from.substr(round % kHeldToLeaving * options.samples * options.sample_bytes);
    const auto by = [&](const Means& means) {
      return timed(group, [&] {
        return move_samples(group, plan, {from, next_place(), options.sample_bytes}, means);
      });
    };
    const double by_raw = MR_TRY(timed(
        group, [&] { return move_raw(group, planner, {stretch, next_place(), options.sample_bytes}); }));
    const double by_sending = MR_TRY(by(sending));
    const double by_taking = MR_TRY(by(taking));
    if (round == 0) continue;  // pages appear, connections are made
    raw.push_back(by_raw);
    sent.push_back(by_sending);
    taken.push_back(by_taking);
  }
  return TransferRates{median(raw), median(sent), median(taken), bytes};
}

}  // namespace millrace::exchange
