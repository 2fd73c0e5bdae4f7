// LocalStore: the store of one machine, opened and closed as a whole: its objects, its drives, and its part
// of a cluster.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "store/drives.h"
#include "store/objects.h"
#include "store/options.h"
#include "store/request_memory.h"
#include "store/slices.h"

namespace millrace::store {

class LocalStore {
 public:
  // Blocks. A drive that is missing or damaged is reported in drives(); the others serve. An error only where
  // nothing can be served at all, or a drive belongs to another node or is in use.
  static Result<std::unique_ptr<LocalStore>> open(StoreOptions options, Log& log);
  ~LocalStore();  // finishes what is committed, drops the rest

  Objects& objects();
  Drives& drives();
  Slices& slices();
  RequestMemory& memory();
  const std::string& node_id() const;

 private:
  class Parts;
  explicit LocalStore(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace millrace::store
