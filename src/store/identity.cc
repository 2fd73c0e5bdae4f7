// Reads and writes the JSON files that name a drive and a node.
#include "store/identity.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/ids.h"

namespace millrace::store {

namespace {

constexpr int kNodeFormat = 1;
constexpr int kOldestDriveFormat = 1;
constexpr uint64_t kMostBytes = 1 << 20;

Result<nlohmann::json> read_json(const std::string& path, int oldest, int newest) {
  const std::string text = MR_TRY(read_file(path, kMostBytes));
  nlohmann::json document = nlohmann::json::parse(text, nullptr, false);
  if (!document.is_object()) return make_error(Code::kCorrupt, "{}: it is not a JSON object", path);
  const auto format = document.find("format");
  if (format == document.end() || !format->is_number_integer()) {
    return make_error(Code::kCorrupt, "{}: it has no format number", path);
  }
  if (format->get<int>() < oldest || format->get<int>() > newest) {
    return make_error(Code::kUnsupported, "{}: format {} is not known here", path, format->get<int>())
        .with_hint(fmt::format("this version knows up to {}: was it written by a newer one?", newest));
  }
  return document;
}

Result<std::string> get_text(const nlohmann::json& document, const char* name, const std::string& path) {
  const auto found = document.find(name);
  if (found == document.end() || !found->is_string() || found->get_ref<const std::string&>().empty()) {
    return make_error(Code::kCorrupt, "{}: it has no \"{}\"", path, name);
  }
  return found->get<std::string>();
}

std::string identity_path(const std::string& drive_path) {
  return drive_path + "/millrace.json";
}

std::string node_path(const std::string& state_directory) {
  return state_directory + "/node.json";
}

}  // namespace

Result<std::optional<DriveIdentity>> find_drive_identity(const std::string& drive_path) {
  const std::string path = identity_path(drive_path);
  if (!file_exists(path)) return std::optional<DriveIdentity>();
  const nlohmann::json document = MR_TRY(read_json(path, kOldestDriveFormat, kDriveFormat));
  DriveIdentity identity;
  identity.format = document["format"].get<int>();
  identity.id = MR_TRY(get_text(document, "drive", path));
  identity.node = MR_TRY(get_text(document, "node", path));
  return std::optional<DriveIdentity>(std::move(identity));
}

Status write_drive_identity(const std::string& drive_path, const DriveIdentity& identity) {
  const nlohmann::json document = {
      {"format", identity.format}, {"drive", identity.id}, {"node", identity.node}};
  return write_file_atomically(identity_path(drive_path), document.dump(2) + "\n");
}

std::string absolute_path(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path absolute = std::filesystem::absolute(path, failed);
  if (failed) return path;
  std::string text = absolute.lexically_normal().string();
  if (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

bool is_named(const KnownDrive& drive, const std::string& name) {
  return drive.id == name || absolute_path(drive.path) == absolute_path(name);
}

Result<NodeState> load_node_state(const std::string& state_directory) {
  const std::string path = node_path(state_directory);
  NodeState state;
  if (!file_exists(path)) {
    state.node_id = make_id();
    MR_TRY(save_node_state(state_directory, state));
    return state;
  }
  const nlohmann::json document = MR_TRY(read_json(path, kNodeFormat, kNodeFormat));
  state.node_id = MR_TRY(get_text(document, "node", path));
  for (const nlohmann::json& entry : document.value("drives", nlohmann::json::array())) {
    if (!entry.is_object()) return make_error(Code::kCorrupt, "{}: a drive is not a JSON object", path);
    KnownDrive drive;
    drive.path = MR_TRY(get_text(entry, "path", path));
    const std::string below = state_directory + "/" + drive.path;
    const bool is_below = !drive.path.starts_with('/') && file_exists(identity_path(below));
    drive.path = absolute_path(is_below ? below : drive.path);
    drive.id = MR_TRY(get_text(entry, "id", path));
    const std::string intent = MR_TRY(get_text(entry, "state", path));
    drive.intent = intent == "draining" ? DriveIntent::kDrain : DriveIntent::kServe;
    const auto behind = entry.find("behind");
    drive.behind = behind != entry.end() && *behind == true;
    state.drives.push_back(std::move(drive));
  }
  for (const nlohmann::json& id : document.value("removed", nlohmann::json::array())) {
    if (!id.is_string()) return make_error(Code::kCorrupt, "{}: the id of a removed drive is no text", path);
    state.removed.push_back(id.get<std::string>());
  }
  return state;
}

Status save_node_state(const std::string& state_directory, const NodeState& state) {
  nlohmann::json drives = nlohmann::json::array();
  // What lies below moves with it.
  const std::string here = absolute_path(state_directory) + "/";
  for (const KnownDrive& drive : state.drives) {
    drives.push_back({{"path", drive.path.starts_with(here) ? drive.path.substr(here.size()) : drive.path},
                      {"id", drive.id},
                      {"state", drive.intent == DriveIntent::kDrain ? "draining" : "serving"},
                      {"behind", drive.behind}});
  }
  const nlohmann::json document = {
      {"format", kNodeFormat}, {"node", state.node_id}, {"drives", drives}, {"removed", state.removed}};
  return write_file_atomically(node_path(state_directory), document.dump(2) + "\n");
}

}  // namespace millrace::store
