// Mover: takes objects and uploads off draining drives, one by one, checked on the way, until nothing is
// left.
//
// An object is copied to its next drive in order, committed there under the same version, and only then
// removed here; a crash leaves it on one of them or on both, and the next run goes on. An upload under way
// goes the same way with all its parts, under a new version, so that of two copies one counts. Used by one
// thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "store/commit.h"
#include "store/core.h"

namespace millrace::store {

class Mover {
 public:
  explicit Mover(Core& core) : core_(core) {}

  // Everything that can be moved now, while `go_on` says so.
  void run(const std::function<bool()>& go_on);

 private:
  void drain(const std::shared_ptr<Drive>& drive, const std::function<bool()>& go_on);
  Status move(const std::shared_ptr<Drive>& from, const std::string& encoded_key);
  // With its parts: the upload of this row of the index.
  Status move_upload(const std::shared_ptr<Drive>& from, const std::string& row);
  Status copy_parts(const Upload& upload, const std::shared_ptr<Drive>& to, std::vector<MovedPart>& copied);
  // One file on its way: whose it is and where it comes from.
  struct Source {
    const Drive& drive;
    const std::string& bucket;
    const std::string& key;
  };
  // The piece as a new file on the other drive; gives its name.
  Result<uint64_t> copy_piece(const Source& source, const Piece& piece, const std::shared_ptr<Drive>& to);
  Result<Record> copy_files(const LocalObject& object, const std::shared_ptr<Drive>& to,
                            std::vector<uint64_t>& copied);

  Core& core_;
  std::unordered_set<std::string> failed_;  // keys that this pass over a drive passes by
};

}  // namespace millrace::store
