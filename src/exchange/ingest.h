// Ingest: samples from shards or a directory into the sample stores of ranks.
//
// A sample gets a number in the whole data set, a label, and a checksum that goes with it from here on. Its
// bytes stay what they are; its key gets the number in front, so that no two samples of a segment share one.
// Shards may be addresses; only shards that hold samples of the ranks asked for are read, and of local ones
// only those samples. Blocks the caller until done.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "exchange/manifest.h"
#include "exchange/simulate.h"
#include "shard/output.h"
#include "transfer/stores.h"

namespace millrace::exchange {

// Where samples come from, numbered from 0.
class IngestSource {
 public:
  struct Sample {
    uint64_t number = 0;
    std::string_view key;
    std::span<const shard::NewField> fields;
  };
  using Wanted = std::function<bool(uint64_t number)>;
  using Take = std::function<Status(const Sample&)>;

  virtual ~IngestSource() = default;
  virtual const std::vector<uint64_t>& per_shard() const = 0;
  virtual Status read(const Wanted& wanted, const Take& take) = 0;
  virtual const std::vector<std::string>& classes() const = 0;  // empty: labels are numbers already
  // The same for ranks that see the same samples, and for no others: names, and sizes of some.
  virtual uint64_t fingerprint() const = 0;
  virtual uint64_t passed_over() const = 0;  // files that are no samples

  uint64_t samples() const;
};

// Names are expanded. Indexes come from beside the shards, from their store, or from reading them once.
Result<std::unique_ptr<IngestSource>> open_shards(std::vector<std::string> names, transfer::Stores& stores,
                                                  Progress* progress);
struct FolderOptions {
  std::vector<std::string> classes;     // in the order of their numbers; none: those there are, by name
  std::vector<std::string> extensions;  // of the files that are samples, without the dot; none: all
};
// Every file is a sample, its directory its class. Dots before the extension become underscores in its key:
// they would begin the name of a field.
Result<std::unique_ptr<IngestSource>> open_folder(const std::string& directory, FolderOptions options);

// Names of classes, one a line; of a table (tabs, or a blank before the last word) the first column. Where
// the second is a number on every line, those are the classes'; or else they are numbered in this order.
enum class ClassOrder { kByLine, kByName };
Result<std::vector<std::string>> read_classes(const std::string& path, ClassOrder order);

struct IngestOptions {
  Deal deal;                    // who gets what
  std::vector<uint32_t> ranks;  // whose stores are made here
  // The ranks that the samples of the source are for; none: all.
  std::vector<uint32_t> sharers;
  std::string label_field = "cls";
  std::vector<std::string> classes;  // numbers of labels that are names
  // Where the samples of the source are only a part of a larger set: the first one's number and how many
  // there are in all.
  uint64_t first_id = 0;
  uint64_t all = 0;  // 0: the source is the whole set
  uint64_t segment_bytes = uint64_t{64} << 20;
  Progress* progress = nullptr;
};

// One manifest for each of the ranks asked for. The stores are not there yet: `classes` is only known when
// every rank has counted; finish_ingest() makes them. A source without samples is an error.
Result<std::vector<Manifest>> ingest(IngestSource& source, const std::string& root,
                                     const IngestOptions& options);
Status finish_ingest(const std::string& root, std::vector<Manifest> manifests, uint32_t classes);

}  // namespace millrace::exchange
