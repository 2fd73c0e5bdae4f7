// Implements Simulation: makes the plans of all ranks and applies them at once.
#include "exchange/simulate.h"

#include <algorithm>
#include <numeric>

#include "base/assert.h"
#include "base/random.h"

namespace millrace::exchange {

Result<Partition> parse_partition(std::string_view text) {
  for (const Partition one : {Partition::kRandom, Partition::kContiguous, Partition::kByShard}) {
    if (partition_name(one) == text) return one;
  }
  return make_error(Code::kInvalid, "\"{}\" is no partition", text)
      .with_hint("random, contiguous or by-shard");
}

std::string_view partition_name(Partition partition) {
  switch (partition) {
    case Partition::kRandom:
      return "random";
    case Partition::kContiguous:
      return "contiguous";
    case Partition::kByShard:
      break;
  }
  return "by-shard";
}

std::vector<uint32_t> deal_samples(const Deal& deal, const std::vector<uint64_t>& per_shard) {
  const uint64_t all = std::accumulate(per_shard.begin(), per_shard.end(), uint64_t{0});
  std::vector<uint32_t> owners;
  owners.reserve(all);
  if (deal.partition == Partition::kByShard) {
    for (size_t shard = 0; shard < per_shard.size(); ++shard)
      owners.insert(owners.end(), per_shard[shard], static_cast<uint32_t>(shard % deal.ranks));
    return owners;
  }
  // Rank r holds the samples from r·N/M on: sizes differ by one at most.
  for (uint32_t rank = 0; rank < deal.ranks; ++rank) {
    const uint64_t begin = all * rank / deal.ranks;
    const uint64_t end = all * (rank + 1) / deal.ranks;
    owners.insert(owners.end(), end - begin, rank);
  }
  if (deal.partition == Partition::kRandom) Random(mix(deal.seed)).shuffle(std::span(owners));
  return owners;
}

uint64_t owner_share(uint32_t rank, std::span<const Resident> residents) {
  const uint64_t key = mix(uint64_t{rank} + 1);
  uint64_t sum = 0;
  for (const Resident& one : residents) sum += mix(mix(one.id) ^ key);
  return sum;
}

uint64_t owner_hash(const Ranks& ranks) {
  uint64_t sum = 0;
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) sum += owner_share(rank, ranks[rank]);
  return sum;
}

std::vector<uint32_t> local_order(uint64_t seed, uint64_t epoch, uint32_t rank, uint32_t size) {
  constexpr uint64_t kPurpose = 0x6f72646572;
  uint64_t key = mix(seed ^ kPurpose);
  key = mix(key ^ epoch);
  key = mix(key ^ rank);
  std::vector<uint32_t> slots(size);
  std::iota(slots.begin(), slots.end(), 0);
  Random(key).shuffle(std::span(slots));
  return slots;
}

Simulation::Simulation(PlanOptions options, FractionSchedule fraction, Ranks ranks)
    : options_(std::move(options)), fraction_(std::move(fraction)), ranks_(std::move(ranks)) {
  uint64_t samples = 0;
  for (const auto& residents : ranks_) samples += residents.size();
  homes_.resize(samples);
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    for (const Resident& one : ranks_[rank]) {
      MR_ASSERT(one.id < samples, one.id, samples);
      homes_[one.id] = rank;
      if (one.label < kMaxClasses) classes_ = std::max(classes_, one.label + 1);
    }
  }
}

double Simulation::home_share() const {
  uint64_t home = 0;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    for (const Resident& one : ranks_[rank]) home += homes_[one.id] == rank ? 1 : 0;
  }
  return homes_.empty() ? 0 : static_cast<double>(home) / static_cast<double>(homes_.size());
}

std::vector<LabelCounts> Simulation::label_counts() const {
  std::vector<LabelCounts> counts;
  for (const auto& residents : ranks_) counts.push_back(count_labels(residents, classes_));
  return counts;
}

EpochFigures Simulation::figures() const {
  EpochFigures figures;
  figures.epoch = epoch_;
  for (const auto& residents : ranks_)
    figures.most_held = std::max<uint64_t>(figures.most_held, residents.size());
  const double alone = 1 / static_cast<double>(ranks_.size());
  figures.home_share = home_share();
  figures.home_theory = alone + (1 - alone) * at_home_;
  figures.balance = measure_balance(label_counts());
  figures.owner_hash = owner_hash(ranks_);
  return figures;
}

Result<EpochFigures> Simulation::step() {
  EpochView view;
  view.epoch = epoch_;
  view.labels = label_counts();
  view.fraction = fraction_.at(epoch_, measure_balance(view.labels));
  for (const auto& residents : ranks_) view.sizes.push_back(residents.size());
  const double asked = view.fraction;
  const Planner planner(options_, std::move(view));
  std::vector<RankPlan> plans;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
    plans.push_back(MR_TRY(planner.plan(rank, ranks_[rank])));
  EpochFigures done;
  Ranks after(ranks_.size());
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    std::vector<Resident> arrivals;
    for (const Receive& receive : plans[rank].receives) {
      const auto& sends = plans[receive.from].sends;
      const auto sent = std::ranges::lower_bound(sends, rank, {}, &Send::to);
      MR_ASSERT(sent != sends.end() && sent->to == rank && sent->slots.size() == receive.slots.size(), rank);
      for (const uint32_t slot : sent->slots) {
        arrivals.push_back(ranks_[receive.from][slot]);
        arrivals.back().since = static_cast<uint32_t>(epoch_ + 1);
      }
    }
    done.moved += arrivals.size();
    done.messages += plans[rank].sends.size();
    done.most_sent = std::max(done.most_sent, plans[rank].sent());
    done.most_held = std::max(done.most_held, ranks_[rank].size() + arrivals.size());
    after[rank] = apply_plan<Resident>(plans[rank], ranks_[rank], arrivals);
  }
  ranks_ = std::move(after);
  ++epoch_;
  at_home_ *= 1 - static_cast<double>(done.moved) / static_cast<double>(std::max<size_t>(homes_.size(), 1));
  EpochFigures now = figures();
  now.epoch = epoch_ - 1;
  now.fraction = asked;
  now.moved = done.moved;
  now.messages = done.messages;
  now.most_sent = done.most_sent;
  now.most_held = done.most_held;
  return now;
}

PairMeter::PairMeter(uint64_t samples, uint32_t watched, uint64_t seed) {
  std::vector<uint64_t> all(samples);
  std::iota(all.begin(), all.end(), 0);
  Random(mix(seed)).shuffle(std::span(all));
  all.resize(std::min<uint64_t>(samples, watched));
  ids_ = std::move(all);
  meetings_.resize(ids_.size() * (ids_.size() - 1) / 2);
}

void PairMeter::count(const std::vector<uint64_t>& groups) {
  size_t pair = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    for (size_t j = i + 1; j < groups.size(); ++j, ++pair) meetings_[pair] += groups[i] == groups[j] ? 1 : 0;
  }
  ++rounds_;
}

double PairMeter::meeting_share() const {
  const uint64_t sum = std::accumulate(meetings_.begin(), meetings_.end(), uint64_t{0});
  return static_cast<double>(sum) / static_cast<double>(meetings_.size() * rounds_);
}

double PairMeter::dispersion() const {
  const double share = meeting_share();
  if (share == 0 || share == 1) return 1;
  const double mean = share * static_cast<double>(rounds_);
  double squares = 0;
  for (const uint32_t one : meetings_) squares += (one - mean) * (one - mean);
  const double variance = squares / static_cast<double>(meetings_.size());
  return variance / (mean * (1 - share));
}

}  // namespace millrace::exchange
