// Objects of many nodes: lookups, writes, lists, buckets.
#include "cluster/cluster_objects.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "cluster/cluster_calls.h"
#include "cluster/cluster_list.h"
#include "cluster/cluster_reader.h"
#include "cluster/cluster_writer.h"
#include "cluster/hidden_bucket.h"
#include "cluster/part_writer.h"
#include "cluster/parts_reader.h"
#include "cluster/places.h"
#include "cluster/stripe.h"
#include "net/where.h"
#include "store/bucket_json.h"
#include "store/on_workers.h"
#include "store/reasons.h"
#include "store/waiting.h"

namespace millrace::cluster {

namespace {

// With the redundancy that the map says.
std::shared_ptr<const store::Bucket> as_mapped(std::shared_ptr<const store::Bucket> bucket, const Map& map) {
  if (bucket == nullptr) return bucket;
  const store::Redundancy& made = bucket->settings.redundancy;
  const store::Redundancy now = map.redundancy_of(bucket->name, made);
  if (now == made) return bucket;
  auto shown = std::make_shared<store::Bucket>(*bucket);
  shown->settings.redundancy = now;
  return shown;
}

Error bucket_not_empty(const std::string& name) {
  return make_error(store::kBucketNotEmpty, "bucket {} is not empty", name);
}

}  // namespace

std::shared_ptr<const store::Bucket> ClusterObjects::find_bucket(std::string_view name) const {
  return as_mapped(buckets_.find(name), *cluster_.membership().maps()->back());
}

std::vector<std::shared_ptr<const store::Bucket>> ClusterObjects::buckets() const {
  std::vector<std::shared_ptr<const store::Bucket>> all = buckets_.all();
  const auto maps = cluster_.membership().maps();
  for (auto& bucket : all) bucket = as_mapped(std::move(bucket), *maps->back());
  return all;
}

void ClusterObjects::change_buckets(std::function<Status()> work, Done<void> done) {
  auto and_tell = [this, work = std::move(work)]() -> Status {
    MR_TRY(work());
    // A node that does not answer hears of it by its watch, or has lost its lease.
    static_cast<void>(refresh_everywhere());
    return {};
  };
  store::run_on<void>(callers_, std::move(and_tell), std::move(done));
}

void ClusterObjects::create_bucket(const std::string& name, store::BucketSettings settings, Done<void> done) {
  change_buckets([this, name, settings] { return buckets_.create(name, settings); }, std::move(done));
}

void ClusterObjects::change_bucket(const std::string& name, store::BucketSettings settings, Done<void> done) {
  change_buckets(
      [this, name, settings]() -> Status {
        const auto known = find_bucket(name);
        if (known == nullptr) return store::no_such_bucket(name);
        if (known->settings.redundancy != settings.redundancy)
          MR_TRY(check_placeable(name, settings.redundancy));
        MR_TRY(buckets_.change(name, settings));
        return wait_for_redundancy(name, settings.redundancy);
      },
      std::move(done));
}

void ClusterObjects::remove_bucket(const std::string& name, Done<void> done) {
  change_buckets([this, name] { return remove_empty_bucket(name); }, std::move(done));
}

Status ClusterObjects::check_placeable(const std::string& bucket, const store::Redundancy& wanted) const {
  const auto maps = cluster_.membership().maps();
  const size_t drives = maps->back()->place(0, wanted.slices()).size();
  if (drives >= wanted.floor || MR_TRY(is_empty(bucket))) return {};
  return make_error(Code::kInvalid, "bucket {}: {} drives can hold slices, redundancy {} wants at least {}",
                    bucket, drives, store::redundancy_text(wanted), wanted.floor)
      .with_hint("add nodes first, or choose a redundancy with fewer slices");
}

Status ClusterObjects::wait_for_redundancy(const std::string& bucket, const store::Redundancy& wanted) const {
  constexpr auto kLongest = std::chrono::seconds(5);
  const auto until = std::chrono::steady_clock::now() + kLongest;
  while (std::chrono::steady_clock::now() < until) {
    const auto known = find_bucket(bucket);
    if (known == nullptr) return store::no_such_bucket(bucket);
    const store::Redundancy& now = known->settings.redundancy;
    if (now.k == wanted.k && now.m == wanted.m && now.floor == wanted.floor) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return make_error(Code::kUnavailable,
                    "the redundancy of bucket {} was changed, and this node has not seen it", bucket)
      .with_hint("millrace cluster status says which nodes reach the registry");
}

Result<bool> ClusterObjects::is_empty(const std::string& bucket) const {
  store::ListOptions first;
  first.limit = 1;
  return MR_TRY(list_cluster(cluster_, bucket, first)).entries.empty();
}

Status ClusterObjects::remove_empty_bucket(const std::string& name) {
  if (buckets_.find(name) == nullptr) return store::no_such_bucket(name);
  if (!MR_TRY(is_empty(name))) return bucket_not_empty(name);
  const uint64_t closed = MR_TRY(buckets_.close(name));
  Status removed = empty_closed_bucket(name);
  if (removed) removed = buckets_.remove(name, closed);
  // Where this fails too, whoever removes or makes the bucket again goes on.
  if (!removed) static_cast<void>(buckets_.reopen(name));
  return removed;
}

Status ClusterObjects::empty_closed_bucket(const std::string& name) {
  MR_TRY(refresh_everywhere());
  // What was acknowledged before the last node knew is there now.
  if (!MR_TRY(is_empty(name))) return bucket_not_empty(name);
  MR_TRY(uploads_.abort_all(name));
  MR_TRY(empty_hidden(cluster_, parts_of(name)));
  return empty_hidden(cluster_, indexes_of(name));
}

Status ClusterObjects::refresh_everywhere() {
  const auto refresh = [this](uint32_t node) {
    return store::ask_for<Reply>(
        [&](Done<Reply> done) { cluster_.call(node, RefreshRequest{}, std::move(done)); });
  };
  // First this node, so that it knows of all others.
  const uint32_t self = cluster_.membership().self();
  if (const auto own = refresh(self).get(); !own) return own.error().copy();
  std::vector<std::future<Result<Reply>>> waiting;
  const auto maps = cluster_.membership().maps();
  for (const MapNode& node : maps->back()->nodes()) {
    if (node.is_alive() && node.number != self) waiting.push_back(refresh(node.number));
  }
  Status all;
  for (auto& answer : waiting) {
    const auto heard = answer.get();
    if (!heard)
      all = make_error(Code::kUnavailable, "a node does not answer: {}", heard.error().message())
                .with_hint("try again; millrace cluster status says which nodes serve");
  }
  return all;
}

store::ObjectPointer ClusterObjects::find(std::string_view, std::string_view) {
  return nullptr;  // what is in memory may be old: a holder is asked each time
}

void ClusterObjects::get(const std::string& bucket, const std::string& key, Done<store::ObjectPointer> done) {
  cluster_.heal_pace().note_client();
  if (buckets_.find(bucket) == nullptr) return done(store::no_such_bucket(bucket));
  get_object({bucket, key}, std::move(done));
}

struct ClusterObjects::SmallRead {
  ObjectName name;
  FoundObject found;
  unsigned turn = 0;  // how often the object was looked up before
  Done<store::ObjectPointer> done;
  std::vector<DriveId> holders = {};  // those that answer soon first
  size_t slot = 0;                    // of them
  bool replaced = false;              // a holder answered that it has these bytes no more
};

void ClusterObjects::get_object(const ObjectName& name, Done<store::ObjectPointer> done, unsigned turn) {
  cluster_.find(name, [this, name, turn, done = std::move(done)](Result<std::optional<FoundObject>> found) {
    if (!found) return done(found.take_error());
    if (!*found) return done(store::no_such_object(name.bucket, name.key));
    show(name, std::move(**found), done, turn);
  });
}

void ClusterObjects::show(const ObjectName& name, FoundObject found, Done<store::ObjectPointer> done,
                          unsigned turn) {
  const bool small = found.record.pieces.empty();
  if (small && !found.bytes && found.record.size > 0)
    return fetch_small(std::make_shared<SmallRead>(name, std::move(found), turn, std::move(done)));
  done(store::ObjectPointer(std::make_shared<const store::Object>(
      name.bucket, name.key, std::move(found.record), small ? found.bytes.value_or("") : "")));
}

void ClusterObjects::fetch_small(const std::shared_ptr<SmallRead>& read) {
  constexpr unsigned kMostTurns = 20;  // each was lost to a write that came between
  const store::Spread& spread = read->found.record.spread;
  if (read->slot == 0) {
    read->holders = spread.holders;
    std::ranges::partition(read->holders, [&](DriveId drive) { return cluster_.is_prompt(drive); });
  }
  if (read->slot >= read->holders.size()) {
    if (read->replaced && read->turn < kMostTurns) return get_object(read->name, read->done, read->turn + 1);
    return read->done(
        make_error(Code::kUnavailable, "{}/{}: no holder told its bytes", read->name.bucket, read->name.key));
  }
  const auto maps = cluster_.membership().maps();
  const DriveId drive = read->holders[read->slot++];
  StateRequest request{StateRequest::Purpose::kPeek, maps->back()->epoch(), read->name, {drive}};
  cluster_.call(cluster_.node_of(drive), std::move(request), [this, read](Result<Reply> reply) {
    const auto* told = reply ? std::get_if<StateReply>(&*reply) : nullptr;
    if (told == nullptr || told->drives.empty()) return fetch_small(read);
    const std::string* bytes = told->drives.front().ledger.find_bytes(read->found.record.spread.write_id);
    if (bytes == nullptr) {
      read->replaced = true;
      return fetch_small(read);
    }
    read->found.bytes = *bytes;
    show(read->name, std::move(read->found), read->done);
  });
}

std::unique_ptr<store::Reader> ClusterObjects::open(store::ObjectPointer object, store::Comparing) {
  if (object->record().upload.empty()) return open_cluster_reader(cluster_, std::move(object));
  const std::string parts = parts_of(object->bucket());
  PartSource source{
      [this, parts](const std::string& key, Done<store::ObjectPointer> done) {
        get_object({parts, key}, std::move(done));
      },
      [this](store::ObjectPointer part) { return open_cluster_reader(cluster_, std::move(part)); }};
  return open_parts_reader(std::move(object), std::move(source));
}

ClusterShards::Get ClusterObjects::hidden_source() {
  return
      [this](const ObjectName& name, Done<store::ObjectPointer> done) { get_object(name, std::move(done)); };
}

std::string ClusterObjects::address_of(const store::Spread& spread, size_t slot) const {
  const auto maps = cluster_.membership().maps();
  const DriveId drive = spread.holders[slot];
  if (!maps->back()->is_alive(drive)) return {};
  const MapNode* const node = maps->back()->node_of(drive);
  return can_be_asked(*node) ? node->address : "";
}

bool ClusterObjects::can_be_asked(const MapNode& node) const {
  if (node.tls) return false;  // clients go from node to node over plain HTTP only
  return node.number == cluster_.membership().self() || (node.is_alive() && answers_(node.number));
}

std::string ClusterObjects::where(const store::Object& object) const {
  // Each part of an upload has holders of its own.
  if (object.is_inline() || !object.record().upload.empty()) return {};
  return where_of(object.record().spread);
}

std::string ClusterObjects::place(const std::string& bucket, const std::string& key, uint64_t size) const {
  const auto kind = size > kCopiedBytes ? Requester::Size::kLarge : Requester::Size::kSmall;
  const auto spread = cluster_.choose_spread({bucket, key}, kind);
  return spread ? where_of(*spread) : std::string();
}

std::string ClusterObjects::where_of(const store::Spread& spread) const {
  net::Where where{spread.k, spread.m, spread.k == 1 || spread.cell == 0 ? kCellBytes : spread.cell, {}};
  for (size_t slot = 0; slot < spread.holders.size(); ++slot)
    where.holders.push_back(address_of(spread, slot));
  return where.text();
}

std::string ClusterObjects::nodes(const store::Object& object) const {
  if (object.record().upload.empty()) return {};
  constexpr size_t kMost = 8;  // enough to find one that answers
  const auto maps = cluster_.membership().maps();
  const std::vector<MapNode>& all = maps->back()->nodes();
  // Each node names those that come after it, so that not all clients learn of the same few.
  const auto self = std::ranges::find(all, cluster_.membership().self(), &MapNode::number);
  const auto first = static_cast<size_t>(self - all.begin());
  std::string list;
  size_t named = 0;
  for (size_t i = 0; i < all.size() && named < kMost; ++i) {
    const MapNode& node = all[(first + i) % all.size()];
    if (!can_be_asked(node)) continue;
    list += (named++ == 0 ? "" : ",") + node.address;
  }
  return list;
}

std::optional<std::string> ClusterObjects::find_holder(const store::Object& object, uint64_t offset,
                                                       uint64_t size) const {
  if (!object.record().upload.empty()) return std::nullopt;
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
  store::run_on<ClusterShards::Index>(
      callers_, [this, object = std::move(object)] { return shards_.get(object); }, std::move(done));
}

void ClusterObjects::list(const std::string& bucket, store::ListOptions options, Done<store::ListPage> done) {
  cluster_.heal_pace().note_client();
  if (buckets_.find(bucket) == nullptr) return done(store::no_such_bucket(bucket));
  store::run_on<store::ListPage>(
      callers_,
      [this, bucket, options = std::move(options)] { return list_cluster(cluster_, bucket, options); },
      std::move(done));
}

Result<std::unique_ptr<store::Writer>> ClusterObjects::put(store::PutOptions options) {
  cluster_.heal_pace().note_client();
  MR_TRY(store::check_key(options.key));
  if (buckets_.find(options.bucket) == nullptr) return store::no_such_bucket(options.bucket);
  if (options.size && *options.size > store::kMaxObjectBytes) {
    return make_error(Code::kTooLarge, "{} bytes are above the maximum of an object", *options.size);
  }
  return std::unique_ptr<store::Writer>(
      std::make_unique<ClusterWriter>(cluster_, std::move(options), &shards_));
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

void ClusterObjects::create_upload(store::PutOptions options, Done<std::string> done) {
  if (Status good = store::check_key(options.key); !good) return done(good.take_error());
  if (buckets_.find(options.bucket) == nullptr) return done(store::no_such_bucket(options.bucket));
  store::run_on<std::string>(
      callers_, [this, options = std::move(options)] { return uploads_.create(options); }, std::move(done));
}

Result<std::unique_ptr<store::Writer>> ClusterObjects::put_part(store::PartOptions options) {
  cluster_.heal_pace().note_client();
  if (options.number < 1 || options.number > store::kMaxParts) {
    return make_error(Code::kInvalid, "part number {}: it must be 1 to {}", options.number, store::kMaxParts);
  }
  const store::UploadName& name = options.name;
  if (buckets_.find(name.bucket) == nullptr) return store::no_such_bucket(name.bucket);
  if (!is_upload_id(name.upload)) return store::no_such_upload(name.bucket, name.key, name.upload);
  return std::unique_ptr<store::Writer>(std::make_unique<PartWriter>(cluster_, options));
}

void ClusterObjects::parts(store::UploadName name, Done<std::vector<store::PartStatus>> done) {
  if (buckets_.find(name.bucket) == nullptr) return done(store::no_such_bucket(name.bucket));
  store::run_on<std::vector<store::PartStatus>>(
      callers_, [this, name = std::move(name)] { return uploads_.parts(name); }, std::move(done));
}

void ClusterObjects::upload(store::UploadName name, Done<store::UploadStatus> done) {
  if (buckets_.find(name.bucket) == nullptr) return done(store::no_such_bucket(name.bucket));
  store::run_on<store::UploadStatus>(
      callers_, [this, name = std::move(name)] { return uploads_.status(name); }, std::move(done));
}

void ClusterObjects::uploads(const std::string& bucket, Done<std::vector<store::UploadStatus>> done) {
  if (buckets_.find(bucket) == nullptr) return done(store::no_such_bucket(bucket));
  store::run_on<std::vector<store::UploadStatus>>(
      callers_, [this, bucket] { return uploads_.all(bucket); }, std::move(done));
}

void ClusterObjects::complete_upload(store::Completion completion, Done<store::ObjectPointer> done) {
  const store::UploadName& name = completion.name;
  if (buckets_.find(name.bucket) == nullptr) return done(store::no_such_bucket(name.bucket));
  store::run_on<store::ObjectPointer>(
      callers_,
      [this, completion = std::move(completion)]() -> Result<store::ObjectPointer> {
        store::Record record = MR_TRY(uploads_.complete(completion));
        store::ObjectPointer object = std::make_shared<const store::Object>(
            completion.name.bucket, completion.name.key, std::move(record), "");
        if (object->record().shard == store::ShardState::kPending) shards_.build_later(object);
        return object;
      },
      std::move(done));
}

void ClusterObjects::abort_upload(store::UploadName name, Done<void> done) {
  if (buckets_.find(name.bucket) == nullptr) return done(store::no_such_bucket(name.bucket));
  store::run_on<void>(
      callers_, [this, name = std::move(name)] { return uploads_.abort(name); }, std::move(done));
}

}  // namespace millrace::cluster
