// Runs ranks as threads over the stores of one root.
#include "exchange/local_ranks.h"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <thread>

#include "base/fault.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/text.h"
#include "exchange/sample_store.h"

namespace millrace::exchange {

namespace {

Result<Manifest> read_store(const std::string& root, uint32_t rank) {
  return read_current(rank_directory(root, rank));
}

// A rank that holds nothing yet, at the epoch of the others.
Status make_empty_store(const std::string& root, uint32_t rank, const Manifest& like) {
  const std::string directory = rank_directory(root, rank);
  MR_ASSERT(!file_exists(directory + "/" + std::string(kCurrentName)), directory);
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  if (failure) return make_system_error(failure.value(), "making " + directory);
  Manifest manifest = like;
  manifest.rank = rank;
  manifest.generation = 0;
  manifest.segments.clear();
  manifest.records.clear();
  return Ledger::create(directory, manifest);
}

// The manifest that recovery will settle on.
Result<Manifest> settled(const std::string& root, uint32_t rank, uint64_t newest) {
  Manifest manifest = MR_TRY(read_store(root, rank));
  if (manifest.epoch == newest) return manifest;
  return read_manifest(rank_directory(root, rank), manifest_name(newest, 0));
}

Status remove_store(const std::string& root, uint32_t rank) {
  std::error_code failure;
  std::filesystem::remove_all(rank_directory(root, rank), failure);
  if (failure) return make_system_error(failure.value(), "removing " + rank_directory(root, rank));
  return {};
}

// To how many ranks the samples are dealt, by the newest epoch that any of them has committed.
Result<uint32_t> find_world(const std::string& root, uint32_t there) {
  Manifest newest = MR_TRY(read_store(root, 0));
  for (uint32_t rank = 1; rank < there; ++rank) {
    Manifest one = MR_TRY(read_store(root, rank));
    if (one.epoch > newest.epoch) newest = std::move(one);
  }
  return newest.world;
}

// Stores beyond the world are what a killed redeal left: made and not dealt to yet, or empty and not removed
// yet. One that is ahead of the others is how they know that they may follow: it stays for recovery.
Status sweep_beyond(const std::string& root, uint32_t there, uint32_t world) {
  uint64_t slowest = UINT64_MAX;
  for (uint32_t rank = 0; rank < world; ++rank)
    slowest = std::min(slowest, MR_TRY(read_store(root, rank)).epoch);
  for (uint32_t rank = there; rank-- > world;) {
    const Manifest manifest = MR_TRY(read_store(root, rank));
    if (!manifest.records.empty() || manifest.epoch > slowest) return {};
    MR_TRY(remove_store(root, rank));
  }
  return {};
}

// One process at a time deals anew: another would take stores that are just being made for its own.
Result<FileLock> lock_root(const std::string& root) {
  return FileLock::try_take(root + "/redeal.lock", 0666).within("dealing the stores of " + root + " anew");
}

}  // namespace

uint32_t count_stores(const std::string& root) {
  uint32_t count = 0;
  while (count < kMaxRanks && file_exists(rank_directory(root, count) + "/" + std::string(kCurrentName)))
    ++count;
  return count;
}

Status run_ranks(uint32_t ranks, const std::function<Status(Group&)>& work) {
  ThreadWorld world(ranks);
  // The groups outlive all threads: others may still look at what a failed rank left posted.
  std::vector<std::unique_ptr<Group>> groups;
  for (uint32_t rank = 0; rank < ranks; ++rank) groups.push_back(world.group(rank));
  std::vector<Status> results(ranks);
  {
    std::vector<std::jthread> threads;
    for (uint32_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&work, &groups, &results, rank] { results[rank] = work(*groups[rank]); });
  }
  for (Status& result : results) {
    if (!result) return std::move(result);
  }
  return {};
}

namespace {

Result<bool> are_level(const std::string& root, uint32_t ranks) {
  uint64_t least = UINT64_MAX;
  uint64_t most = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const uint64_t held = MR_TRY(read_store(root, rank)).records.size();
    least = std::min(least, held);
    most = std::max(most, held);
  }
  return most - least <= 1;
}

}  // namespace

