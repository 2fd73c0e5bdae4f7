// Finds what was not read for longest, and removes it.
#include "upstream/eviction.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "net/where.h"
#include "store/waiting.h"
#include "upstream/remote_object.h"

namespace millrace::upstream {

namespace {

constexpr auto kEvery = std::chrono::seconds(10);

bool is_pinned(const store::UpstreamSettings& settings, const std::string& key) {
  return std::ranges::any_of(settings.pinned, [&](const std::string& pin) { return key.starts_with(pin); });
}

}  // namespace

void Eviction::start() {
  if (options_.drives) thread_.start(kEvery, [this] { run(); });
}

uint64_t Eviction::bytes_to_free() const {
  uint64_t bytes = 0;
  for (const DriveFill& drive : options_.drives()) {
    const uint64_t used = drive.total_bytes - std::min(drive.total_bytes, drive.free_bytes);
    const uint64_t most = drive.total_bytes / 100 * options_.high_percent;
    const uint64_t aim = drive.total_bytes / 100 * options_.low_percent;
    if (used > most) bytes += used - std::min(used, aim);
  }
  return bytes;
}

bool Eviction::is_ours(const std::string& bucket, const store::ListEntry& entry) const {
  if (options_.address.empty()) return true;
  const auto place = net::parse_where(links_.objects.place(bucket, entry.key, entry.size));
  return !place || place->holders.empty() || place->holders.front() == options_.address;
}

Status Eviction::add_candidates(const store::Bucket& bucket, std::vector<Candidate>& candidates) {
  store::ListOptions options;
  const int64_t now_ms = wall_ms();
  while (thread_.goes_on()) {
    store::ListPage page = MR_TRY(store::wait_for<store::ListPage>([&](store::Done<store::ListPage> done) {
      links_.objects.list(bucket.name, options, std::move(done));
    }));
    for (store::ListEntry& entry : page.entries) {
      options.after = entry.key;
      if (is_pinned(*bucket.settings.upstream, entry.key) || !is_ours(bucket.name, entry)) continue;
      // Storing it is the first reading.
      const auto stored_seconds =
          static_cast<uint64_t>(std::max<int64_t>(now_ms - entry.modified_ms, 0) / 1000);
      const uint64_t idle =
          std::min<uint64_t>(links_.reads.seconds_ago(bucket.name, entry.key), stored_seconds);
      candidates.push_back({idle, entry.size, bucket.name, std::move(entry.key)});
    }
    if (candidates.size() > 2 * kMostCandidates) {
      std::ranges::nth_element(candidates, candidates.begin() + kMostCandidates, std::greater(),
                               &Candidate::idle_seconds);
      candidates.resize(kMostCandidates);
    }
    if (!page.truncated) break;
  }
  return {};
}

std::vector<Eviction::Candidate> Eviction::find_candidates() {
  std::vector<Candidate> candidates;
  for (const auto& bucket : links_.objects.buckets()) {
    if (!bucket->settings.upstream) continue;
    if (const Status added = add_candidates(*bucket, candidates); !added)
      links_.log.warn("a bucket cannot be looked through for what can be evicted", "bucket", bucket->name,
                      "error", added.error().message());
  }
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    return a.idle_seconds != b.idle_seconds ? a.idle_seconds > b.idle_seconds : a.key < b.key;
  });
  return candidates;
}

bool Eviction::evict(const Candidate& candidate) {
  const auto object = store::wait_for<store::ObjectPointer>([&](store::Done<store::ObjectPointer> done) {
    links_.objects.get(candidate.bucket, candidate.key, std::move(done));
  });
  if (!object || find_version((*object)->record()) == nullptr) return false;
  store::Condition is_this;
  is_this.only_if_etag = (*object)->record().etag;
  const Status removed = store::wait_for<void>([&](store::Done<void> done) {
    links_.objects.remove(candidate.bucket, candidate.key, is_this, std::move(done));
  });
  return removed.has_value();
}

void Eviction::run() {
  const auto buckets = links_.objects.buckets();
  if (std::ranges::none_of(buckets, [](const auto& bucket) { return bucket->settings.upstream.has_value(); }))
    return;
  const uint64_t wanted = bytes_to_free();
  if (wanted == 0) return;
  EvictionCounts evicted;
  for (const Candidate& candidate : find_candidates()) {
    if (evicted.bytes >= wanted || !thread_.goes_on()) break;
    if (!evict(candidate)) continue;
    ++evicted.objects;
    evicted.bytes += candidate.size;
  }
  objects_ += evicted.objects;
  bytes_ += evicted.bytes;
  if (evicted.objects > 0)
    links_.log.info("evicted objects that upstreams have", "objects", evicted.objects, "bytes", evicted.bytes,
                    "wanted", wanted);
}

}  // namespace millrace::upstream
