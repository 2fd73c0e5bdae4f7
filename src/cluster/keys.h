// Keys: who may do what. Access keys with their secrets and rights, in one file that only its owner can read.
//
// SigV4 needs the secret itself, so it cannot be stored as a hash; the file's mode keeps it from other users,
// and a file that others can read is refused. A KeyRing is an immutable snapshot; KeyFile reloads it when the
// file changes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace::cluster {

enum class Right { kRead, kWrite, kAdmin };

struct Grant {
  std::string bucket;  // "*": all
  bool read = false;
  bool write = false;
};
// "train:read", "train:write", "train:read-write", "*:read".
Result<Grant> parse_grant(std::string_view text);

struct Key {
  std::string access_key;
  std::string secret_key;
  std::string note;
  bool admin = false;  // may do everything, also under /-/
  std::vector<Grant> grants;
  bool may(Right right, std::string_view bucket) const;
};
// A fresh pair from the kernel's generator.
Key make_key();

class KeyRing {
 public:
  const Key* find(std::string_view access_key) const;
  bool empty() const { return keys_.empty(); }
  const std::vector<Key>& keys() const { return keys_; }

  static Result<KeyRing> load(const std::string& path);  // a missing file is an empty ring
  Status save(const std::string& path) const;
  // Loads, changes and saves under a lock: of several who change it at once none undoes what another did.
  // Where `change` fails nothing is saved. The ring as it is then.
  static Result<KeyRing> edit(const std::string& path, const std::function<Status(KeyRing&)>& change);
  void add(Key key);
  bool remove(std::string_view access_key);

 private:
  std::vector<Key> keys_;
};

class KeyFile {
 public:
  // `on_problem` is told once of each change that cannot be read.
  static Result<std::unique_ptr<KeyFile>> open(std::string path,
                                               std::function<void(const Error&)> on_problem);
  // The keys as they are now; a file that has become unreadable leaves the last good ones.
  std::shared_ptr<const KeyRing> current();

 private:
  KeyFile(std::string path, std::function<void(const Error&)> on_problem)
      : path_(std::move(path)), on_problem_(std::move(on_problem)) {}
  const std::string path_;
  const std::function<void(const Error&)> on_problem_;
  std::mutex mutex_;
  std::shared_ptr<const KeyRing> ring_;  // guarded by mutex_
  uint64_t looked_us_ = 0;               // guarded by mutex_
  std::string stamp_;                    // guarded by mutex_
  std::string unusable_;                 // guarded by mutex_; the stamp of the last change that was told of
};

std::string key_file_path(const std::string& state_directory);

}  // namespace millrace::cluster
