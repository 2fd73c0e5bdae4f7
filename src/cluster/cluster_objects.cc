// Objects of many nodes: lookups, writes, lists, buckets.
#include "cluster/cluster_objects.h"

#include <atomic>
#include <utility>

#include "cluster/cluster_list.h"
#include "cluster/cluster_reader.h"
#include "cluster/cluster_writer.h"
#include "cluster/stripe.h"
#include "net/where.h"
#include "store/bucket_json.h"
#include "store/on_workers.h"
#include "store/reasons.h"
#include "store/waiting.h"

namespace millrace::cluster {

namespace {

Error no_uploads() {
  return make_error(Code::kUnsupported, "a cluster takes no uploads in parts yet")
      .with_hint("send the object in one PUT");
}

}  // namespace

std::shared_ptr<const store::Bucket> ClusterObjects::find_bucket(std::string_view name) const {
  return buckets_.find(name);
}

std::vector<std::shared_ptr<const store::Bucket>> ClusterObjects::buckets() const {
  return buckets_.all();
}

void ClusterObjects::change_buckets(std::function<Status()> work, Done<void> done) {
  const auto tell_others = [this, done = std::move(done)](Status changed) {
    if (!changed) return done(changed.take_error());
    const auto maps = cluster_.membership().maps();
    const auto left = std::make_shared<std::atomic<size_t>>(1);
    const auto arrive = [left, done](const Result<Reply>&) {
      // A node that does not answer hears of it by its watch, or has lost its lease.
      if (--*left == 0) done({});
    };
    for (const MapNode& node : maps->back()->nodes()) {
      if (!node.is_alive() || node.number == cluster_.membership().self()) continue;
      ++*left;
      cluster_.call(node.number, RefreshRequest{}, arrive);
    }
    arrive(Reply(DoneReply{}));
  };
  store::run_on<void>(callers_, std::move(work), tell_others);
}

void ClusterObjects::create_bucket(const std::string& name, store::BucketSettings settings, Done<void> done) {
  change_buckets([this, name, settings] { return buckets_.create(name, settings, epoch()); },
                 std::move(done));
}

void ClusterObjects::change_bucket(const std::string& name, store::BucketSettings settings, Done<void> done) {
  change_buckets(
      [this, name, settings]() -> Status {
        const auto known = buckets_.find(name);
        if (known == nullptr) return store::no_such_bucket(name);
        const store::Redundancy& now = known->settings.redundancy;
        const bool same = settings.redundancy.k == now.k && settings.redundancy.m == now.m;
        if (!same && !MR_TRY(is_empty(name))) {
          return make_error(Code::kUnsupported, "bucket {} holds objects with redundancy {}", name,
                            store::redundancy_text(now))
              .with_hint("make a bucket with the redundancy that you want, and copy: millrace cp");
        }
        return buckets_.change(name, settings, epoch());
      },
      std::move(done));
}

void ClusterObjects::remove_bucket(const std::string& name, Done<void> done) {
  change_buckets([this, name] { return remove_empty_bucket(name); }, std::move(done));
}

Result<bool> ClusterObjects::is_empty(const std::string& bucket) {
  store::ListOptions first;
  first.limit = 1;
  return MR_TRY(list_cluster(cluster_, bucket, first)).entries.empty();
}

Status ClusterObjects::remove_empty_bucket(const std::string& name) {
  if (buckets_.find(name) == nullptr) return store::no_such_bucket(name);
  if (!MR_TRY(is_empty(name))) return make_error(store::kBucketNotEmpty, "bucket {} is not empty", name);
  return buckets_.remove(name);
}

store::ObjectPointer ClusterObjects::find(std::string_view, std::string_view) {
  return nullptr;  // what is in memory may be old: a holder is asked each time
}

void ClusterObjects::get(const std::string& bucket, const std::string& key, Done<store::ObjectPointer> done) {
  if (buckets_.find(bucket) == nullptr) return done(store::no_such_bucket(bucket));
  const ObjectName name{bucket, key};
  cluster_.find(name, [this, name, done = std::move(done)](Result<std::optional<FoundObject>> found) {
    if (!found) return done(found.take_error());
    if (!*found) return done(store::no_such_object(name.bucket, name.key));
    show(name, std::move(**found), done);
  });
}

void ClusterObjects::show(const ObjectName& name, FoundObject found, Done<store::ObjectPointer> done) {
  const bool small = found.record.pieces.empty();
  if (small && !found.bytes && found.record.size > 0)
    return fetch_small(name, std::move(found), 0, std::move(done));
  done(store::ObjectPointer(std::make_shared<const store::Object>(
      name.bucket, name.key, std::move(found.record), small ? found.bytes.value_or("") : "")));
}

void ClusterObjects::fetch_small(const ObjectName& name, FoundObject found, size_t slot,
                                 Done<store::ObjectPointer> done) {
  const store::Spread& spread = found.record.spread;
  if (slot >= spread.holders.size())
    return done(make_error(Code::kUnavailable, "{}/{}: no holder told its bytes", name.bucket, name.key));
  const auto maps = cluster_.membership().maps();
  const DriveId drive = spread.holders[slot];
  StateRequest request{StateRequest::Purpose::kPeek, maps->back()->epoch(), name, {drive}};
  const auto shared = std::make_shared<FoundObject>(std::move(found));
  cluster_.call(cluster_.node_of(drive), std::move(request),
                [this, name, shared, slot, done](Result<Reply> reply) {
                  const auto* told = reply ? std::get_if<StateReply>(&*reply) : nullptr;
                  const std::string* bytes =
                      told == nullptr || told->drives.empty()
                          ? nullptr
                          : told->drives.front().ledger.find_bytes(shared->record.spread.write_id);
                  if (bytes == nullptr) return fetch_small(name, std::move(*shared), slot + 1, done);
                  shared->bytes = *bytes;
                  show(name, std::move(*shared), done);
                });
}

std::unique_ptr<store::Reader> ClusterObjects::open(store::ObjectPointer object, store::Comparing) {
  return open_cluster_reader(cluster_, std::move(object));
}

std::string ClusterObjects::address_of(const store::Spread& spread, size_t slot) const {
  const auto maps = cluster_.membership().maps();
  const DriveId drive = spread.holders[slot];
  if (!maps->back()->is_alive(drive)) return {};
  const MapNode* const node = maps->back()->node_of(drive);
  if (node->number != cluster_.membership().self() && !answers_(node->number)) return {};
  return node->address;
}

std::string ClusterObjects::where(const store::Object& object) const {
  if (object.is_inline()) return {};
  const store::Spread& spread = object.record().spread;
  net::Where where{spread.k, spread.m, spread.k == 1 ? kCellBytes : spread.cell, {}};
  for (size_t slot = 0; slot < spread.holders.size(); ++slot)
    where.holders.push_back(address_of(spread, slot));
  return where.text();
}

std::optional<std::string> ClusterObjects::find_holder(const store::Object& object, uint64_t offset,
                                                       uint64_t size) const {
  const store::Spread& spread = object.record().spread;
  std::vector<size_t> slots;
  if (spread.k == 1) {
    for (size_t slot = 0; slot < spread.holders.size(); ++slot) slots.push_back(slot);
  } else if (size > 0 && offset / spread.cell == (offset + size - 1) / spread.cell) {
    // More than one cell is on several nodes: whoever is asked puts them together.
    slots.push_back(offset / spread.cell % spread.k);
  }
  std::vector<std::string> addresses;
  for (const size_t slot : slots) {
    if (slot >= spread.holders.size() || cluster_.is_own(spread.holders[slot])) return std::nullopt;
    if (std::string address = address_of(spread, slot); !address.empty())
      addresses.push_back(std::move(address));
  }
  if (addresses.empty()) return std::nullopt;
  return addresses[turn_++ % addresses.size()];
}

void ClusterObjects::shard_index(store::ObjectPointer object, Done<std::shared_ptr<const std::string>> done) {
  done(make_error(Code::kUnsupported, "{}/{}: a cluster keeps no shard indexes yet", object->bucket(),
                  object->key()));
}

void ClusterObjects::list(const std::string& bucket, store::ListOptions options, Done<store::ListPage> done) {
  if (buckets_.find(bucket) == nullptr) return done(store::no_such_bucket(bucket));
  store::run_on<store::ListPage>(
      callers_,
      [this, bucket, options = std::move(options)] { return list_cluster(cluster_, bucket, options); },
      std::move(done));
}

Result<std::unique_ptr<store::Writer>> ClusterObjects::put(store::PutOptions options) {
  MR_TRY(store::check_key(options.key));
  if (buckets_.find(options.bucket) == nullptr) return store::no_such_bucket(options.bucket);
  if (options.size && *options.size > store::kMaxObjectBytes) {
    return make_error(Code::kTooLarge, "{} bytes are above the maximum of an object", *options.size);
  }
  return std::unique_ptr<store::Writer>(std::make_unique<ClusterWriter>(cluster_, std::move(options)));
}

void ClusterObjects::remove(const std::string& bucket, const std::string& key, store::Condition condition,
                            Done<void> done) {
  if (buckets_.find(bucket) == nullptr) return done(store::no_such_bucket(bucket));
  CommitRequest request{CommitRequest::Kind::kRemove, 0, {bucket, key}, {}, std::move(condition)};
  cluster_.commit(std::move(request), [done = std::move(done)](Result<std::optional<store::Record>> removed) {
    done(removed ? Status() : Status(removed.take_error()));
  });
}

void ClusterObjects::set_tags(const std::string& bucket, const std::string& key,
                              std::vector<store::NameValue> tags, Done<store::ObjectPointer> done) {
  if (buckets_.find(bucket) == nullptr) return done(store::no_such_bucket(bucket));
  CommitRequest request{CommitRequest::Kind::kTags, 0, {bucket, key}, {}, {}};
  request.record.tags = std::move(tags);
  const ObjectName name{bucket, key};
  cluster_.commit(std::move(request),
                  [this, name, done = std::move(done)](Result<std::optional<store::Record>> changed) {
                    if (!changed) return done(changed.take_error());
                    show(name, {*changed.take(), std::nullopt}, done);
                  });
}

void ClusterObjects::create_upload(store::PutOptions, Done<std::string> done) {
  done(no_uploads());
}
Result<std::unique_ptr<store::Writer>> ClusterObjects::put_part(store::PartOptions) {
  return no_uploads();
}
void ClusterObjects::parts(store::UploadName, Done<std::vector<store::PartStatus>> done) {
  done(no_uploads());
}
void ClusterObjects::upload(store::UploadName, Done<store::UploadStatus> done) {
  done(no_uploads());
}
void ClusterObjects::uploads(const std::string&, Done<std::vector<store::UploadStatus>> done) {
  done(std::vector<store::UploadStatus>());
}
void ClusterObjects::complete_upload(store::Completion, Done<store::ObjectPointer> done) {
  done(no_uploads());
}
void ClusterObjects::abort_upload(store::UploadName, Done<void> done) {
  done(no_uploads());
}

}  // namespace millrace::cluster
