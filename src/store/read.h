// Reading objects: what is in the page cache at once, the rest through the drive's reader in whole windows.
//
// A stretch that is ready can be sent without waiting for the drive. The reader brings a window, compares it
// with its checksums, and reads the next windows ahead while nobody else waits. Requests for bytes of a
// window that is under way wait for it. What was compared once is not compared again while it stays in
// memory, unless the bucket asks for that.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "store/core.h"
#include "store/local_object.h"

namespace millrace::store {

// Whether all of a file's stretch is in the page cache; never reads the drive.
bool is_resident(const File& file, uint64_t offset, uint64_t size);

enum class BlocksToCheck : uint8_t { kAll, kUnchecked };

class ObjectReader {
 public:
  explicit ObjectReader(Core& core) : core_(core) {}

  std::optional<Extent> find_ready(const LocalObject& object, uint64_t offset, uint64_t size);
  struct Wanted {
    uint64_t offset = 0;
    uint64_t size = 0;
    Comparing comparing = Comparing::kAsBucketSays;
  };
  void prepare(std::shared_ptr<const LocalObject> object, Wanted wanted, Done<Extent> done);

 private:
  PieceRange clip(const LocalObject& object, uint64_t offset, uint64_t size) const;
  // Whether a stretch needs no comparing: all of it was compared, or the bucket leaves that to the scrubber.
  bool is_checked(const LocalObject& object, const File& file, const PieceRange& stretch) const;
  // Compares what the bucket asks for: at least what was not there before.
  Status check(const LocalObject& object, const PieceRange& stretch, BlocksToCheck least) const;
  // Whether these bytes were on their way already: then the drive reads ahead of this stream.
  enum class Stream : uint8_t { kBegins, kGoesOn };
  Result<Extent> bring(const LocalObject& object, Wanted wanted, Stream stream);
  // One comparing serves all who want these bytes now.
  bool may_share(const LocalObject& object, Comparing comparing) const;
  // A window that nobody waits for yet.
  void bring_ahead(const LocalObject& object, const PieceRange& stretch);
  void keep_ahead(const LocalObject& object, uint64_t offset);
  void read_ahead(const LocalObject& object, uint64_t from);
  void limit_descriptors();

  Core& core_;
};

// Compares the blocks that a stretch of a piece touches with their checksums: all of them, or those that were
// not compared since they came from the drive. The error names drive and block; it is reported as damage.
Status check_blocks(Core& core, const LocalObject& object, const PieceRange& stretch, BlocksToCheck which);

}  // namespace millrace::store
