// UnfinishedFile: an object's file while its bytes arrive, without a name that anyone could see.
//
// O_TMPFILE where the file system has it, else a name in tmp/ that the sweep knows. Destroyed before
// publish(): no trace. Every call blocks on the drive. The block writer uses it, and beside it one other
// thread: whoever sets bytes aside, then a finisher.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/mutex.h"
#include "base/result.h"
#include "store/bucket.h"

namespace millrace::store {

class Drive;

class UnfinishedFile {
 public:
  // `size` of the data where known: allocated at once, so that a full drive is noticed before the bytes come.
  UnfinishedFile(std::shared_ptr<Drive> drive, std::optional<uint64_t> size);
  ~UnfinishedFile();
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  // Opens it at the first call; makes sure that bytes up to `until` have their place: ext4 does writes that
  // extend a file one after the other, others at the same time.
  Status make_room(uint64_t until);
  int descriptor() const { return file_.descriptor(); }
  // The end of the file, from a page boundary on.
  Status write_tail(uint64_t offset, std::string_view bytes);
  // Whole pages that were written, into memory that begins at a page.
  Status read_back(uint64_t offset, std::span<std::byte> into) const;
  // Gives it its length and name; durable when this returns (class flush). After an error nothing is left.
  // The sweep leaves the file alone until the drive's keeper is told that its commit is decided.
  Status publish(uint64_t name, uint64_t size, Durability durability);

 private:
  // Once; later calls do nothing.
  Status open();
  Status name_and_flush(uint64_t name, uint64_t size, Durability durability);
  Status give_name(uint64_t name);

  const std::shared_ptr<Drive> drive_;
  const std::optional<uint64_t> size_;
  Mutex opening_;
  File file_;                   // set with the mutex held, read by those who called open()
  std::string temporary_path_;  // empty: the file has no name
  uint64_t allocated_ = 0;
};

}  // namespace millrace::store
