// Slices: what the drives of this machine keep for a cluster: slices of objects, and ledgers about keys.
//
// Unlike Objects, every call names the drive: a cluster's placement decides, and two drives of one machine
// may hold different slices of one object. A slice is an object of the hidden bucket `_slices`, so checksums,
// scrubbing, caching and reading are those of objects. A ledger is a row of the drive's index: bytes that
// this class does not understand. Calls block for the drive, but for in_service and open. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "store/index.h"
#include "store/objects.h"
#include "store/verify.h"

namespace millrace::store {

class Core;
class Drive;
class ObjectReader;

class Slices {
 public:
  Slices(Core& core, ObjectReader& reader) : core_(core), reader_(reader) {}

  // Before the first slice: makes the bucket for them, and notes which ones are there already.
  Status prepare();

  struct OwnDrive {
    uint64_t hash = 0;  // of its id
    std::string id;
    double weight = 1.0;
    bool in_service = false;
    bool draining = false;
    bool nearly_full = false;  // it is to get no new slices
  };
  std::vector<OwnDrive> drives() const;
  // Ids of drives that were taken out for good.
  std::vector<std::string> removed_drives() const;
  // Whether the drive is here, readable and writable.
  bool in_service(uint64_t drive) const;

  // Ledgers. Nothing: there is none.
  Result<std::optional<std::string>> find_ledger(uint64_t drive, std::string_view bucket,
                                                 std::string_view key);
  // An empty value takes it away.
  Status write_ledger(uint64_t drive, std::string_view bucket, std::string_view key, std::string_view value,
                      Sync sync);
  struct LedgerRow {
    std::string bucket;
    std::string key;
    std::string value;
  };
  // Those of a bucket with keys behind `after`, in order; fewer than `limit` only at the end.
  struct Range {
    std::string bucket;
    std::string prefix;
    std::string after;
    size_t limit = 1000;
  };
  Result<std::vector<LedgerRow>> list_ledgers(uint64_t drive, const Range& range);
  // The same without copies: `visit` gets views that end with the call, and says whether it wants more.
  enum class Visit : uint8_t { kGoOn, kStop };
  using VisitLedger = std::function<Result<Visit>(std::string_view key, std::string_view value)>;
  struct Visited {
    bool is_end = false;  // there are no more rows
  };
  Result<Visited> visit_ledgers(uint64_t drive, const Range& range, const VisitLedger& visit);
  // Those of all buckets behind this one, in order.
  Result<std::vector<LedgerRow>> walk_ledgers(uint64_t drive, std::string_view bucket, std::string_view key,
                                              size_t limit);

  // Slices, by name.
  Result<std::unique_ptr<Writer>> put(uint64_t drive, const std::string& name, std::optional<uint64_t> size);
  Result<ObjectPointer> get(const std::string& name);
  std::unique_ptr<Reader> open(ObjectPointer slice);
  // Compares blocks of a slice with their checksums, as they are on the drive now: nothing that was compared
  // before counts. An error where the slice or its file is missing (kNotFound), or nothing can be compared.
  struct Checked {
    uint64_t slice_bytes = 0;
    uint64_t good_bytes = 0;  // of the blocks that were compared
    std::vector<uint64_t> bad_blocks;
    uint64_t blocks = 0;  // of the whole slice
  };
  Result<Checked> check(const std::string& name, BlockRange range);
  // What readers and the scrubber found damaged, and nobody has made again.
  struct Damaged {
    uint64_t drive = 0;
    std::string name;
    uint64_t block = 0;  // the first one that was found
    std::string what;
  };
  std::vector<Damaged> damaged() const;
  // It is whole again, or gone.
  void forget_damage(const std::string& name);
  // A slice that will be removed, unless it is put again before.
  void doom(const std::string& name);
  void remove_doomed(const std::string& name);
  bool is_doomed(const std::string& name) const;
  // A slice that was there before this process began, whatever its clock said then.
  struct OldSlice {
    std::string name;
    std::string etag;  // of this writing of it
    int64_t modified_ms = 0;
  };
  struct OldSlices {
    std::vector<OldSlice> slices;
    std::string reached;  // the name to go on behind; empty: there are no more
  };
  // Those with names behind `after`, in order, among so many rows. An error where the drive has lost rows,
  // and nobody knows which.
  Result<OldSlices> list_old(uint64_t drive, const std::string& after, size_t rows);
  // Takes it away, unless it was written again or is doomed: then false.
  Result<bool> remove_old(const OldSlice& slice);

 private:
  Result<std::shared_ptr<Drive>> find(uint64_t drive) const;

  Core& core_;
  ObjectReader& reader_;
  uint64_t began_ = 0;  // versions below it are from before
  mutable Mutex mutex_;
  std::set<std::string, std::less<>> doomed_ MR_GUARDED_BY(mutex_);
};

}  // namespace millrace::store
