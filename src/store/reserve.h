// Reserve: room on a drive that is kept for its index, as a file that is allocated and never written.
//
// RocksDB needs room to go on: to bring its log into tables after a crash, and to note that something was
// deleted. Free space does not keep: files of others take it. A file does, and it is given up when the index
// needs the room; until it is whole again the drive takes nothing new. Any thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/mutex.h"

namespace millrace::store {

class Reserve {
 public:
  Reserve(const std::string& drive_path, uint64_t bytes) : path_(drive_path + "/reserve"), bytes_(bytes) {}

  // Frees the room.
  void give_up();
  // Takes the room again; false where there is not enough. True where the file system cannot allocate: then
  // there is no reserve, and nothing to wait for.
  bool restore();
  bool is_whole() const;

 private:
  bool allocate() const;

  const std::string path_;
  const uint64_t bytes_;
  mutable Mutex mutex_;
  bool whole_ MR_GUARDED_BY(mutex_) = false;
};

}  // namespace millrace::store
