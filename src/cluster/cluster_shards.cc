// Indexes are read, built and kept.
#include "cluster/cluster_shards.h"

#include <utility>

#include "cluster/cluster_writer.h"
#include "cluster/hidden_bucket.h"
#include "cluster/places.h"
#include "cluster/reasons.h"
#include "store/shard_feed.h"
#include "store/waiting.h"

namespace millrace::cluster {

namespace {

constexpr uint64_t kReadBytes = 1 << 20;

ObjectName index_name(const store::Object& shard) {
  return {indexes_of(shard.bucket()), index_key(shard.record())};
}

}  // namespace

void ClusterShards::start() {
  thread_.start(Background::kWhenWoken, [this] { build_pending(); });
}

void ClusterShards::build_later(store::ObjectPointer shard) {
  {
    const MutexLock lock(mutex_);
    if (pending_.size() >= kMostPending) return;
    pending_.push_back(std::move(shard));
  }
  thread_.wake();
}

void ClusterShards::build_pending() {
  while (thread_.goes_on()) {
    store::ObjectPointer shard;
    {
      const MutexLock lock(mutex_);
      if (pending_.empty()) return;
      shard = std::move(pending_.front());
      pending_.pop_front();
    }
    // Where this fails, whoever asks for the index tries again and is told why.
    static_cast<void>(get(shard));
  }
}

void ClusterShards::keep(store::ObjectPointer shard, Index index) {
  const auto charge = std::make_shared<Charge>();
  if (!charge->try_grow(memory_.indexes, index->size())) return;
  static_cast<void>(callers_.submit([this, shard = std::move(shard), index = std::move(index), charge] {
    static_cast<void>(write(*shard, *index));
  }));
}

Result<ClusterShards::Index> ClusterShards::get(const store::ObjectPointer& shard) {
  const store::Record& record = shard->record();
  const auto named = [&](Error error) {
    return std::move(error).within(shard->bucket() + "/" + shard->key());
  };
  if (record.shard == store::ShardState::kNone)
    return named(make_error(Code::kNotFound, "it is not a shard by its name"));
  if (record.shard == store::ShardState::kInvalid)
    return named(make_error(Code::kInvalid, "it has no index"));
  if (keeps_index(record)) {
    Result<Index> kept = read_kept(*shard);
    // Any other error is one of reading: to read the whole shard instead would not help.
    if (kept || !(kept.error().code() == Code::kNotFound || kept.error().is(kTooFewSlices))) return kept;
  }
  Result<Index> built = builds_.run(record.spread.write_id, [&] { return build(shard); });
  if (!built) return named(built.take_error());
  return built;
}

Result<ClusterShards::Index> ClusterShards::read_kept(const store::Object& shard) {
  const auto object = MR_TRY(store::wait_for<store::ObjectPointer>(
      [&](Done<store::ObjectPointer> done) { get_(index_name(shard), std::move(done)); }));
  std::string bytes = MR_TRY(store::WaitingReader(objects_, object).read(0, object->record().size));
  return Index(std::make_shared<const std::string>(std::move(bytes)));
}

Result<ClusterShards::Index> ClusterShards::build(const store::ObjectPointer& shard) {
  const store::Record& record = shard->record();
  store::ShardFeed feed(shard->key(), store::ShardFeed::Packing::kRecognise, memory_.work);
  store::WaitingReader reader(objects_, shard, store::Comparing::kAlways);
  for (uint64_t at = 0; at < record.size && !feed.failed();) {
    const std::string bytes = MR_TRY(reader.read(at, kReadBytes));
    if (bytes.empty()) return make_error(Code::kCorrupt, "it ends at byte {} of {}", at, record.size);
    feed.add(bytes);
    at += bytes.size();
  }
  Result<std::string> index = feed.finish();
  if (feed.starved()) return index.take_error();
  // What cannot be kept or noted now is tried again when somebody asks next.
  if (index && record.size > kCopiedBytes) static_cast<void>(write(*shard, *index));
  if (record.shard == store::ShardState::kPending) static_cast<void>(note(*shard, index, feed.samples()));
  if (!index) return index.take_error();
  return Index(std::make_shared<const std::string>(index.take()));
}

Status ClusterShards::write(const store::Object& shard, const std::string& index) {
  const ObjectName name = index_name(shard);
  store::PutOptions options;
  options.bucket = name.bucket;
  options.key = name.key;
  options.size = index.size();
  options.headers = {{std::string(kTargetHeader), shard.key()}};
  ClusterWriter writer(cluster_, std::move(options));
  MR_TRY(store::fill(writer, index));
  MR_TRY(store::wait_for<store::ObjectPointer>(
      [&](Done<store::ObjectPointer> done) { writer.finish({}, std::move(done)); }));
  return {};
}

Status ClusterShards::note(const store::Object& shard, const Result<std::string>& index, uint64_t samples) {
  CommitRequest request{CommitRequest::Kind::kIndex, 0, {shard.bucket(), shard.key()}, {}, {}};
  request.record.spread.write_id = shard.record().spread.write_id;
  store::note_index(request.record, index, samples);
  if (index) request.record.shard_index_size = index->size();
  MR_TRY(store::wait_for<std::optional<store::Record>>([&](Done<std::optional<store::Record>> done) {
    cluster_.commit(std::move(request), std::move(done));
  }));
  return {};
}

}  // namespace millrace::cluster
