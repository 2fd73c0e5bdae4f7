// Pages of all nodes, merged.
#include "cluster/cluster_list.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <iterator>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "base/fault.h"
#include "cluster/listed_elsewhere.h"
#include "cluster/merge_lists.h"
#include "cluster/places.h"
#include "cluster/reasons.h"
#include "store/waiting.h"

namespace millrace::cluster {

namespace {

// The next keys of all nodes, up to where all of them were heard.
struct Batch {
  ListEntries entries;
  std::string reached;  // empty: to the end
};

// Error where a write may be known to none of the drives that were heard.
Status check_complete(Cluster& cluster, const std::string& bucket, const std::set<DriveId>& heard) {
  if (broken("list-without-node")) return {};
  const auto maps = cluster.membership().maps();
  for (const auto& map : *maps) {
    const Redundancy whole = MR_TRY(redundancy_in(*map, bucket, cluster.membership()));
    if (map->epoch() < whole.since) continue;
    size_t serving = 0;
    size_t silent = 0;
    for (const MapNode& node : map->nodes()) {
      if (node.state != NodeState::kServing) continue;
      for (const MapDrive& drive : node.drives) {
        if (drive.state != DriveStanding::kServing) continue;
        ++serving;
        if (!heard.contains(drive.hash())) ++silent;
      }
    }
    for (const Redundancy& redundancy : {whole, whole.small()}) {
      const size_t placed = std::min(serving, redundancy.slices());
      if (placed < redundancy.floor || silent + redundancy.k <= placed) continue;
      return make_error(kUndecided, "bucket {} cannot be listed while {} drives are away", bucket, silent)
          .with_hint("bring one of their nodes back: millrace cluster status");
    }
  }
  return {};
}

bool heard_all(const Map& map, const std::set<DriveId>& heard) {
  return std::ranges::all_of(map.nodes(), [&](const MapNode& node) {
    return std::ranges::all_of(node.drives, [&](const MapDrive& drive) {
      return !map.is_alive(drive.hash()) || heard.contains(drive.hash());
    });
  });
}

// kOldEpoch where a node knows a newer map than this one.
Result<Batch> ask_all(Cluster& cluster, ListRequest request) {
  const auto maps = cluster.membership().maps();
  request.epoch = maps->back()->epoch();
  request.once = request.once && places_all_alike(*maps);
  std::vector<std::future<Result<Reply>>> answers;
  for (const MapNode& node : maps->back()->nodes()) {
    if (!node.is_alive()) continue;
    answers.push_back(store::ask_for<Reply>(
        [&](Done<Reply> done) { cluster.call(node.number, request, std::move(done)); }));
  }
  Batch batch;
  std::vector<ListEntries> lists;
  std::set<DriveId> heard;
  std::optional<Error> old;
  for (auto& waiting : answers) {
    Result<Reply> reply = waiting.get();
    if (!reply && reply.error().is(kOldEpoch)) old = reply.take_error();
    if (old) continue;
    auto* page = reply ? std::get_if<ListReply>(&*reply) : nullptr;
    if (page == nullptr) continue;  // whether that matters is judged below
    heard.insert(page->drives.begin(), page->drives.end());
    if (!page->reached.empty() && (batch.reached.empty() || page->reached < batch.reached))
      batch.reached = page->reached;
    lists.push_back(std::move(page->entries));
  }
  if (old) return std::move(*old);
  if (request.once && !heard_all(*maps->back(), heard)) {
    // The others left out what the silent ones list.
    request.once = false;
    return ask_all(cluster, std::move(request));
  }
  MR_TRY(check_complete(cluster, request.bucket, heard));
  batch.entries = merge_lists(std::move(lists), batch.reached);
  return batch;
}

// Waits a little for the newest map where others know it already.
Result<Batch> next_batch(Cluster& cluster, const ListRequest& request) {
  constexpr int kMostTurns = 50;
  for (int turn = 0;; ++turn) {
    Result<Batch> batch = ask_all(cluster, request);
    if (batch || !batch.error().is(kOldEpoch) || turn == kMostTurns) return batch;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

// How many keys each drive is asked for, so that all of them together know those that are wanted: a drive
// knows a share of the keys, by its weight. Common prefixes stand for any number of keys.
uint32_t choose_batch(Cluster& cluster, const std::string& bucket, const store::ListOptions& options,
                      size_t have) {
  constexpr uint32_t kMost = 1000;
  constexpr double kMargin = 1.2;
  constexpr uint32_t kLeast = 50;
  if (!options.delimiter.empty()) return kMost;
  const auto map = cluster.membership().maps()->back();
  double all = 0;
  double heaviest = 0;
  for (const MapNode& node : map->nodes()) {
    for (const MapDrive& drive : node.drives) {
      if (!map->is_alive(drive.hash())) continue;
      all += drive.weight;
      heaviest = std::max(heaviest, drive.weight);
    }
  }
  const auto redundancy = redundancy_in(*map, bucket, cluster.membership());
  if (!redundancy || all == 0) return kMost;
  const double share = std::min(1.0, static_cast<double>(redundancy->slices()) * heaviest / all);
  const double wanted = static_cast<double>(options.limit + 1 - have) * share * kMargin;
  return static_cast<uint32_t>(std::min<double>(kMost, wanted)) + kLeast;
}

}  // namespace

Result<store::ListPage> list_cluster(Cluster& cluster, const std::string& bucket,
                                     const store::ListOptions& options) {
  store::ListPage page;
  ListRequest request{0, bucket, options.prefix, options.after};
  request.once = true;
  std::string last_prefix;  // a common prefix that was listed before counts once
  if (!options.delimiter.empty() && options.after.ends_with(options.delimiter)) last_prefix = options.after;
  while (true) {
    request.limit = choose_batch(cluster, bucket, options, page.entries.size());
    Batch batch = MR_TRY(next_batch(cluster, request));
    for (ListReply::Entry& entry : batch.entries) {
      const std::string& key = entry.key;
      if (entry.deleted || (!last_prefix.empty() && key.starts_with(last_prefix))) continue;
      if (page.entries.size() == options.limit) {
        page.truncated = true;
        return page;
      }
      const size_t end =
          options.delimiter.empty() ? std::string::npos : key.find(options.delimiter, options.prefix.size());
      if (end == std::string::npos) {
        page.entries.push_back(
            {std::move(entry.key), false, entry.size, entry.modified_ms, std::move(entry.etag)});
        continue;
      }
      last_prefix = key.substr(0, end + options.delimiter.size());
      page.entries.push_back({last_prefix, true, 0, 0, ""});
    }
    if (batch.reached.empty()) return page;
    // Behind everything that begins with the common prefix.
    request.after = batch.reached;
    if (!last_prefix.empty() && batch.reached.starts_with(last_prefix)) request.after = last_prefix + '\xff';
  }
}

Result<RecordPage> list_some_records(Cluster& cluster, const RecordRange& range) {
  constexpr uint32_t kBatch = 200;  // a reply has at most 8 MiB, and headers can be long
  const uint32_t epoch = cluster.membership().maps()->back()->epoch();
  Batch batch = MR_TRY(next_batch(cluster, {epoch, range.bucket, range.prefix, range.after, kBatch, true}));
  RecordPage page;
  page.reached = std::move(batch.reached);
  for (ListReply::Entry& entry : batch.entries) {
    if (entry.record) page.listed.push_back({std::move(entry.key), *entry.record});
  }
  return page;
}

Result<std::vector<ListedRecord>> list_records(Cluster& cluster, const std::string& bucket,
                                               const std::string& prefix) {
  std::vector<ListedRecord> listed;
  RecordRange range{bucket, prefix, ""};
  while (true) {
    RecordPage page = MR_TRY(list_some_records(cluster, range));
    std::ranges::move(page.listed, std::back_inserter(listed));
    if (page.reached.empty()) return listed;
    range.after = page.reached;
  }
}

}  // namespace millrace::cluster
