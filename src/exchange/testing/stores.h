// Sample stores for tests: known samples in real files, and ranks that are threads.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/assert.h"
#include "base/testing/temporary_directory.h"
#include "exchange/exchange.h"
#include "exchange/ingest.h"
#include "exchange/sample_store.h"
#include "loader/testing/shards.h"
#include "transfer/stores.h"

namespace millrace::exchange::testing {

using millrace::testing::TemporaryDirectory;

inline transfer::Stores& no_stores() {
  static transfer::Stores stores(transfer::Settings{});
  return stores;
}

// `samples` of classes in label order (id * 10 / samples), from 4 shards.
inline std::vector<std::string> make_source(const TemporaryDirectory& directory, uint64_t samples,
                                            uint64_t body = 700) {
  const auto name = shard::OutputName::parse(directory.path("source-%04d.tar"));
  shard::ShardLimits limits;
  limits.max_samples = (samples + 3) / 4;
  shard::ShardWriter writer(*name, limits, {});
  for (uint64_t i = 0; i < samples; ++i) {
    const std::string label = std::to_string(i * 10 / samples);
    const std::string text =
        fmt::format("<{}>", i) + std::string(body + i * 37 % 300, static_cast<char>('a' + i % 26));
    const shard::NewField fields[] = {{"cls", label}, {"txt", text}};
    MR_ASSERT(writer.add(fmt::format("{:07}", i), fields));
  }
  auto written = writer.finish();
  MR_ASSERT(written);
  std::vector<std::string> names;
  for (const auto& one : *written) names.push_back(one.path);
  return names;
}

struct Made {
  uint64_t samples = 0;
  uint32_t world = 1;
  Partition partition = Partition::kContiguous;
  uint64_t body = 700;
};

inline std::string make_stores(const TemporaryDirectory& directory, const Made& made) {
  auto source = open_shards(make_source(directory, made.samples, made.body), no_stores(), nullptr);
  MR_ASSERT(source);
  IngestOptions options;
  options.deal = {made.partition, made.world, 1};
  options.segment_bytes = 64 << 10;
  for (uint32_t rank = 0; rank < made.world; ++rank) options.ranks.push_back(rank);
  const std::string root = directory.path("stores");
  auto manifests = ingest(**source, root, options);
  MR_ASSERT(manifests, manifests ? std::string() : manifests.error().message());
  MR_ASSERT(finish_ingest(root, manifests.take(), 10));
  return root;
}

inline ExchangeOptions options_of(const std::string& fraction, Select select = Select::kOldest) {
  ExchangeOptions options;
  options.plan.seed = 5;
  options.plan.select = select;
  options.fraction = FractionSchedule::parse(fraction).take();
  options.limits = {32 << 10, 32 << 10};
  options.timeout_ms = 600'000;  // drives of busy machines stall; only tests of stalls are about time
  return options;
}

// Runs `work` for every rank in a thread of its own; the results by rank.
inline std::vector<Status> on_ranks(uint32_t ranks, const std::function<Status(Group&)>& work,
                                    uint32_t per_node = 1) {
  ThreadWorld world(ranks, per_node);
  std::vector<std::unique_ptr<Group>>
      groups;  // outlive the threads: others may still write into their buffers
  for (uint32_t rank = 0; rank < ranks; ++rank) groups.push_back(world.group(rank));
  std::vector<Status> results(ranks);
  std::vector<std::jthread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&work, &groups, &results, rank] { results[rank] = work(*groups[rank]); });
  threads.clear();
  return results;
}

// What all ranks hold: id -> the sample's text. An assertion where one is held twice or damaged.
inline std::map<uint64_t, std::string> all_held(const std::string& root, uint32_t world) {
  std::map<uint64_t, std::string> held;
  for (uint32_t rank = 0; rank < world; ++rank) {
    auto store = SampleStore::open(rank_directory(root, rank));
    MR_ASSERT(store, store ? std::string() : store.error().message());
    for (size_t slot = 0; slot < (*store)->size(); ++slot) {
      MR_ASSERT((*store)->check(slot), rank, slot);
      const bool fresh = held.emplace((*store)->manifest().records[slot].id, (*store)->blocks(slot)).second;
      MR_ASSERT(fresh, "held twice", (*store)->manifest().records[slot].id);
    }
  }
  return held;
}

}  // namespace millrace::exchange::testing
