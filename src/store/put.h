// PutWriter: the bytes of one PUT or part on their way: checksums and shard index as they pass, blocks to the
// drive.
//
// The caller's thread fills buffers and computes; the drive's ring writes; the drive's finishers flush and
// name the file; the committer switches. What is shared between them lives in a state that the last of them
// lets go, so a writer that is destroyed early leaves nothing behind.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "store/core.h"
#include "store/objects.h"

namespace millrace::store {

// What the bytes will be.
struct PutTarget {
  PutOptions options;                    // of an object
  std::shared_ptr<const Upload> upload;  // of a part
  uint32_t part = 0;
  std::shared_ptr<Drive> drive;
  Durability durability = Durability::kFlush;
};

class PutWriter final : public Writer {
 public:
  PutWriter(Core& core, PutTarget target);
  ~PutWriter() override;

  std::span<std::byte> space() override;
  Status advance(size_t bytes) override;
  void when_space(std::function<void()> ready) override;
  Status set_aside() override;
  uint64_t bytes() const override;
  uint32_t crc32c() const override;
  void finish(Finish finish, Done<ObjectPointer> done) override;

 private:
  class State;
  std::shared_ptr<State> state_;
};

// The store's own etag: as long as an MD5, and the "-" says that it is none.
std::string make_etag(uint64_t version, uint32_t crc32c, size_t parts);

// A file without data that holds this record; sets record.head and writes durably.
struct HeadOptions {
  std::shared_ptr<Drive> drive;
  std::string bucket;
  std::string key;
  std::string shard_index;
  Durability durability = Durability::kFlush;
};
Result<Record> write_head(Core& core, const HeadOptions& options, Record record);

}  // namespace millrace::store
