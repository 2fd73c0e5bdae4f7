// Catalogue: the shards of a data set with their indexes; what an order is made of.
//
// An index comes from the store that holds the shard, from the file beside it, from an earlier run's cache,
// or from reading the shard once. Immutable once open; shared by every epoch and thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "loader/order.h"
#include "tar/index.h"
#include "transfer/stores.h"

namespace millrace::loader {

// A place where a shard's bytes can be had.
struct Source {
  std::string name;                            // path or address
  std::optional<transfer::Location> location;  // nothing: a local file
  std::string etag;                            // with quotes; empty: none known
};

// Its samples are numbered from 0 without gaps, whether all of them belong to the data set or some.
struct Shard {
  std::vector<Source> sources;                          // the first is preferred, the others are mirrors
  std::shared_ptr<const tar::Index> index;              // null: to be streamed
  std::shared_ptr<const std::vector<uint32_t>> picked;  // ordinals in the shard, rising; null: all

  const std::string& name() const { return sources.front().name; }
  uint64_t samples() const { return picked ? picked->size() : index ? index->samples() : 0; }
  uint64_t ordinal(uint64_t sample) const { return picked ? (*picked)[sample] : sample; }
  tar::Index::Range range(uint64_t sample) const { return index->range(ordinal(sample)); }
  uint64_t key_hash(uint64_t sample) const { return index->key_hash(ordinal(sample)); }
};

enum class IndexOrigin { kStore, kSidecar, kCache, kBuilt };

struct CatalogueOptions {
  std::vector<std::string> names;  // expanded
  // Other places of the same shards, each as long as `names`.
  std::vector<std::vector<std::string>> mirrors;
  std::string index_cache;  // a directory; empty: $XDG_CACHE_HOME/millrace/indexes or the same in ~/.cache
  tar::KeyRule key_rule = tar::KeyRule::kFirstDot;  // an index made by another is passed over
  bool indexed = true;                              // false: the shards are only named, to be streamed
  Progress* progress = nullptr;                     // counts what has to be read to build indexes
};

class Catalogue {
 public:
  // `stores` outlives the catalogue.
  static Result<std::shared_ptr<const Catalogue>> open(transfer::Stores& stores, CatalogueOptions options);

  // Only the samples whose numbers are given, rising; they keep their order.
  Result<std::shared_ptr<const Catalogue>> select(const std::vector<uint64_t>& numbers) const;
  // Only samples that have one of these fields.
  Result<std::shared_ptr<const Catalogue>> select_with(const std::vector<std::string>& any_of) const;
  // Several data sets one after the other, as parts of one; all of them use the same stores.
  static Result<std::shared_ptr<const Catalogue>> join(
      const std::vector<std::shared_ptr<const Catalogue>>& parts);

  // The same samples with the fields of another data set beside their own: its shard n must hold every key of
  // shard n here, in any order.
  Result<std::shared_ptr<const Catalogue>> with_columns(const Catalogue& other) const;
  // Where a sample's fields are in the data sets that lend them.
  std::vector<SampleRef> columns_of(SampleRef sample) const;

  // "s-0.tar: sample 3 at byte 1536", for people.
  std::string place_of(SampleRef sample) const;

  // Where each part's shards begin, and one more at the end; {0, shards} unless joined.
  const std::vector<size_t>& parts() const { return parts_; }
  // Those of the parts first, then those that only lend columns.
  const std::vector<Shard>& shards() const { return shards_; }
  const std::vector<uint64_t>& samples_per_shard() const { return samples_per_shard_; }
  uint64_t samples() const { return samples_; }
  uint64_t bytes() const { return bytes_; }  // of all samples as they lie in the tars
  bool is_local() const { return is_local_; }
  bool is_indexed() const { return shards_.front().index != nullptr; }
  // The same data gives the same number, wherever it is kept.
  uint64_t identity() const { return identity_; }
  uint64_t count(IndexOrigin origin) const { return origins_[static_cast<size_t>(origin)]; }
  transfer::Stores& stores() const { return stores_; }
  tar::KeyRule key_rule() const { return key_rule_; }  // of streamed shards; indexes have their own

 private:
  explicit Catalogue(transfer::Stores& stores) : stores_(stores) {}
  void count();  // what follows from the shards
  // A data set that lends fields.
  struct Columns {
    uint32_t first_shard = 0;
    std::vector<std::vector<uint32_t>> ordinals;  // per shard and sample
  };

  transfer::Stores& stores_;
  std::vector<Shard> shards_;
  std::vector<size_t> parts_;
  std::vector<Columns> columns_;
  std::vector<uint64_t> samples_per_shard_;
  uint64_t samples_ = 0;
  uint64_t bytes_ = 0;
  uint64_t identity_ = 0;
  bool is_local_ = true;
  tar::KeyRule key_rule_ = tar::KeyRule::kFirstDot;
  uint64_t origins_[4] = {};
};

}  // namespace millrace::loader
