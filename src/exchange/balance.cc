// Counts labels, chooses samples by label, and computes fractions by epoch.
#include "exchange/balance.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/number.h"
#include "base/random.h"
#include "base/text.h"

namespace millrace::exchange {

namespace {

// Distances this near to the floor are at it: the floor itself is an expectation.
constexpr double kAtFloor = 0.1;  // of the floor, and of what is left above it
constexpr double kAutomaticFraction = 0.1;

double total_of(const LabelCounts& counts) {
  double sum = 0;
  for (const uint32_t count : counts) sum += count;
  return sum;
}

// The slots of each class, oldest first, ties in keyed order; taken from the back.
std::vector<std::vector<uint32_t>> slots_by_class(const LabelView& view, size_t classes) {
  std::vector<std::vector<uint32_t>> slots(classes + 1);  // the last: without a label
  for (uint32_t slot = 0; slot < view.residents.size(); ++slot)
    slots[std::min<size_t>(view.residents[slot].label, classes)].push_back(slot);
  const auto younger = [&](uint32_t a, uint32_t b) {
    const Resident& left = view.residents[a];
    const Resident& right = view.residents[b];
    if (left.since != right.since) return left.since > right.since;
    return mix(left.id ^ view.key) > mix(right.id ^ view.key);
  };
  for (std::vector<uint32_t>& one : slots) std::ranges::sort(one, younger);
  return slots;
}

double log_choose(double from, double count) {
  int sign = 0;  // lgamma() itself would write it to where other threads do
  return ::lgamma_r(from + 1, &sign) - ::lgamma_r(count + 1, &sign) - ::lgamma_r(from - count + 1, &sign);
}

// Of `all` samples `marked` are of a class: how far the number of them among `drawn` is from its mean, on
// average. De Moivre's sum, for draws without putting back: 2 m (all - marked - drawn + m) / all P(m), where
// m is the first number above the mean.
double mean_deviation(double all, double marked, double drawn) {
  const double above = std::floor(drawn * marked / all) + 1;
  const double others = all - marked - drawn + above;  // of other classes and not drawn, and m
  if (above > marked || above > drawn || others <= 0) return 0;
  const double chance =
      std::exp(log_choose(marked, above) + log_choose(all - marked, drawn - above) - log_choose(all, drawn));
  return 2 * above * others / all * chance;
}

Result<double> parse_fraction(std::string_view text) {
  const auto value = parse_number<double>(text);
  if (!value || *value < 0 || *value > 1)
    return make_error(Code::kInvalid, "\"{}\" is no fraction from 0 to 1", text);
  return *value;
}

}  // namespace

LabelCounts count_labels(std::span<const Resident> residents, uint32_t classes) {
  LabelCounts counts(classes);
  for (const Resident& one : residents) {
    if (one.label < classes) ++counts[one.label];
  }
  return counts;
}

LabelBalance measure_balance(const std::vector<LabelCounts>& ranks) {
  if (ranks.empty()) return {};
  std::vector<double> totals(ranks.front().size());
  double all = 0;
  for (const LabelCounts& counts : ranks) {
    for (size_t label = 0; label < totals.size(); ++label) totals[label] += counts[label];
    all += total_of(counts);
  }
  if (all == 0) return {};
  LabelBalance balance;
  std::map<double, double> floors;  // by how many a rank holds: there are few such numbers
  for (const LabelCounts& counts : ranks) {
    const double held = total_of(counts);
    if (held == 0) continue;
    for (size_t label = 0; label < totals.size(); ++label) {
      balance.distance += std::abs(counts[label] / held - totals[label] / all) / 2;
    }
    const auto [floor, is_new] = floors.try_emplace(held);
    for (size_t label = 0; is_new && label < totals.size(); ++label)
      floor->second += mean_deviation(all, totals[label], held) / held / 2;
    balance.floor += floor->second;
  }
  balance.distance /= static_cast<double>(ranks.size());
  balance.floor /= static_cast<double>(ranks.size());
  return balance;
}

std::vector<uint32_t> choose_by_label(const LabelView& view, const std::vector<LabelFlow>& flows) {
  const size_t classes = view.ranks[view.rank].size();
  std::vector<double> shares(classes);
  double all = 0;
  for (const LabelCounts& counts : view.ranks) {
    for (size_t label = 0; label < classes; ++label) shares[label] += counts[label];
    all += total_of(counts);
  }
  for (double& share : shares) share /= std::max(all, 1.0);
  // How many more than its share of a class a rank has; of the peers kept per flow, as we fill them.
  const auto surplus_of = [&](uint32_t rank) {
    std::vector<double> surplus(classes + 1);
    const double held = total_of(view.ranks[rank]);
    for (size_t label = 0; label < classes; ++label)
      surplus[label] = view.ranks[rank][label] - shares[label] * held;
    return surplus;
  };
  std::vector<double> own = surplus_of(view.rank);
  std::vector<std::vector<double>> peers;
  for (const LabelFlow& flow : flows) peers.push_back(surplus_of(flow.peer));
  std::vector<std::vector<uint32_t>> slots = slots_by_class(view, classes);
  std::vector<std::vector<uint32_t>> chosen(flows.size());
  uint64_t open = 0;
  for (const LabelFlow& flow : flows) open += flow.count;
  for (; open > 0; --open) {
    size_t label = classes + 1;
    for (size_t one = 0; one <= classes; ++one) {
      if (!slots[one].empty() && (label > classes || own[one] > own[label])) label = one;
    }
    size_t best = flows.size();
    for (size_t flow = 0; flow < flows.size(); ++flow) {
      if (chosen[flow].size() == flows[flow].count) continue;
      if (best == flows.size() || peers[flow][label] < peers[best][label]) best = flow;
    }
    chosen[best].push_back(slots[label].back());
    slots[label].pop_back();
    own[label] -= 1;
    peers[best][label] += 1;
  }
  std::vector<uint32_t> all_chosen;
  for (const std::vector<uint32_t>& one : chosen) all_chosen.insert(all_chosen.end(), one.begin(), one.end());
  return all_chosen;
}

Result<FractionSchedule> FractionSchedule::parse(std::string_view text) {
  FractionSchedule schedule;
  schedule.text_ = text;
  if (text == "auto" || text.starts_with("auto:")) {
    schedule.automatic_ = true;
    const double fraction = text == "auto" ? kAutomaticFraction : MR_TRY(parse_fraction(text.substr(5)));
    schedule.steps_.push_back({0, fraction});
    return schedule;
  }
  for (const std::string& word : split_words(text)) {
    const size_t at = word.find('@');
    Step step;
    step.fraction = MR_TRY(parse_fraction(std::string_view(word).substr(0, at)));
    if (at != std::string::npos) {
      const auto epoch = parse_number<decltype(step.epoch)>(std::string_view(word).substr(at + 1));
      if (!epoch) return make_error(Code::kInvalid, "\"{}\" names no epoch", word);
      step.epoch = *epoch;
    }
    if (schedule.steps_.empty() ? step.epoch != 0 : step.epoch <= schedule.steps_.back().epoch) {
      return make_error(Code::kInvalid, "\"{}\": epochs must rise from 0", text)
          .with_hint("0.5,0.1@3: half of the samples in epochs 0 to 2, a tenth from epoch 3 on");
    }
    schedule.steps_.push_back(step);
  }
  if (schedule.steps_.empty())
    return make_error(Code::kInvalid, "no fraction is given").with_hint("0.1, or auto, or 0.5,0.1@3");
  return schedule;
}

double FractionSchedule::at(uint64_t epoch, const LabelBalance& balance) const {
  if (automatic_) {
    const double near = balance.floor + kAtFloor * std::min(balance.floor, 1 - balance.floor);
    return balance.distance > near ? steps_.front().fraction : 0;
  }
  double fraction = 0;
  for (const Step& step : steps_) {
    if (step.epoch <= epoch) fraction = step.fraction;
  }
  return fraction;
}

double FractionSchedule::most() const {
  double most = 0;
  for (const Step& step : steps_) most = std::max(most, step.fraction);
  return most;
}

}  // namespace millrace::exchange
