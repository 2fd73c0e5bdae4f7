// SampleStore: the samples that one rank holds on local storage, read in place.
//
// A snapshot: the manifest that CURRENT named when it was opened, and its segments mapped into memory.
// Immutable, safe from many threads; whoever wants to see a later epoch opens it again (is_current() says
// when). Samples are the tar blocks they always were: nothing is decoded, and the segments are shards that
// any loader reads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "exchange/manifest.h"

namespace millrace::exchange {

// Where the rank of a set of stores lies below their common root.
std::string rank_directory(const std::string& root, uint32_t rank);

class SampleStore {
 public:
  static Result<std::shared_ptr<const SampleStore>> open(const std::string& directory);
  // The same with a manifest that is not CURRENT's.
  static Result<std::shared_ptr<const SampleStore>> open(const std::string& directory, Manifest manifest);

  const std::string& directory() const { return directory_; }
  const Manifest& manifest() const { return manifest_; }
  size_t size() const { return manifest_.records.size(); }
  bool is_current() const;

  std::string_view blocks(size_t slot) const;
  // Compares a sample with its checksum; the error names the sample, the segment and the place.
  Status check(size_t slot) const;
  Status check_blocks(const Record& record, std::string_view blocks) const;

  // For a loader: the segments, and which of their samples are held, counted through them.
  std::vector<std::string> segment_paths() const;
  std::vector<uint64_t> numbers() const;

  uint64_t disk_bytes() const;  // that the segments take up now

 private:
  SampleStore() = default;

  std::string directory_;
  std::string stamp_;  // of CURRENT
  Manifest manifest_;
  std::map<uint32_t, MappedFile> segments_;
};

Result<Manifest> read_manifest(const std::string& directory, const std::string& name);
Result<Manifest> read_current(const std::string& directory);

}  // namespace millrace::exchange
