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

// As large messages as there may be, all posted at once.
Status move_raw(Group& group, const std::vector<Planner::Flow>& sends, const std::vector<Planner::Flow>& receives,
                std::string& from, std::string& into, uint64_t sample_bytes) {
  std::vector<Group::Request> requests;
  uint64_t at = 0;
  for (const Planner::Flow& flow : receives) {
    for (uint64_t left = flow.count * sample_bytes; left > 0;) {
      const uint64_t now = std::min(left, kRawMessage);
      requests.push_back(MR_TRY(group.receive(flow.peer, Tag::kSamples, std::as_writable_bytes(std::span(into)).subspan(at, now))));
      at += now;
      left -= now;
    }
  }
  at = 0;
  for (const Planner::Flow& flow : sends) {
    for (uint64_t left = flow.count * sample_bytes; left > 0;) {
      const uint64_t now = std::min(left, kRawMessage);
      requests.push_back(MR_TRY(group.send(flow.peer, Tag::kSamples, std::string_view(from).substr(at, now))));
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

Status move_samples(Group& group, const RankPlan& plan, const std::string& from, std::string& into, uint64_t sample_bytes) {
  std::vector<Outgoing> outgoing;
  for (const Send& send : plan.sends) {
    Outgoing& to = outgoing.emplace_back();
    to.to = send.to;
    for (const uint32_t slot : send.slots)
      to.samples.push_back({{slot, sample_bytes, 0, 0, 0, 0}, std::string_view(from).substr(slot * sample_bytes, sample_bytes)});
  }
  std::vector<Incoming> incoming;
  for (const Receive& receive : plan.receives) incoming.push_back({receive.from, receive.slots.size()});
  Shipment shipment(group, std::move(outgoing), std::move(incoming), kPatience);
  MR_TRY(shipment.exchange_lists());
  return shipment.exchange_samples(std::as_writable_bytes(std::span(into)).subspan(0, plan.received() * sample_bytes));
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
  // Twice as many are held as leave, so that those that leave lie scattered.
  const uint64_t held = 2 * options.samples;
  std::string from(held * options.sample_bytes, 'x');
  std::string into(options.samples * options.sample_bytes, 0);
  std::vector<Resident> residents(held);
  for (uint64_t i = 0; i < held; ++i) residents[i].id = i;
  std::vector<double> raw;
  std::vector<double> memory;
  uint64_t bytes = 0;
  for (uint64_t round = 0; round <= options.rounds; ++round) {
    EpochView view;
    view.epoch = round;
    view.fraction = 0.5;
    view.sizes.assign(group.size(), held);
    PlanOptions plan_options;
    plan_options.seed = options.seed;
    const Planner planner(plan_options, std::move(view));
    const RankPlan plan = MR_TRY(planner.plan(group.rank(), residents));
    bytes = plan.sent() * options.sample_bytes;
    const auto by_raw = [&] {
      return move_raw(group, planner.sends(group.rank()), planner.receives(group.rank()), from, into, options.sample_bytes);
    };
    const double raw_seconds = MR_TRY(timed(group, by_raw));
    const double memory_seconds =
        MR_TRY(timed(group, [&] { return move_samples(group, plan, from, into, options.sample_bytes); }));
    if (round == 0) continue;  // pages appear, connections are made
    raw.push_back(raw_seconds);
    memory.push_back(memory_seconds);
  }
  return TransferRates{median(raw), median(memory), bytes};
}

}  // namespace millrace::exchange
