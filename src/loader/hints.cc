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

void Hints::soon(uint32_t shard, Reading reading) {
  if (!catalogue_.shards()[shard].sources.front().location) return;
  {
    const MutexLock lock(mutex_);
    if (waiting_.size() == kMostWaiting || std::ranges::find(named_, shard) != named_.end()) return;
    waiting_.push_back({shard, reading});
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
    if (!is_new || waiting_.empty()) return;
  }
  thread_.wake();
}

std::optional<Hints::Bucket> Hints::find_kind(const transfer::Location& object, Reading reading) {
  const std::string bucket = object.store->text(object.bucket, "");
  {
    const MutexLock lock(mutex_);
    const auto known = buckets_.find(bucket);
    if (known != buckets_.end()) return known->second;
  }
  if (reading == Reading::kFetched) return std::nullopt;
  const auto head = transfer::find_head(object);
  const Bucket kind = head && *head ? kind_of((*head)->headers) : Bucket::kOrdinary;
  const MutexLock lock(mutex_);
  return buckets_.try_emplace(bucket, kind).first->second;
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
  std::deque<Waiting> shards;
  {
    const MutexLock lock(mutex_);
    shards.swap(waiting_);
  }
  std::map<std::string, std::pair<transfer::Location, std::vector<std::string>>> buckets;
  std::deque<Waiting> unknown;
  for (const Waiting& waiting : shards) {
    if (!thread_.goes_on()) return;
    auto object = stores_.find(catalogue_.shards()[waiting.shard].sources.front().name);
    if (!object) continue;
    const auto kind = find_kind(*object, waiting.reading);
    if (!kind) unknown.push_back(waiting);
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
