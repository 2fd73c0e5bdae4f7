// Counting labels, choosing by them, and fractions by epoch.
#include "exchange/balance.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "base/random.h"
#include "base/text.h"

namespace millrace::exchange {

namespace {

// Distances this near to the floor are at it: the floor itself is an expectation.
constexpr double kAtFloor = 1.1;
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

Result<double> parse_fraction(std::string_view text) {
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || failure != std::errc{} || end != text.data() + text.size() ||
      !(value >= 0 && value <= 1))
    return make_error(Code::kInvalid, "\"{}\" is no fraction from 0 to 1", text);
  return value;
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
  std::vector<double> shares(ranks.front().size());
  double all = 0;
  for (const LabelCounts& counts : ranks) {
    for (size_t label = 0; label < shares.size(); ++label) shares[label] += counts[label];
    all += total_of(counts);
  }
  if (all == 0) return {};
  for (double& share : shares) share /= all;
  LabelBalance balance;
  for (const LabelCounts& counts : ranks) {
    const double held = total_of(counts);
    if (held == 0) continue;
    // A class's count is hypergeometric, close to normal: its mean absolute deviation is sqrt(2/pi) sigma.
    const double left = all > 1 ? (all - held) / (all - 1) : 0;
    for (size_t label = 0; label < shares.size(); ++label) {
      balance.distance += std::abs(counts[label] / held - shares[label]) / 2;
      balance.floor +=
          std::sqrt(2 / std::numbers::pi * shares[label] * (1 - shares[label]) * left / held) / 2;
    }
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
      const char* end = word.data() + word.size();
      const auto [rest, failure] = std::from_chars(word.data() + at + 1, end, step.epoch);
      if (failure != std::errc{} || rest != end)
        return make_error(Code::kInvalid, "\"{}\" names no epoch", word);
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
  if (automatic_) return balance.distance > kAtFloor * balance.floor ? steps_.front().fraction : 0;
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
