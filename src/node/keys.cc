// Loads, saves and edits the key file, a JSON file of mode 600.
#include "node/keys.h"

#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/file_stamp.h"
#include "base/mutex.h"

namespace millrace::node {

using gateway::KeyRing;

namespace {

using gateway::Grant;
using gateway::Key;
using Json = nlohmann::ordered_json;
constexpr uint64_t kMaxFileBytes = 16 << 20;

Key key_from_json(const Json& json) {
  Key key;
  key.access_key = json.at("access_key").get<std::string>();
  key.secret_key = json.at("secret_key").get<std::string>();
  key.note = json.value("note", "");
  key.admin = json.value("admin", false);
  for (const Json& grant : json.value("grants", Json::array())) {
    key.grants.push_back(
        {grant.at("bucket").get<std::string>(), grant.value("read", false), grant.value("write", false)});
  }
  return key;
}

Json key_to_json(const Key& key) {
  Json grants = Json::array();
  for (const Grant& grant : key.grants) {
    grants.push_back({{"bucket", grant.bucket}, {"read", grant.read}, {"write", grant.write}});
  }
  return {{"access_key", key.access_key},
          {"secret_key", key.secret_key},
          {"note", key.note},
          {"admin", key.admin},
          {"grants", grants}};
}

}  // namespace

std::string encode_keys(const KeyRing& ring) {
  Json keys = Json::array();
  for (const Key& key : ring.keys()) keys.push_back(key_to_json(key));
  return Json{{"keys", keys}}.dump(2) + "\n";
}

Result<KeyRing> decode_keys(const std::string& text, const std::string& place) {
  KeyRing ring;
  try {
    const Json json = Json::parse(text);
    for (const Json& key : json.at("keys")) ring.add(key_from_json(key));
  } catch (const nlohmann::json::exception&) {
    // The library's message quotes the text around the mistake, which may be a secret.
    return make_error(Code::kCorrupt, "keys {} is not a valid key file", place)
        .with_hint("restore it from a backup, or make new keys");
  }
  return ring;
}

Result<KeyRing> load_keys(const std::string& path) {
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0) {
    if (errno == ENOENT) return KeyRing();
    return make_system_error(errno, "keys " + path);
  }
  if ((found.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return make_error(Code::kDenied, "keys {} can be read by other users", path)
        .with_hint("chmod 600 " + path);
  }
  return decode_keys(MR_TRY(read_file(path, kMaxFileBytes)), path);
}

Status save_keys(const std::string& path, const KeyRing& ring) {
  return write_secret_file(path, encode_keys(ring));
}

Result<KeyRing> edit_keys(const std::string& path, const std::function<Status(KeyRing&)>& change) {
  // A file of its own: the key file itself is replaced.
  const FileLock lock = MR_TRY(FileLock::take(path + ".lock", S_IRUSR | S_IWUSR));
  MR_TRY(give_to_owner_of(lock.file(), file_exists(path) ? path : directory_of(path)));
  KeyRing ring = MR_TRY(load_keys(path));
  MR_TRY(change(ring));
  MR_TRY(save_keys(path, ring));
  return ring;
}

Result<std::unique_ptr<KeyFile>> KeyFile::open(std::string path,
                                               std::function<void(const Error&)> on_problem) {
  std::unique_ptr<KeyFile> file(new KeyFile(std::move(path), std::move(on_problem)));
  const MutexLock lock(file->mutex_);
  file->stamp_ = file_stamp(file->path_);
  file->ring_ = std::make_shared<const KeyRing>(MR_TRY(load_keys(file->path_)));
  return file;
}

std::shared_ptr<const KeyRing> KeyFile::current() {
  constexpr uint64_t kLookEveryUs = 500'000;
  const MutexLock lock(mutex_);
  const uint64_t now = coarse_us();
  if (now - looked_us_ < kLookEveryUs) return ring_;
  looked_us_ = now;
  const std::string stamp = file_stamp(path_);
  if (stamp == stamp_) return ring_;
  auto loaded = load_keys(path_);
  if (!loaded) {
    if (std::exchange(unusable_, stamp) != stamp) on_problem_(loaded.error());
    return ring_;
  }
  stamp_ = stamp;
  ring_ = std::make_shared<const KeyRing>(loaded.take());
  return ring_;
}

std::string key_file_path(const std::string& state_directory) {
  return state_directory + "/keys.json";
}

}  // namespace millrace::node
