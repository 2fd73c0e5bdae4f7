// Keys as JSON, mode 600.
#include "cluster/keys.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/file_stamp.h"
#include "net/digest.h"

namespace millrace::cluster {

namespace {

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

std::string random_text(size_t length, std::string_view alphabet) {
  std::string text;
  while (text.size() < length) {
    for (const char c : net::random_bytes(length)) {
      const auto value = static_cast<unsigned char>(c);
      // Only whole multiples of the alphabet, so that every letter is as likely.
      if (value < 256 / alphabet.size() * alphabet.size() && text.size() < length)
        text += alphabet[value % alphabet.size()];
    }
  }
  return text;
}

}  // namespace

Result<Grant> parse_grant(std::string_view text) {
  const size_t colon = text.rfind(':');
  const std::string_view rights =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  Grant grant;
  grant.bucket = text.substr(0, colon);
  grant.read = rights == "read" || rights == "read-write";
  grant.write = rights == "write" || rights == "read-write";
  if (grant.bucket.empty() || (!grant.read && !grant.write)) {
    return make_error(Code::kInvalid, "\"{}\" does not say who may do what", text)
        .with_hint("BUCKET:read, BUCKET:write or BUCKET:read-write; * is every bucket");
  }
  return grant;
}

bool Key::may(Right right, std::string_view bucket) const {
  if (admin) return true;
  return std::any_of(grants.begin(), grants.end(), [&](const Grant& grant) {
    if (grant.bucket != "*" && grant.bucket != bucket) return false;
    return right == Right::kRead ? grant.read : right == Right::kWrite && grant.write;
  });
}

Key make_key() {
  Key key;
  key.access_key = "MR" + random_text(18, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567");
  key.secret_key = random_text(40, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
  return key;
}

const Key* KeyRing::find(std::string_view access_key) const {
  const auto found =
      std::find_if(keys_.begin(), keys_.end(), [&](const Key& key) { return key.access_key == access_key; });
  return found == keys_.end() ? nullptr : &*found;
}

void KeyRing::add(Key key) {
  keys_.push_back(std::move(key));
}

bool KeyRing::remove(std::string_view access_key) {
  return std::erase_if(keys_, [&](const Key& key) { return key.access_key == access_key; }) > 0;
}

Result<KeyRing> KeyRing::load(const std::string& path) {
  KeyRing ring;
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0) {
    if (errno == ENOENT) return ring;
    return make_system_error(errno, "keys " + path);
  }
  if ((found.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return make_error(Code::kDenied, "keys {} can be read by other users", path)
        .with_hint("chmod 600 " + path);
  }
  const std::string text = MR_TRY(read_file(path, kMaxFileBytes));
  try {
    const Json json = Json::parse(text);
    for (const Json& key : json.at("keys")) ring.keys_.push_back(key_from_json(key));
  } catch (const nlohmann::json::exception&) {
    // The library's message quotes the text around the mistake, which may be a secret.
    return make_error(Code::kCorrupt, "keys {} is not a valid key file", path)
        .with_hint("restore it from a backup, or make new keys");
  }
  return ring;
}

Status KeyRing::save(const std::string& path) const {
  Json keys = Json::array();
  for (const Key& key : keys_) keys.push_back(key_to_json(key));
  return write_secret_file(path, Json{{"keys", keys}}.dump(2) + "\n");
}

Result<KeyRing> KeyRing::edit(const std::string& path, const std::function<Status(KeyRing&)>& change) {
  // A file of its own: the key file itself is replaced.
  const std::string lock_path = path + ".lock";
  const int descriptor = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (descriptor < 0) return make_system_error(errno, "opening " + lock_path);
  const File lock(descriptor, lock_path);
  MR_TRY(give_to_owner_of(lock, file_exists(path) ? path : directory_of(path)));
  while (::flock(descriptor, LOCK_EX) != 0) {
    if (errno != EINTR) return make_system_error(errno, "locking " + lock_path);
  }
  KeyRing ring = MR_TRY(load(path));
  MR_TRY(change(ring));
  MR_TRY(ring.save(path));
  return ring;
}

Result<std::unique_ptr<KeyFile>> KeyFile::open(std::string path,
                                               std::function<void(const Error&)> on_problem) {
  std::unique_ptr<KeyFile> file(new KeyFile(std::move(path), std::move(on_problem)));
  file->stamp_ = file_stamp(file->path_);
  file->ring_ = std::make_shared<const KeyRing>(MR_TRY(KeyRing::load(file->path_)));
  return file;
}

std::shared_ptr<const KeyRing> KeyFile::current() {
  constexpr uint64_t kLookEveryUs = 500'000;
  std::lock_guard lock(mutex_);
  const uint64_t now = coarse_us();
  if (now - looked_us_ < kLookEveryUs) return ring_;
  looked_us_ = now;
  const std::string stamp = file_stamp(path_);
  if (stamp == stamp_) return ring_;
  auto loaded = KeyRing::load(path_);
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

}  // namespace millrace::cluster
