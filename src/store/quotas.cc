// Tallies of buckets, the thread that counts them, and those who wait for it.
#include "store/quotas.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "base/mutex.h"
#include "base/units.h"
#include "store/reasons.h"
#include "store/waiting.h"

namespace millrace::store {

namespace {

Use operator+(Use one, const Use& other) {
  one.bytes += other.bytes;
  one.objects += other.objects;
  return one;
}

// A write of this size, in place of what is there.
struct Growth {
  Use added;
  Use replaced;
};

bool fits(const Quota& quota, const Use& used, const Growth& growth) {
  const auto holds = [](uint64_t most, uint64_t now, uint64_t added, uint64_t replaced) {
    return most == 0 || added <= replaced || now + (added - replaced) <= most;
  };
  return holds(quota.bytes, used.bytes, growth.added.bytes, growth.replaced.bytes) &&
         holds(quota.objects, used.objects, growth.added.objects, growth.replaced.objects);
}

// A part of the room that was left when `used` was counted.
Quota share_of(const Quota& quota, const Use& used, size_t nodes) {
  const auto share = [nodes](uint64_t most, uint64_t now) {
    // 0 would mean that there is no limit.
    return most == 0 ? 0 : std::max<uint64_t>(1, now + (most > now ? (most - now) / nodes : 0));
  };
  return {share(quota.bytes, used.bytes), share(quota.objects, used.objects)};
}

}  // namespace

struct Quotas::Waiting {
  std::shared_ptr<const Bucket> bucket;
  Growth growth;
  Done<GrantPointer> done;
  unsigned counts = 0;  // that could not tell
};

// What is known of one bucket.
struct Quotas::Tally {
  int64_t created_ms = 0;  // another bucket of the same name has another
  bool counted = false;
  Use base;            // of the last count
  Use since;           // written since that began
  Use under_way;       // granted, and not written yet
  bool stale = false;  // something was written or removed since, and may have replaced something
  uint64_t began_us = 0;
  uint64_t ended_us = 0;
  bool counting = false;
  Use since_next;  // written since the count under way began
  std::vector<Waiting> waiting;

  Use used() const { return base + since + under_way; }
  uint64_t took_us() const { return ended_us - began_us; }
};

struct Quotas::Book {
  explicit Book(Surroundings given) : around(std::move(given)) {}

  Tally& tally_of(const Bucket& bucket) MR_REQUIRES(mutex) {
    Tally& tally = tallies[bucket.name];
    if (std::exchange(tally.created_ms, bucket.created_ms) != bucket.created_ms) {
      tally.counted = false;
      tally.since = {};
    }
    return tally;
  }
  static void enter(Tally& tally, const Use& use) {
    tally.under_way = tally.under_way + use;
    tally.stale = true;
  }
  Status admit(Tally& tally, const Waiting& one) MR_REQUIRES(mutex);
  // There is room by the last count, and none with what was written meanwhile, which the count may have met.
  static bool is_doubtful(const Tally& tally, const Waiting& one);
  enum class Outcome : uint8_t { kWritten, kNothing };
  void leave(const std::string& bucket, const Use& use, Outcome outcome);
  // Whether a new count could tell more than the last one.
  bool is_worth_counting(const Tally& tally) const;

