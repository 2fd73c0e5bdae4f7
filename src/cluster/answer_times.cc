// Means, their median, and what waits.
#include "cluster/answer_times.h"

#include <fmt/format.h>

#include <algorithm>

namespace millrace::cluster {

void AnswerTimes::begin(uint64_t whom, uint64_t now_us) {
  const MutexLock lock(mutex_);
  Entry& entry = entries_[whom];
  if (entry.pending++ == 0) entry.since_us = now_us;
}

void AnswerTimes::end(uint64_t whom, uint64_t began_us, uint64_t now_us, Outcome outcome) {
  const MutexLock lock(mutex_);
  Entry& entry = entries_[whom];
  if (entry.pending > 0) --entry.pending;
  if (outcome == Outcome::kFailed) {
    entry.failed_us = now_us;
    return;
  }
  entry.since_us = now_us;
  entry.failed_us = 0;
  const auto took_us = static_cast<double>(now_us - began_us);
  const bool first = entry.mean_us == 0;
  entry.mean_us += (std::max(took_us, 1.0) - entry.mean_us) * (first ? 1.0 : kNewestShare);
  find_typical(now_us);
}

void AnswerTimes::find_typical(uint64_t now_us) {
  if (typical_at_us_ != 0 && now_us < typical_at_us_ + kTypicalEveryUs) return;
  typical_at_us_ = now_us;
  std::vector<double> means;
  for (const auto& [whom, entry] : entries_) {
    if (entry.mean_us > 0) means.push_back(entry.mean_us);
  }
  const auto middle = means.begin() + static_cast<std::ptrdiff_t>((means.size() - 1) / 2);
  std::ranges::nth_element(means, middle);
  typical_us_ = *middle;
}

AnswerTimes::Standing AnswerTimes::judge(const Entry& entry, uint64_t now_us) const {
  if (entry.failed_us != 0 && now_us < entry.failed_us + kFailingUs) return Standing::kSilent;
  if (entry.pending > 0 && now_us > entry.since_us + limits_.silent_us) return Standing::kSilent;
  const double limit = std::max(static_cast<double>(limits_.least_slow_us), typical_us_ * kManyTimes);
  return entry.mean_us > limit ? Standing::kSlow : Standing::kPrompt;
}

AnswerTimes::Standing AnswerTimes::standing(uint64_t whom, uint64_t now_us) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(whom);
  return found == entries_.end() ? Standing::kPrompt : judge(found->second, now_us);
}

bool AnswerTimes::take_probe(uint64_t whom, uint64_t now_us) {
  const MutexLock lock(mutex_);
  Entry& entry = entries_[whom];
  if (entry.probed_us != 0 && now_us < entry.probed_us + kProbeUs) return false;
  entry.probed_us = now_us;
  return true;
}

AnswerTimes::Reading AnswerTimes::read(uint64_t whom, uint64_t now_us) const {
  const MutexLock lock(mutex_);
  Reading reading;
  reading.whom = whom;
  reading.typical_us = static_cast<uint64_t>(typical_us_);
  const auto found = entries_.find(whom);
  if (found == entries_.end()) return reading;
  const Entry& entry = found->second;
  reading.standing = judge(entry, now_us);
  reading.mean_us = static_cast<uint64_t>(entry.mean_us);
  if (reading.standing == Standing::kSilent) {
    const uint64_t since = entry.pending > 0 ? entry.since_us : entry.failed_us;
    reading.silent_us = now_us > since ? now_us - since : 0;
  }
  return reading;
}

std::string why_grey(const AnswerTimes::Reading& reading) {
  const auto in_ms = [](uint64_t us) { return fmt::format("{:.1f} ms", static_cast<double>(us) / 1000); };
  switch (reading.standing) {
    case AnswerTimes::Standing::kPrompt:
      return "";
    case AnswerTimes::Standing::kSlow:
      return fmt::format("it answers in {}, most others in {}", in_ms(reading.mean_us),
                         in_ms(reading.typical_us));
    case AnswerTimes::Standing::kSilent:
      break;
  }
  return fmt::format("no answer for {}", in_ms(reading.silent_us));
}

}  // namespace millrace::cluster
