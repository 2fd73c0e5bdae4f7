// Asks upstreams, and remembers when.
#include "upstream/lookups.h"

#include "base/clock.h"
#include "base/hash.h"

namespace millrace::upstream {

namespace {

uint64_t hash_of(std::string_view bucket, std::string_view key) {
  return hash64(key, hash64(bucket));
}

}  // namespace

void Lookups::ask(std::shared_ptr<const Upstream> upstream, const std::string& bucket, const std::string& key,
                  Patience patience, Done done) {
  const Name name(bucket, key);
  {
    const MutexLock lock(mutex_);
    std::vector<Done>& waiting = asking_[name];
    waiting.push_back(std::move(done));
    if (waiting.size() > 1) return;
  }
  const auto answer = [this, name](const Found& found) {
    std::vector<Done> waiting;
    {
      const MutexLock lock(mutex_);
      waiting = std::move(asking_.extract(name).mapped());
    }
    for (const Done& one : waiting) one(found);
  };
  const bool taken = workers_.submit(
      [upstream, key, patience, answer] { answer(upstream->remote->find_head(key, patience)); });
  if (!taken) answer(make_error(Code::kUnavailable, "too many questions to upstreams are waiting"));
}

bool Lookups::is_fresh(std::string_view bucket, std::string_view key, uint32_t seconds) const {
  const MutexLock lock(mutex_);
  const auto known = compared_us_.find(hash_of(bucket, key));
  return known != compared_us_.end() && coarse_us() < known->second + uint64_t{seconds} * 1'000'000;
}

void Lookups::note_fresh(std::string_view bucket, std::string_view key) {
  const MutexLock lock(mutex_);
  // Forgotten ones are compared once more than they must.
  if (compared_us_.size() >= kMostRemembered) compared_us_.clear();
  compared_us_[hash_of(bucket, key)] = coarse_us();
}

}  // namespace millrace::upstream
