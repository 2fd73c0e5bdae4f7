// Attaching drives: from the node's list and the options to the map that the store serves from.
//
// A drive that is missing or cannot be opened is remembered with its reason; one that belongs to another
// node, is in use or is given twice is an error. The node's list is saved before a drive is used, so that it
// is known from then on. Blocks; one caller at a time (the store's admin lock).
#pragma once

#include <memory>
#include <string>

#include "base/file_lock.h"
#include "base/result.h"
#include "store/core.h"

namespace millrace::store {

class Attach {
 public:
  explicit Attach(Core& core) : core_(core) {}

  // Node identity and all drives; error where not one can be served.
  Status open_all();
  Status add(const std::string& path, GivenUp given_up);
  Status drain(const std::string& path);
  Status remove(const std::string& path);
  // A missing drive is another node's now.
  Status forget(const std::string& id);
  std::vector<DriveStatus> status() const;
  // Ends the committers and drives, cleanly.
  void close();

 private:
  Status lock_state();
  // Those of the options.
  Result<std::vector<std::string>> given_drives() const;
  // One of the node's list, and one that only the options name.
  Status open_known(DriveMap& map, KnownDrive& known);
  // Another node's drive is there, and may be this one's.
  bool is_adoptable(const std::string& path) const;
  Status open_given(DriveMap& map, NodeState& state, const std::string& path);
  DriveOptions drive_options(const std::string& path, const std::string& expected_id) const;
  Status check_new(const DriveMap& map, const std::string& path) const;
  void warn_of_shared_device(const DriveMap& map, const Drive& drive) const;
  static Status check_empty(const DriveMap& map, Drive& drive);
  Status check_given_up(Drive& drive) const;
  Status set_intent(const Drive& drive, DriveIntent intent);
  void include(DriveMap& map, std::shared_ptr<Drive> drive, const KnownDrive& known) const;
  Status load_records(const std::shared_ptr<Drive>& drive);
  void swap(std::shared_ptr<DriveMap> map);

  Core& core_;
  FileLock state_lock_;
};

}  // namespace millrace::store
