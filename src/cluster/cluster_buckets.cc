// Buckets as JSON in the registry: docs/formats/registry.md.
#include "cluster/cluster_buckets.h"

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/number.h"
#include "cluster/map_changes.h"
#include "store/bucket_json.h"
#include "store/reasons.h"

namespace millrace::cluster {

namespace {

using Json = nlohmann::ordered_json;
const std::string kPrefix = "buckets/";
const std::string kRemoved = "removed/";

std::string encode(const store::Bucket& bucket) {
  Json json = {{"created_ms", bucket.created_ms}, {"since_epoch", bucket.settings.redundancy.since}};
  if (bucket.closing) json["closing"] = true;
  json.update(store::stored_settings_json(bucket.settings));
  return json.dump();
}

Result<store::Bucket> decode(const Entry& entry) {
  store::Bucket bucket;
  bucket.name = entry.name.substr(kPrefix.size());
  bucket.version = entry.revision;
  Json json = Json::parse(entry.value, nullptr, false);
  if (!json.is_object() || !json.value("created_ms", Json()).is_number_integer() ||
      !json.value("since_epoch", Json()).is_number_unsigned())
    return make_error(Code::kCorrupt, "registry: {} is not a bucket", entry.name);
  bucket.created_ms = json["created_ms"].get<int64_t>();
  const auto since = json["since_epoch"].get<uint32_t>();
  json.erase("created_ms");
  json.erase("since_epoch");
  bucket.closing = json.contains("closing");
  json.erase("closing");
  bucket.settings = MR_TRY(store::change_settings({}, json).within("registry: " + entry.name));
  bucket.settings.redundancy.since = since;
  return bucket;
}

Error busy(const std::string& name) {
  return make_error(Code::kUnavailable, "bucket {} is being changed by somebody else", name);
}

}  // namespace

std::shared_ptr<const store::Bucket> ClusterBuckets::find(std::string_view name) const {
  const auto table = table_.load();
  const auto found = table->find(name);
  return found == table->end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<const store::Bucket>> ClusterBuckets::all() const {
  std::vector<std::shared_ptr<const store::Bucket>> buckets;
  const auto table = table_.load();
  for (const auto& [name, bucket] : *table) buckets.push_back(bucket);
  return buckets;
}

Status ClusterBuckets::refresh() {
  const MutexLock lock(refreshing_);
  auto table = std::make_shared<Table>();
  const std::vector<Entry> entries = MR_TRY(registry_.list(kPrefix));
  for (const Entry& entry : entries) {
    store::Bucket bucket = MR_TRY(decode(entry));
    const std::string name = bucket.name;
    table->emplace(name, std::make_shared<const store::Bucket>(std::move(bucket)));
  }
  table_.store(std::move(table));
  return {};
}

Result<uint32_t> ClusterBuckets::choose_first_epoch(const std::string& name) {
  const auto newest = MR_TRY(read_map(registry_));
  const uint32_t epoch = newest ? newest->map->epoch() : 0;
  const auto before = MR_TRY(registry_.get(kRemoved + name));
  if (!before || parse_number<uint32_t>(before->value).value_or(epoch) < epoch) return epoch;
  return MR_TRY(change_map(registry_, with_next_epoch)).map->epoch();
}

Status ClusterBuckets::create(const std::string& name, const store::BucketSettings& settings) {
  MR_TRY(store::check_bucket_name(name, store::NameRule::kShort));
  const auto exists = [&name] { return make_error(store::kBucketExists, "bucket {} exists", name); };
  MR_TRY(refresh());
  if (const auto known = find(name); known != nullptr) {
    // Whoever was removing it gave up, or is told so.
    if (known->closing) MR_TRY(reopen(name));
    return exists();
  }
  store::Bucket bucket{name, wall_ms(), 0, settings};
  bucket.settings.redundancy.since = MR_TRY(choose_first_epoch(name));
  const auto revision = MR_TRY(registry_.swap(kPrefix + name, 0, encode(bucket)));
  if (!revision) return exists();
  return refresh();
}

Result<uint64_t> ClusterBuckets::close(const std::string& name) {
  return set_standing(name, Standing::kClosing);
}

Status ClusterBuckets::reopen(const std::string& name) {
  MR_TRY(set_standing(name, Standing::kOpen));
  return {};
}

Result<uint64_t> ClusterBuckets::set_standing(const std::string& name, Standing standing) {
  MR_TRY(refresh());
  const auto known = find(name);
  if (known == nullptr) return store::no_such_bucket(name);
  store::Bucket bucket = *known;
  bucket.closing = standing == Standing::kClosing;
  if (bucket.closing == known->closing) return known->version;
  const auto revision = MR_TRY(registry_.swap(kPrefix + name, known->version, encode(bucket)));
  if (!revision) return busy(name);
  MR_TRY(refresh());
  return *revision;
}

Status ClusterBuckets::change(const std::string& name, const store::BucketSettings& settings) {
  MR_TRY(refresh());
  const auto known = find(name);
  if (known == nullptr) return store::no_such_bucket(name);
  const store::Redundancy& made = known->settings.redundancy;
  store::Bucket bucket = *known;
  bucket.settings = settings;
  bucket.settings.redundancy = made;
  if (bucket.settings != known->settings) {
    const auto revision = MR_TRY(registry_.swap(kPrefix + name, known->version, encode(bucket)));
    if (!revision) return busy(name);
    MR_TRY(refresh());
  }
  MR_TRY(change_map(registry_,
                    [&](const Map& map) { return with_redundancy(map, name, made, settings.redundancy); }));
  return {};
}

Status ClusterBuckets::remove(const std::string& name, uint64_t version) {
  const auto newest = MR_TRY(read_map(registry_));
  const std::string epoch = fmt::format("{}", newest ? newest->map->epoch() : 0);
  const auto before = MR_TRY(registry_.get(kRemoved + name));
  if (!MR_TRY(registry_.swap(kRemoved + name, before ? before->revision : 0, epoch))) return busy(name);
  if (!MR_TRY(registry_.remove(kPrefix + name, version))) return busy(name);
  return refresh();
}

}  // namespace millrace::cluster
