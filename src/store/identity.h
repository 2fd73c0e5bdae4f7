// Who a drive and a node are: the small JSON files that name them.
//
// A drive says which node it belongs to, so that it is never served by two; the node remembers its drives, so
// that one that is missing is noticed, and an empty mount point is never taken for a new drive. Written
// atomically.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace millrace::store {

// Of what lies on a drive. Older ones are brought to this one when the drive is opened.
inline constexpr int kDriveFormat = 2;

struct DriveIdentity {
  std::string id;
  std::string node;
  int format = kDriveFormat;
};
// Nothing where the directory has none yet.
Result<std::optional<DriveIdentity>> find_drive_identity(const std::string& drive_path);
Status write_drive_identity(const std::string& drive_path, const DriveIdentity& identity);

enum class DriveIntent { kServe, kDrain };
struct KnownDrive {
  std::string path;
  std::string id;
  DriveIntent intent = DriveIntent::kServe;
  // It missed commits: until it was compared with all others, its records may be older than theirs.
  bool behind = false;
  bool operator==(const KnownDrive&) const = default;
};
// Without dots, and not depending on where the process was started.
std::string absolute_path(const std::string& path);
// Whether a drive is the one that someone names: by its id, or by its directory, however that is written.
bool is_named(const KnownDrive& drive, const std::string& name);

struct NodeState {
  std::string node_id;
  std::vector<KnownDrive> drives;
  std::vector<std::string> removed;  // ids of drives that were taken out; a settings file may still name them
  bool operator==(const NodeState&) const = default;
};
// Makes a node with a new id where there is none.
Result<NodeState> load_node_state(const std::string& state_directory);
Status save_node_state(const std::string& state_directory, const NodeState& state);

}  // namespace millrace::store
