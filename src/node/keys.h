// The key file: access keys with their secrets and rights, in one file that only its owner can read.
//
// SigV4 needs the secret itself, so it cannot be stored as a hash; the file's mode keeps it from other users,
// and a file that others can read is refused. KeyFile loads it again when it changes. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/result.h"
#include "gateway/access.h"

namespace millrace::node {

std::string key_file_path(const std::string& state_directory);

// The content of the key file. `place` is where it was, for messages.
std::string encode_keys(const gateway::KeyRing& ring);
Result<gateway::KeyRing> decode_keys(const std::string& text, const std::string& place);

Result<gateway::KeyRing> load_keys(const std::string& path);  // a missing file is an empty ring
Status save_keys(const std::string& path, const gateway::KeyRing& ring);
// Loads, changes and saves under a lock: of several who change it at once none undoes what another did.
// Where `change` fails nothing is saved. The ring as it is then.
Result<gateway::KeyRing> edit_keys(const std::string& path,
                                   const std::function<Status(gateway::KeyRing&)>& change);

class KeyFile final : public gateway::KeySource {
 public:
  // `on_problem` is told once of each change that cannot be read.
  static Result<std::unique_ptr<KeyFile>> open(std::string path,
                                               std::function<void(const Error&)> on_problem);
  // A file that has become unreadable leaves the last good keys.
  std::shared_ptr<const gateway::KeyRing> current() override;

 private:
  KeyFile(std::string path, std::function<void(const Error&)> on_problem)
      : path_(std::move(path)), on_problem_(std::move(on_problem)) {}
  const std::string path_;
  const std::function<void(const Error&)> on_problem_;
  Mutex mutex_;
  std::shared_ptr<const gateway::KeyRing> ring_ MR_GUARDED_BY(mutex_);
  uint64_t looked_us_ MR_GUARDED_BY(mutex_) = 0;
  std::string stamp_ MR_GUARDED_BY(mutex_);
  std::string unusable_ MR_GUARDED_BY(mutex_);  // the stamp of the last change that was told of
};

}  // namespace millrace::node
