// Sends the names of shards, bucket by bucket.
#include "loader/hints.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace millrace::loader {

Hints::Hints(const Catalogue& catalogue, transfer::Stores& stores) : catalogue_(catalogue), stores_(stores) {
  const auto is_remote = [](const Shard& shard) { return shard.sources.front().location.has_value(); };
  if (std::ranges::any_of(catalogue.shards(), is_remote))
    thread_.start(Background::kWhenWoken, [this] { send(); });
}

void Hints::soon(uint32_t shard) {
  if (!catalogue_.shards()[shard].sources.front().location) return;
  {
    const MutexLock lock(mutex_);
    if (waiting_.size() >= kMostWaiting || std::ranges::find(named_, shard) != named_.end()) return;
    waiting_.push_back(shard);
    named_.push_back(shard);
    if (named_.size() > kMostRemembered) named_.pop_front();
  }
  thread_.wake();
}

Hints::Bucket Hints::kind_of(const std::vector<net::HeaderField>& headers) {
  const auto found = std::ranges::find(headers, "x-millrace-cached", &net::HeaderField::first);
  return found == headers.end() ? Bucket::kOrdinary : Bucket::kBeforeUpstream;
}

void Hints::heard(const transfer::Location& object, const std::vector<net::HeaderField>& headers) {
  const Bucket kind = kind_of(headers);
  {
    const MutexLock lock(mutex_);
    const bool is_new = buckets_.try_emplace(object.store->text(object.bucket, ""), kind).second;
    if (!is_new) return;
  }
  thread_.wake();
}

std::optional<Hints::Bucket> Hints::find_kind(const transfer::Location& object) {
  const MutexLock lock(mutex_);
  const auto known = buckets_.find(object.store->text(object.bucket, ""));
  if (known == buckets_.end()) return std::nullopt;
  return known->second;
}

void Hints::name_shards(const transfer::Location& bucket, const std::vector<std::string>& keys) {
  const std::string body = nlohmann::json{{"keys", keys}}.dump();
  net::Request request;
  request.method = "POST";
  request.url = bucket.store->url(bucket.bucket, "", "prefetch=");
  request.headers = {{"content-type", "application/json"}};
  request.body = std::string_view(body);
  request.repeat = net::Repeat::kNever;
  auto response = bucket.store->client().send(request);
  if (response) response->finish();
}

void Hints::send() {
  std::deque<uint32_t> shards;
  {
    const MutexLock lock(mutex_);
    shards.swap(waiting_);
  }
  std::map<std::string, std::pair<transfer::Location, std::vector<std::string>>> buckets;
  std::deque<uint32_t> unknown;
  for (const uint32_t shard : shards) {
    if (!thread_.goes_on()) return;
    auto object = stores_.find(catalogue_.shards()[shard].sources.front().name);
    if (!object) continue;
    const auto kind = find_kind(*object);
    if (!kind) unknown.push_back(shard);
    if (kind != Bucket::kBeforeUpstream) continue;
    auto& [bucket, keys] = buckets[object->store->text(object->bucket, "")];
    bucket = object->with_key("");
    keys.push_back(object->key);
  }
  {
    const MutexLock lock(mutex_);
    waiting_.insert(waiting_.begin(), unknown.begin(), unknown.end());
  }
  for (const auto& [name, bucket] : buckets) name_shards(bucket.first, bucket.second);
}

}  // namespace millrace::loader
