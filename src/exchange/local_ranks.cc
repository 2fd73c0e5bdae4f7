// Threads as ranks over the stores of one root.
#include "exchange/local_ranks.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <thread>

#include "base/file.h"
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

Status redeal_stores(const std::string& root, uint32_t world, const ExchangeOptions& options) {
  const uint32_t there = count_stores(root);
  if (there == 0)
    return make_error(Code::kNotFound, "{}: there are no sample stores", root)
        .with_hint("make them with millrace pls ingest");
  const Manifest seen = MR_TRY(read_store(root, 0));
  if (there < seen.world) {
    return make_error(Code::kNotFound, "{}: only {} of the {} stores are here: they cannot be dealt anew",
                      root, there, seen.world)
        .with_hint("bring all rank-* directories below one root");
  }
  const auto open = [&](Group& group) {
    return Exchange::open(rank_directory(root, group.rank()), group, options);
  };
  MR_TRY(run_ranks(there, [&](Group& group) -> Status {
    MR_TRY(open(group));
    return {};
  }));
  const Manifest first = MR_TRY(read_store(root, 0));
  if (first.world == world && there == world) return {};
  for (uint32_t rank = there; rank < world; ++rank) MR_TRY(make_empty_store(root, rank, first));
  const uint32_t ranks = std::max(there, world);
  MR_TRY(run_ranks(ranks, [&](Group& group) -> Status {
    auto exchange = MR_TRY(open(group));
    return exchange->redeal(world);
  }));
  // From the last on, so that a kill leaves no gap.
  for (uint32_t rank = ranks; rank-- > world;) {
    const Manifest manifest = MR_TRY(read_store(root, rank));
    MR_ASSERT(manifest.records.empty(), rank, manifest.records.size());
    std::error_code failure;
    std::filesystem::remove_all(rank_directory(root, rank), failure);
    if (failure) return make_system_error(failure.value(), "removing " + rank_directory(root, rank));
  }
  return {};
}

Result<VerifyReport> verify_stores(const std::string& root, Progress* progress) {
  VerifyReport report;
  report.ranks = count_stores(root);
  if (report.ranks == 0)
    return make_error(Code::kNotFound, "{}: there are no sample stores", root)
        .with_hint("make them with millrace pls ingest");
  uint64_t all = 0;
  for (uint32_t rank = 0; rank < report.ranks; ++rank) {
    const Manifest manifest = MR_TRY(read_store(root, rank));
    report.epoch = std::max(report.epoch, manifest.epoch);
    all = std::max(all, manifest.samples);
  }
  std::map<uint64_t, uint32_t> holders;
  for (uint32_t rank = 0; rank < report.ranks; ++rank) {
    auto manifest = settled(root, rank, report.epoch);
    if (!manifest) {
      report.faults.push_back(fmt::format("rank {}: {}", rank, manifest.error().message()));
      continue;
    }
    const auto store = MR_TRY(SampleStore::open(rank_directory(root, rank), manifest.take()));
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
