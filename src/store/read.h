// Reading objects: what is in the page cache at once, the rest through the drive's reader in whole windows.
//
// A stretch that is ready can be sent without waiting for the drive. The reader brings a window, looks at its
// checksums where the bucket asks for it, and reads the next windows ahead while nobody else waits.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "store/core.h"
#include "store/object.h"

namespace millrace::store {

// Whether all of a file's stretch is in the page cache; never reads the drive.
bool is_resident(const File& file, uint64_t offset, uint64_t size);

class ObjectReader {
 public:
  explicit ObjectReader(Core& core) : core_(core) {}

  std::optional<Extent> find_ready(const Object& object, uint64_t offset, uint64_t size);
  void prepare(std::shared_ptr<const Object> object, uint64_t offset, uint64_t size,
               std::function<void(Result<Extent>)> done);
  // Blocks.
  Result<std::string> read(const Object& object, uint64_t offset, uint64_t size, Verified verified);

 private:
  // A stretch within one piece.
  struct Stretch {
    size_t piece = 0;
    uint64_t piece_offset = 0;
    uint64_t size = 0;
  };
  Stretch clip(const Object& object, uint64_t offset, uint64_t size) const;
  bool is_verified(const Object& object) const;
  Result<Extent> bring(const Object& object, uint64_t offset, uint64_t size);
  void keep_ahead(const Object& object, uint64_t offset);
  void read_ahead(const Object& object, uint64_t from);
  void limit_descriptors();

  Core& core_;
};

// Compares the blocks that a stretch of a piece touches with their checksums. The error names drive and
// block; it is reported as damage.
Status check_blocks(Core& core, const Object& object, size_t piece, uint64_t offset, uint64_t size);

}  // namespace millrace::store