  const Surroundings around;
  Mutex mutex;
  std::map<std::string, Tally> tallies MR_GUARDED_BY(mutex);
  uint64_t refused MR_GUARDED_BY(mutex) = 0;
  bool stopped MR_GUARDED_BY(mutex) = false;
};

Status Quotas::Book::admit(Tally& tally, const Waiting& one) {
  if (!fits(one.bucket->settings.quota, tally.used(), one.growth)) {
    ++refused;
    return quota_exceeded(*one.bucket, tally.used());
  }
  enter(tally, one.growth.added);
  return {};
}

bool Quotas::Book::is_doubtful(const Tally& tally, const Waiting& one) {
  const Quota& quota = one.bucket->settings.quota;
  return tally.counted && !fits(quota, tally.used(), one.growth) && fits(quota, tally.base, one.growth);
}

void Quotas::Book::leave(const std::string& bucket, const Use& use, Outcome outcome) {
  const MutexLock lock(mutex);
  Tally& tally = tallies[bucket];
  tally.under_way.bytes -= use.bytes;
  tally.under_way.objects -= use.objects;
  if (outcome == Outcome::kNothing) return;
  tally.since = tally.since + use;
  if (tally.counting) tally.since_next = tally.since_next + use;
  tally.stale = true;
}

bool Quotas::Book::is_worth_counting(const Tally& tally) const {
  if (!tally.counted) return true;
  if (!tally.stale && around.nodes() <= 1) return false;
  return around.now_us() >= tally.ended_us + kRestTimes * tally.took_us();
}

Quotas::Grant::Grant(std::shared_ptr<Book> book, std::string bucket, Use use)
    : book_(std::move(book)), bucket_(std::move(bucket)), use_(use) {}

Quotas::Grant::~Grant() {
  if (!ended_) book_->leave(bucket_, use_, Book::Outcome::kNothing);
}

void Quotas::Grant::note_written() {
  if (!std::exchange(ended_, true)) book_->leave(bucket_, use_, Book::Outcome::kWritten);
}

Error quota_exceeded(const Bucket& bucket, Use use) {
  const Quota& quota = bucket.settings.quota;
  std::string most;
  if (quota.bytes > 0) most = fmt::format("{} of {}", format_bytes(use.bytes), format_bytes(quota.bytes));
  if (quota.objects > 0)
    most += fmt::format("{}{} of {} objects", most.empty() ? "" : ", ", use.objects, quota.objects);
  return make_error(kQuotaExceeded, "bucket {} has no room for it: it holds {}", bucket.name, most)
      .with_hint(fmt::format("remove objects, or raise its quota: millrace bucket {} --quota", bucket.name));
}

Quotas::Quotas(Objects& objects, Surroundings around)
    : objects_(objects), book_(std::make_shared<Book>(std::move(around))) {
  counter_.start(Background::kWhenWoken, [this] { count_all(); });
}

Quotas::~Quotas() {
  stop();
}

void Quotas::stop() {
  counter_.stop();
  std::vector<Waiting> waiting;
  {
    const MutexLock lock(book_->mutex);
    book_->stopped = true;
    for (auto& [name, tally] : book_->tallies) {
      std::ranges::move(tally.waiting, std::back_inserter(waiting));
      tally.waiting.clear();
    }
  }
  for (const Waiting& one : waiting) one.done(make_error(Code::kUnavailable, "the node is stopping"));
}

Quotas::GrantPointer Quotas::try_take(const Bucket& bucket, uint64_t bytes) {
  const Use use{bytes, 1};
  const size_t nodes = std::max<size_t>(1, book_->around.nodes());
  const uint64_t now_us = book_->around.now_us();
  const MutexLock lock(book_->mutex);
  Tally& tally = book_->tally_of(bucket);
  if (!tally.counted) return nullptr;
  Quota most = bucket.settings.quota;
  if (nodes > 1) {
    if (now_us > tally.began_us + std::max(kShareUs, kShareTimes * tally.took_us())) return nullptr;
    most = share_of(most, tally.base, nodes);
  }
  if (!fits(most, tally.used(), {use, {}})) return nullptr;
  Book::enter(tally, use);
  return std::make_shared<Grant>(book_, bucket.name, use);
}

void Quotas::take(const std::shared_ptr<const Bucket>& bucket, const std::string& key, uint64_t bytes,
                  Done<GrantPointer> done) {
  objects_.get(bucket->name, key, [this, bucket, bytes, done = std::move(done)](Result<ObjectPointer> old) {
    Growth growth{{bytes, 1}, {}};
    if (old) growth.replaced = {(*old)->record().size, 1};
    {
      const MutexLock lock(book_->mutex);
      Tally& tally = book_->tally_of(*bucket);
      if (!book_->stopped) tally.waiting.push_back({bucket, growth, done});
      if (!book_->stopped) return counter_.wake();
    }
    done(make_error(Code::kUnavailable, "the node is stopping"));
  });
}

void Quotas::ask(const std::shared_ptr<const Bucket>& bucket, const std::string& key, uint64_t bytes,
                 Done<GrantPointer> done) {
  if (GrantPointer grant = try_take(*bucket, bytes)) return done(std::move(grant));
  take(bucket, key, bytes, std::move(done));
}

void Quotas::note_removed(const std::string& bucket) {
  const MutexLock lock(book_->mutex);
  const auto found = book_->tallies.find(bucket);
  if (found != book_->tallies.end()) found->second.stale = true;
}

std::optional<Use> Quotas::find_use(const Bucket& bucket) const {
  const MutexLock lock(book_->mutex);
  const auto found = book_->tallies.find(bucket.name);
  if (found == book_->tallies.end() || !found->second.counted ||
      found->second.created_ms != bucket.created_ms)
    return std::nullopt;
  return found->second.used();
}

uint64_t Quotas::refused() const {
  const MutexLock lock(book_->mutex);
  return book_->refused;
}

void Quotas::count_all() {
  while (counter_.goes_on()) {
    std::string next;
    {
      const MutexLock lock(book_->mutex);
      const auto found = std::ranges::find_if(
          book_->tallies, [](const auto& entry) { return !entry.second.waiting.empty(); });
      if (found == book_->tallies.end()) return;
      next = found->first;
    }
    count(next);
  }
}

Result<Use> Quotas::list_all(const std::string& bucket) {
  Use use;
  ListOptions options;
  while (counter_.goes_on()) {
    const ListPage page = MR_TRY(
        wait_for<ListPage>([&](Done<ListPage> done) { objects_.list(bucket, options, std::move(done)); }));
    for (const ListEntry& entry : page.entries) use = use + Use{entry.size, 1};
    if (!page.truncated || page.entries.empty()) return use;
    options.after = page.entries.back().key;
  }
  return make_error(Code::kUnavailable, "the node is stopping");
}

// Answers those who wait, with a new count where that can tell more.
void Quotas::count(const std::string& bucket) {
  bool worth = false;
  const uint64_t began_us = book_->around.now_us();
  {
    const MutexLock lock(book_->mutex);
    Tally& tally = book_->tallies[bucket];
    worth = book_->is_worth_counting(tally);
    tally.counting = worth;
    tally.since_next = {};
    if (worth) tally.stale = false;
  }
  Result<Use> counted = worth ? list_all(bucket) : Result<Use>(Use{});
  std::vector<std::pair<Done<GrantPointer>, Result<GrantPointer>>> answers;
  {
    const MutexLock lock(book_->mutex);
    Tally& tally = book_->tallies[bucket];
    tally.counting = false;
    if (worth && counted) {
      tally.base = *counted;
      tally.since = tally.since_next;
      tally.counted = true;
      tally.began_us = began_us;
      tally.ended_us = book_->around.now_us();
    }
    if (!counted) tally.stale = true;
    for (Waiting& one : std::exchange(tally.waiting, {})) {
      if (worth && counted && Book::is_doubtful(tally, one) && ++one.counts < kMostCounts) {
        tally.waiting.push_back(std::move(one));
        continue;
      }
      Status room = tally.counted ? book_->admit(tally, one)
                                  : counted.error().copy().within("counting what the bucket holds");
      if (room) {
        answers.emplace_back(std::move(one.done), std::make_shared<Grant>(book_, bucket, one.growth.added));
      } else {
        answers.emplace_back(std::move(one.done), room.take_error());
      }
    }
  }
  for (auto& [done, answer] : answers) done(std::move(answer));
}

}  // namespace millrace::store
