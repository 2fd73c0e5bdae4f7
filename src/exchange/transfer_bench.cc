// Rounds by turns, timed between votes.
#include "exchange/transfer_bench.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

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
  std::shared_ptr<GatherPool> pool;
};

// As large messages as there may be, all posted at once.
Status move_raw(Group& group, const Planner& planner, const Moved& what) {
  const auto& [from, into, sample_bytes, pool] = what;
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

Status move_samples(Group& group, const RankPlan& plan, const Moved& what) {
  const auto& [from, into, sample_bytes, pool] = what;
  std::vector<Outgoing> outgoing;
  for (const Send& send : plan.sends) {
    Outgoing& to = outgoing.emplace_back();
    to.to = send.to;
    for (const uint32_t slot : send.slots)
      to.samples.push_back(
          {{slot, sample_bytes, 0, 0, 0, 0}, from.substr(slot * sample_bytes, sample_bytes)});
  }
  std::vector<Incoming> incoming;
  for (const Receive& receive : plan.receives) incoming.push_back({receive.from, receive.slots.size()});
  Shipment shipment(group, std::move(outgoing), std::move(incoming), kPatience);
  shipment.use(pool);
  MR_TRY(shipment.exchange_lists());
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
    slowest = std::max(slowest, std::strtod(said.c_str(), nullptr));
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
  std::string from(held * options.sample_bytes, 'x');
  std::string into(kPlaces * options.samples * options.sample_bytes, 'x');
  std::vector<Resident> residents(held);
  for (uint64_t i = 0; i < held; ++i) residents[i].id = i;
  const auto pool = std::make_shared<GatherPool>();
  std::vector<double> raw;
  std::vector<double> memory;
  uint64_t bytes = 0;
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
    const auto place = [&](uint64_t number) {
      return std::as_writable_bytes(std::span(into))
          .subspan(number % kPlaces * options.samples * options.sample_bytes,
                   options.samples * options.sample_bytes);
    };
    const auto by_raw = [&] {
      const std::string_view stretch =
          std::string_view(from).substr(round % kHeldToLeaving * options.samples * options.sample_bytes);
      return move_raw(group, planner, {stretch, place(2 * round), options.sample_bytes, pool});
    };
    const double raw_seconds = MR_TRY(timed(group, by_raw));
    const double memory_seconds = MR_TRY(timed(group, [&] {
      return move_samples(group, plan, {from, place(2 * round + 1), options.sample_bytes, pool});
    }));
    if (round == 0) continue;  // pages appear, connections are made
    raw.push_back(raw_seconds);
    memory.push_back(memory_seconds);
  }
  return TransferRates{median(raw), median(memory), bytes};
}

}  // namespace millrace::exchange