Status redeal_stores(const std::string& root, uint32_t world, const ExchangeOptions& options) {
  if (count_stores(root) == 0)
    return make_error(Code::kNotFound, "{}: there are no sample stores", root)
        .with_hint("make them with millrace pls ingest");
  const FileLock lock = MR_TRY(lock_root(root));
  const uint32_t dealt_to = MR_TRY(find_world(root, count_stores(root)));
  if (count_stores(root) < dealt_to) {
    return make_error(Code::kNotFound, "{}: only {} of the {} stores are here: they cannot be dealt anew",
                      root, count_stores(root), dealt_to)
        .with_hint("bring all rank-* directories below one root");
  }
  MR_TRY(sweep_beyond(root, count_stores(root), dealt_to));
  const uint32_t there = count_stores(root);
  const auto open = [&](Group& group) {
    return Exchange::open(rank_directory(root, group.rank()), group, options);
  };
  MR_TRY(run_ranks(there, [&](Group& group) -> Status {
    MR_TRY(open(group));
    return {};
  }));
  const Manifest first = MR_TRY(read_store(root, 0));
  if (first.world == world && there == world && MR_TRY(are_level(root, there))) return {};
  for (uint32_t rank = there; rank < world; ++rank) {
    MR_TRY(make_empty_store(root, rank, first));
    MR_FAULT("redeal.made");
  }
  const uint32_t ranks = std::max(there, world);
  MR_TRY(run_ranks(ranks, [&](Group& group) -> Status {
    auto exchange = MR_TRY(open(group));
    return exchange->redeal(world);
  }));
  // From the last on, so that a kill leaves no gap.
  for (uint32_t rank = ranks; rank-- > world;) {
    const Manifest manifest = MR_TRY(read_store(root, rank));
    MR_ASSERT(manifest.records.empty(), rank, manifest.records.size());
    MR_FAULT("redeal.emptied");
    MR_TRY(remove_store(root, rank));
  }
  return {};
}

Result<VerifyReport> verify_stores(const std::string& root, Progress* progress) {
  VerifyReport report;
  report.ranks = count_stores(root);
  if (report.ranks == 0)
    return make_error(Code::kNotFound, "{}: there are no sample stores", root)
        .with_hint("make them with millrace pls ingest");
  const uint32_t world = MR_TRY(find_world(root, report.ranks));
  if (report.ranks < world)
    report.faults.push_back(fmt::format("only {} of the {} stores are here", report.ranks, world));
  uint64_t all = 0;
  uint64_t newest = 0;
  for (uint32_t rank = 0; rank < report.ranks; ++rank) {
    const Manifest manifest = MR_TRY(read_store(root, rank));
    if (manifest.epoch >= newest) report.epoch = manifest.exchanges();
    newest = std::max(newest, manifest.epoch);
    all = std::max(all, manifest.samples);
  }
  std::map<uint64_t, uint32_t> holders;
  for (uint32_t rank = 0; rank < report.ranks; ++rank) {
    auto manifest = settled(root, rank, newest);
    // Left by a redeal that was killed: it holds nothing.
    if (!manifest && rank >= world) continue;
    auto opened = manifest ? SampleStore::open(rank_directory(root, rank), manifest.take())
                           : Result<std::shared_ptr<const SampleStore>>(manifest.take_error());
    if (!opened) {
      report.faults.push_back(fmt::format("rank {}: {}", rank, opened.error().message()));
      continue;
    }
    const std::shared_ptr<const SampleStore> store = opened.take();
    for (size_t slot = 0; slot < store->size(); ++slot) {
      const Record& record = store->manifest().records[slot];
      const auto [holder, fresh] = holders.emplace(record.id, rank);
      if (!fresh)
        report.faults.push_back(
            fmt::format("sample {} is held by rank {} and by rank {}", record.id, holder->second, rank));
      if (record.id >= all)
        report.faults.push_back(fmt::format("rank {} holds sample {} of {}", rank, record.id, all));
      const Status whole = store->check(slot);
      if (!whole) report.faults.push_back(fmt::format("rank {}: {}", rank, whole.error().message()));
      report.bytes += record.bytes;
      if (progress != nullptr) progress->add(record.bytes, 1);
    }
  }
  report.samples = holders.size();
  uint64_t missing = 0;
  uint64_t first_missing = 0;
  for (uint64_t id = all; id-- > 0;) {
    if (holders.contains(id)) continue;
    ++missing;
    first_missing = id;
  }
  if (missing > 0)
    report.faults.push_back(
        fmt::format("{} samples are held by nobody, the first is {}", missing, first_missing));
  return report;
}

}  // namespace millrace::exchange
