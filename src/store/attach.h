// Attaching drives: from the node's list and the options to the map that the store serves from.
//
// A drive that is missing or cannot be opened is remembered with its reason; one that belongs to another
// node, is in use or is given twice is an error. The node's list is saved before a drive is used, so that it
// is known from then on. Blocks; one caller at a time (the store's admin lock).
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "store/core.h"

namespace millrace::store {

class Attach {
 public:
  explicit Attach(Core& core) : core_(core) {}

  // Node identity and all drives; error where not one can be served.
  Status open_all();
  Status add(const std::string& path);
  Status drain(const std::string& path);
  Status remove(const std::string& path);
  std::vector<DriveStatus> status() const;
  // Ends the committers and drives, cleanly.
  void close();

 private:
  DriveOptions drive_options(const std::string& path, const std::string& expected_id) const;
  Status check_new(const DriveMap& map, const std::string& path) const;
  void find_moved(const std::vector<std::string>& given);
  // Noted as being there, with the intent that was known.
  KnownDrive take_known(const std::string& path, const std::string& id);
  void include(DriveMap& map, std::shared_ptr<Drive> drive) const;
  Status load_records(const std::shared_ptr<Drive>& drive);
  void swap(std::shared_ptr<const DriveMap> map);

  Core& core_;
  NodeState state_;
  File state_lock_;
};

}  // namespace millrace::store
