// Implements plans: layers of shifts, columns of the published rule, and the choice of samples.
#include "exchange/plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/assert.h"
#include "base/random.h"
#include "base/text.h"
#include "exchange/balance.h"

namespace millrace::exchange {

namespace {

// What a random sequence is for: each purpose has its own.
enum class Purpose : uint64_t { kRound = 1, kLayer, kSelect, kTie, kDeal, kColumns, kTargets };

uint64_t key_of(const PlanOptions& options, Purpose purpose, uint64_t epoch, uint64_t place) {
  uint64_t key = mix(options.seed);
  for (const uint64_t part : {static_cast<uint64_t>(purpose), epoch, place}) key = mix(key ^ part);
  return key;
}

// More layers than this would make messages small; quotas between two levels count as the lower one.
constexpr size_t kMostLayers = 8;

std::vector<uint64_t> levels_of(std::vector<uint64_t> quotas) {
  std::ranges::sort(quotas);
  std::vector<uint64_t> levels = quotas;
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  std::erase(levels, 0);
  if (levels.size() <= kMostLayers) return levels;
  std::vector<uint64_t> few;
  for (size_t i = 0; i < kMostLayers; ++i) few.push_back(quotas[i * quotas.size() / kMostLayers]);
  few.erase(std::unique(few.begin(), few.end()), few.end());
  std::erase(few, 0);
  return few;
}

template <typename Part>
void add_to(std::vector<Part>& parts, uint32_t peer, uint32_t Part::* who, std::span<const uint32_t> slots) {
  const auto found = std::ranges::lower_bound(parts, peer, {}, who);
  auto at = found;
  if (found == parts.end() || (*found).*who != peer) {
    Part part;
    part.*who = peer;
    at = parts.insert(found, part);
  }
  at->slots.insert(at->slots.end(), slots.begin(), slots.end());
}

template <typename T, size_t N>
Result<T> parse_name(std::string_view text, const char* what,
                     const std::pair<std::string_view, T> (&names)[N]) {
  std::string known;
  for (const auto& [name, value] : names) {
    if (name == text) return value;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
  }
  return make_error(Code::kInvalid, "\"{}\" is no {}", text, what).with_hint("one of: " + known);
}

constexpr std::pair<std::string_view, Policy> kPolicies[] = {{"shift", Policy::kShift},
                                                             {"paper", Policy::kPaper}};
constexpr std::pair<std::string_view, Select> kSelects[] = {{"oldest", Select::kOldest},
                                                            {"random", Select::kRandom},
                                                            {"label-aware", Select::kLabelAware},
                                                            {"callback", Select::kCallback}};

}  // namespace

Result<Policy> parse_policy(std::string_view text) {
  return parse_name(text, "policy", kPolicies);
}
std::string_view policy_name(Policy policy) {
  return kPolicies[static_cast<size_t>(policy)].first;
}
Result<Select> parse_select(std::string_view text) {
  return parse_name(text, "way to select samples", kSelects);
}
std::string_view select_name(Select select) {
  return kSelects[static_cast<size_t>(select)].first;
}

uint64_t RankPlan::sent() const {
  uint64_t sum = 0;
  for (const Send& send : sends) sum += send.slots.size();
  return sum;
}

uint64_t RankPlan::received() const {
  uint64_t sum = 0;
  for (const Receive& receive : receives) sum += receive.slots.size();
  return sum;
}

Planner::Planner(PlanOptions options, EpochView view) : options_(std::move(options)), view_(std::move(view)) {
  MR_ASSERT(!view_.sizes.empty() && view_.sizes.size() <= kMaxRanks, view_.sizes.size());
  // A fraction of a sample becomes a whole one in as many epochs as it is worth; all ranks round alike.
  const double round = Random(key_of(options_, Purpose::kRound, view_.epoch, 0)).unit();
  const double fraction = std::clamp(view_.fraction, 0.0, 1.0);
  for (const uint64_t size : view_.sizes) {
    const double exact = fraction * static_cast<double>(size);
    const double up = options_.policy == Policy::kPaper ? 1e-9 : round;
    quotas_.push_back(std::min(size, static_cast<uint64_t>(std::floor(exact + up))));
  }
  if (options_.policy == Policy::kPaper) {
    make_columns();
  } else {
    make_layers();
  }
}

void Planner::make_layers() {
  uint64_t below = 0;
  for (const uint64_t level : levels_of(quotas_)) {
    Layer layer;
    layer.amount = level - below;
    below = level;
    layer.places.resize(view_.sizes.size());
    for (uint32_t rank = 0; rank < view_.sizes.size(); ++rank) {
      if (quotas_[rank] >= level) layer.order.push_back(rank);
    }
    if (layer.order.size() < 2) break;
    Random random(key_of(options_, Purpose::kLayer, view_.epoch, layers_.size()));
    random.shuffle(std::span(layer.order));
    for (uint32_t place = 0; place < layer.order.size(); ++place) layer.places[layer.order[place]] = place;
    std::vector<uint32_t> shifts(layer.order.size() - 1);
    std::iota(shifts.begin(), shifts.end(), 1);
    random.shuffle(std::span(shifts));
    shifts.resize(std::min<uint64_t>({shifts.size(), std::max(options_.partners, 1U), layer.amount}));
    layer.shifts = std::move(shifts);
    layers_.push_back(std::move(layer));
  }
  // What a rank really sends: the layers that it is part of.
  for (uint32_t rank = 0; rank < quotas_.size(); ++rank) {
    uint64_t sum = 0;
    for (const Flow& flow : sends(rank)) sum += flow.count;
    quotas_[rank] = sum;
  }
}

// Every rank walks the same list of slots, so only as many as the smallest rank has can take part.
void Planner::make_columns() {
  const uint64_t least = *std::ranges::min_element(view_.sizes);
  const uint64_t leaving = *std::ranges::min_element(quotas_);
  std::vector<uint32_t> slots(least);
  std::iota(slots.begin(), slots.end(), 0);
  Random(key_of(options_, Purpose::kColumns, view_.epoch, 0)).shuffle(std::span(slots));
  slots.resize(leaving);
  slots_ = std::move(slots);
  Random random(key_of(options_, Purpose::kTargets, view_.epoch, 0));
  std::vector<uint32_t> targets(view_.sizes.size());
  std::iota(targets.begin(), targets.end(), 0);
  for (uint64_t column = 0; column < leaving; ++column) {
    random.shuffle(std::span(targets));
    targets_.push_back(targets);
  }
  std::ranges::fill(quotas_, leaving);
}

template <typename Peer>
std::vector<Planner::Flow> Planner::flows(uint32_t rank, Peer peer) const {
  std::vector<Flow> found;
  for (const Layer& layer : layers_) {
    const auto ranks = static_cast<uint32_t>(layer.order.size());
    const uint32_t place = layer.places[rank];
    if (layer.order[place] != rank) continue;
    for (size_t i = 0; i < layer.shifts.size(); ++i) {
      const uint64_t amount =
          layer.amount / layer.shifts.size() + (i < layer.amount % layer.shifts.size() ? 1 : 0);
      found.push_back({layer.order[peer(place, layer.shifts[i], ranks)], amount});
    }
  }
  return found;
}

std::vector<Planner::Flow> Planner::sends(uint32_t rank) const {
  if (options_.policy == Policy::kShift)
    return flows(rank,
                 [](uint32_t place, uint32_t shift, uint32_t ranks) { return (place + shift) % ranks; });
  std::vector<Flow> found;
  for (const Send& send : plan_paper(rank).sends) found.push_back({send.to, send.slots.size()});
  return found;
}

std::vector<Planner::Flow> Planner::receives(uint32_t rank) const {
  if (options_.policy == Policy::kShift)
    return flows(
        rank, [](uint32_t place, uint32_t shift, uint32_t ranks) { return (place + ranks - shift) % ranks; });
  std::vector<Flow> found;
  for (const Receive& receive : plan_paper(rank).receives)
    found.push_back({receive.from, receive.slots.size()});
  return found;
}

std::vector<uint32_t> Planner::choose_random(uint32_t rank, uint64_t count) const {
  std::vector<uint32_t> slots(view_.sizes[rank]);
  std::iota(slots.begin(), slots.end(), 0);
  Random(key_of(options_, Purpose::kSelect, view_.epoch, rank)).shuffle(std::span(slots));
  slots.resize(count);
  return slots;
}

std::vector<uint32_t> Planner::choose_oldest(uint32_t rank, std::span<const Resident> residents,
                                             uint64_t count) const {
  const uint64_t key = key_of(options_, Purpose::kTie, view_.epoch, rank);
  std::vector<uint32_t> slots(residents.size());
  std::iota(slots.begin(), slots.end(), 0);
  const auto older = [&](uint32_t a, uint32_t b) {
    if (residents[a].since != residents[b].since) return residents[a].since < residents[b].since;
    const uint64_t tie_a = mix(residents[a].id ^ key);
    const uint64_t tie_b = mix(residents[b].id ^ key);
    return tie_a != tie_b ? tie_a < tie_b : a < b;
  };
  std::ranges::nth_element(slots, slots.begin() + static_cast<ptrdiff_t>(count), older);
  slots.resize(count);
  std::ranges::sort(slots);
  // Those that go to one rank are any of them, not the oldest of all.
  Random(key_of(options_, Purpose::kDeal, view_.epoch, rank)).shuffle(std::span(slots));
  return slots;
}

Result<std::vector<uint32_t>> Planner::choose(uint32_t rank, std::span<const Resident> residents,
                                              const std::vector<Flow>& flows) const {
  const uint64_t count = quotas_[rank];
  switch (options_.select) {
    case Select::kRandom:
      return choose_random(rank, count);
    case Select::kOldest:
      return choose_oldest(rank, residents, count);
    case Select::kLabelAware: {
      std::vector<LabelFlow> wanted;
      for (const Flow& flow : flows) wanted.push_back({flow.peer, flow.count});
      return choose_by_label(
          {rank, residents, view_.labels, key_of(options_, Purpose::kTie, view_.epoch, rank)}, wanted);
    }
    case Select::kCallback:
      break;
  }
  if (!options_.choose) return make_error(Code::kInvalid, "selection by callback needs a callback");
  std::vector<uint32_t> chosen = options_.choose(residents, count);
  std::vector<char> seen(residents.size());
  for (const uint32_t slot : chosen) {
    if (slot >= residents.size() || seen[slot] != 0 || chosen.size() != count) {
      return make_error(Code::kInvalid, "the callback must choose {} different slots below {}", count,
                        residents.size());
    }
    seen[slot] = 1;
  }
  if (chosen.size() != count)
    return make_error(Code::kInvalid, "the callback chose {} samples, {} are to leave", chosen.size(), count);
  return chosen;
}

RankPlan Planner::plan_paper(uint32_t rank) const {
  RankPlan plan;
  for (size_t column = 0; column < slots_.size(); ++column) {
    const std::vector<uint32_t>& targets = targets_[column];
    const uint32_t to = targets[rank];
    if (to == rank) continue;  // the published rule keeps it
    const auto from = static_cast<uint32_t>(std::ranges::find(targets, rank) - targets.begin());
    add_to(plan.sends, to, &Send::to, std::span(&slots_[column], 1));
    add_to(plan.receives, from, &Receive::from, std::span(&slots_[column], 1));
  }
  return plan;
}

Result<RankPlan> Planner::plan(uint32_t rank, std::span<const Resident> residents) const {
  MR_ASSERT(residents.size() == view_.sizes[rank], rank, residents.size());
  if (options_.policy == Policy::kPaper) return plan_paper(rank);
  RankPlan plan;
  const std::vector<Flow> out = sends(rank);
  const std::vector<uint32_t> chosen = MR_TRY(choose(rank, residents, out));
  const std::span slots(chosen);
  uint64_t at = 0;
  for (const Flow& flow : out) {
    add_to(plan.sends, flow.peer, &Send::to, slots.subspan(at, flow.count));
    at += flow.count;
  }
  at = 0;
  for (const Flow& flow : receives(rank)) {
    add_to(plan.receives, flow.peer, &Receive::from, slots.subspan(at, flow.count));
    at += flow.count;
  }
  return plan;
}

RankPlan plan_redeal(uint32_t rank, const std::vector<uint64_t>& sizes, uint32_t world) {
  const uint64_t all = std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
  // Those that hold most keep the odd ones: every sample that need not move stays.
  std::vector<uint32_t> largest(world);
  std::iota(largest.begin(), largest.end(), 0);
  std::ranges::sort(
      largest, [&](uint32_t a, uint32_t b) { return sizes[a] != sizes[b] ? sizes[a] > sizes[b] : a < b; });
  std::vector<uint64_t> wanted(sizes.size());
  for (uint32_t i = 0; i < world; ++i) wanted[largest[i]] = all / world + (i < all % world ? 1 : 0);
  RankPlan plan;
  uint64_t sent = 0;
  uint64_t received = 0;
  uint32_t giver = 0;
  uint32_t taker = 0;
  uint64_t given = 0;
  uint64_t taken = 0;
  while (true) {
    while (giver < sizes.size() && (sizes[giver] <= wanted[giver] || given == sizes[giver] - wanted[giver])) {
      ++giver;
      given = 0;
    }
    while (taker < sizes.size() && (sizes[taker] >= wanted[taker] || taken == wanted[taker] - sizes[taker])) {
      ++taker;
      taken = 0;
    }
    if (giver == sizes.size() || taker == sizes.size()) return plan;
    const uint64_t moved =
        std::min(sizes[giver] - wanted[giver] - given, wanted[taker] - sizes[taker] - taken);
    std::vector<uint32_t> slots(moved);
    if (giver == rank) {
      // The last slots leave, so that the others keep their places.
      std::iota(slots.begin(), slots.end(), static_cast<uint32_t>(sizes[rank] - sent - moved));
      add_to(plan.sends, taker, &Send::to, slots);
      sent += moved;
    } else if (taker == rank) {
      std::iota(slots.begin(), slots.end(), static_cast<uint32_t>(sizes[rank] + received));
      add_to(plan.receives, giver, &Receive::from, slots);
      received += moved;
    }
    given += moved;
    taken += moved;
  }
}

}  // namespace millrace::exchange
