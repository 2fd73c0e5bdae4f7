// Compares the speed of each drive with the median of its peers.
#include "store/pace.h"

#include <algorithm>

#include "base/clock.h"
#include "base/mutex.h"

namespace millrace::store {

void BusyTime::begin() {
  const MutexLock lock(mutex_);
  if (since_us_ == 0) since_us_ = steady_us();
}

void BusyTime::end() {
  const MutexLock lock(mutex_);
  if (since_us_ != 0) total_us_ += steady_us() - since_us_;
  since_us_ = 0;
}

uint64_t BusyTime::read_us() const {
  const MutexLock lock(mutex_);
  return total_us_ + (since_us_ != 0 ? steady_us() - since_us_ : 0);
}

void PaceWatch::measure(uint64_t now_us, const Reading& drive, History& history) {
  history.rotational = drive.rotational;
  const uint64_t busy_us = drive.busy_us - history.busy_us;
  // A short round is added to the next: a drive with little to do tells too, only later.
  if (busy_us < kLeastBusy_us) return;
  const auto bytes = static_cast<double>(drive.bytes - history.bytes);
  history.bytes_per_second = static_cast<uint64_t>(bytes * 1e6 / static_cast<double>(busy_us));
  history.measured_us = now_us;
  history.bytes = drive.bytes;
  history.busy_us = drive.busy_us;
}

std::optional<uint64_t> PaceWatch::peers_rate(uint64_t now_us, const Reading& drive) const {
  std::vector<uint64_t> rates;
  for (const auto& [id, history] : histories_) {
    const bool recent = history.measured_us != 0 && now_us - history.measured_us <= kRateAge_us;
    if (id != drive.id && recent && history.rotational == drive.rotational)
      rates.push_back(history.bytes_per_second);
  }
  if (rates.empty()) return std::nullopt;
  std::ranges::sort(rates);
  return rates[rates.size() / 2];
}

std::vector<PaceWatch::Verdict> PaceWatch::judge(uint64_t now_us, const std::vector<Reading>& drives) {
  for (const Reading& drive : drives) measure(now_us, drive, histories_[drive.id]);
  std::vector<Verdict> verdicts;
  for (const Reading& drive : drives) {
    History& history = histories_[drive.id];
    const auto peers = peers_rate(now_us, drive);
    if (history.measured_us != now_us || !peers) continue;
    if (history.bytes_per_second >= *peers / kRatio) {
      history.slow_rounds = 0;
      history.last_rest_us = 0;
      continue;
    }
    if (++history.slow_rounds < kRounds) continue;
    history.slow_rounds = 0;
    history.last_rest_us = std::clamp(2 * history.last_rest_us, kFirstRest_us, kLongestRest_us);
    history.rests_until_us = now_us + history.last_rest_us;
    verdicts.push_back({drive.id, history.bytes_per_second, *peers, history.last_rest_us});
  }
  return verdicts;
}

bool PaceWatch::is_rested(uint64_t now_us, const std::string& id) const {
  const auto history = histories_.find(id);
  return history == histories_.end() || now_us >= history->second.rests_until_us;
}

}  // namespace millrace::store
