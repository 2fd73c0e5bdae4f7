// Shards for the tests of the loader: known samples in real files.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/assert.h"
#include "base/testing/temporary_directory.h"
#include "loader/catalogue.h"
#include "shard/writer.h"
#include "transfer/stores.h"

namespace millrace::loader::testing {

// Samples 0 … n-1 with a label and a body of their own, `per_shard` to a file.
struct MadeShards {
  std::vector<std::string> names;
  uint64_t samples = 0;
};

inline std::string body_of(uint64_t number) {
  return fmt::format("<{}>", number) + std::string(number * 37 % 3000, static_cast<char>('a' + number % 26));
}

inline MadeShards make_shards(const millrace::testing::TemporaryDirectory& directory, uint64_t samples,
                              uint64_t per_shard, const std::string& suffix = ".tar") {
  const auto name = shard::OutputName::parse(directory.path("s-%04d") + suffix);
  MR_ASSERT(name.has_value());
  shard::ShardLimits limits;
  limits.max_samples = per_shard;
  shard::ShardWriter writer(*name, limits, {});
  for (uint64_t i = 0; i < samples; ++i) {
    const std::string label = std::to_string(i);
    const std::string body = body_of(i);
    const shard::NewField fields[] = {{"cls", label}, {"txt", body}};
    const auto added = writer.add(fmt::format("{:07}", i), fields);
    MR_ASSERT(added.has_value());
  }
  const auto finished = writer.finish();
  MR_ASSERT(finished.has_value());
  MadeShards made;
  made.samples = samples;
  for (const auto& summary : *finished) made.names.push_back(summary.path);
  return made;
}

inline std::shared_ptr<const Catalogue> open_catalogue(transfer::Stores& stores,
                                                       const std::vector<std::string>& names,
                                                       const std::string& cache) {
  CatalogueOptions options;
  options.names = names;
  options.index_cache = cache;
  auto catalogue = Catalogue::open(stores, options);
  MR_ASSERT(catalogue.has_value(), catalogue.error().message());
  return catalogue.take();
}

}  // namespace millrace::loader::testing
