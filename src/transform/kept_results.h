// KeptResults: results of transforms on a local drive, until their room is needed.
//
// One file for each result, in a directory of its own. A result is there whole or not at all, also after a
// crash. When all of them exceed `most_bytes`, or the drive is used beyond `fill_percent`, the results that
// nobody read for the longest time go. They go before anything else: they can be made again. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/background.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/result.h"
#include "tar/writer.h"

namespace millrace::transform {

struct KeptOptions {
  std::string directory;
  uint64_t most_bytes = 0;  // 0: nothing is kept
  unsigned fill_percent = 85;
};

class KeptResults {
 public:
  // Makes the directory, and finds what an earlier run kept.
  static Result<std::unique_ptr<KeptResults>> open(KeptOptions options);
  ~KeptResults();

  struct Found {
    std::shared_ptr<const File> file;
    uint64_t size = 0;
  };
  std::optional<Found> find(const std::string& name);

  // A result on its way. Dropped before commit(): no trace.
  class Writer {
   public:
    ~Writer();
    Status write(std::string_view bytes);
    void commit();

   private:
    friend class KeptResults;
    Writer(KeptResults& results, std::string name, AtomicFile file)
        : results_(results), name_(std::move(name)), file_(std::move(file)) {}
    KeptResults& results_;
    const std::string name_;
    AtomicFile file_;
    uint64_t bytes_ = 0;
    bool is_broken_ = false;
  };
  // Null: nothing is kept, there is no room, or somebody else makes it now. `name` is of hex digits.
  std::unique_ptr<Writer> begin(const std::string& name);

  struct Reading {
    uint64_t results = 0;
    uint64_t bytes = 0;
    uint64_t hits = 0;
    uint64_t evicted = 0;
  };
  Reading read() const;

 private:
  struct Kept {
    uint64_t size = 0;
    uint64_t used = 0;  // the count of uses at the last one
  };
  explicit KeptResults(KeptOptions options) : options_(std::move(options)) {}
  Status look_around();
  bool has_room() const;
  void add(const std::string& name, uint64_t size);
  void make_room();
  void evict_oldest() MR_REQUIRES(mutex_);
  std::string path(const std::string& name) const { return options_.directory + "/" + name + ".result"; }

  const KeptOptions options_;
  mutable Mutex mutex_;
  std::map<std::string, Kept> results_ MR_GUARDED_BY(mutex_);
  std::set<std::string> under_way_ MR_GUARDED_BY(mutex_);
  uint64_t bytes_ MR_GUARDED_BY(mutex_) = 0;
  uint64_t uses_ MR_GUARDED_BY(mutex_) = 0;
  uint64_t hits_ MR_GUARDED_BY(mutex_) = 0;
  uint64_t evicted_ MR_GUARDED_BY(mutex_) = 0;
  Background evicting_;
};

}  // namespace millrace::transform
