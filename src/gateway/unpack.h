// Unpacker: the tar inside a stored object, read as a stream: through its compression where it has one.
//
// It stays where it is between reads, so that stretches of one shard that follow each other unpack it once;
// going back begins anew. Holds one chunk and the state of one decompressor. Blocks; one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/buffer.h"
#include "base/result.h"
#include "store/objects.h"
#include "tar/compress.h"
#include "tar/window.h"

namespace millrace::gateway {

// A range of the tar in an object. Of one that is not compressed these are the stored bytes themselves.
struct TarRange {
  store::ObjectPointer object;
  tar::Compression compression = tar::Compression::kNone;
  uint64_t offset = 0;
  uint64_t size = 0;
};

class Unpacker {
 public:
  static constexpr uint64_t kChunkBytes = 1 << 20;

  Unpacker(store::Objects& objects, Budget& memory);
  ~Unpacker();

  // The first bytes of a range, at most a chunk.
  Result<std::string> read(const TarRange& range);
  // All of it as a source that ends with it; valid until the next call.
  Result<tar::ByteSource*> open(const TarRange& range);

 private:
  class StoredBytes;
  class Part;

  // A decompressor's window is known once it has begun.
  Status charge();

  store::Objects& objects_;
  Budget& memory_;
  store::ObjectPointer object_;  // that plain_ reads
  std::unique_ptr<StoredBytes> stored_;
  std::unique_ptr<tar::ByteSource> plain_;  // none: stored_ is plain
  uint64_t at_ = 0;                         // of the tar
  Charge charge_;                           // of the node's memory
  std::unique_ptr<Part> part_;
};

}  // namespace millrace::gateway
