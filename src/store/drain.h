// Mover: takes objects off draining drives, one by one, checked on the way, until nothing is left.
//
// An object is copied to its next drive in order, committed there under the same version, and only then
// removed here; a crash leaves it on one of them or on both, and the next run goes on. Uploads under way stay
// until they are completed or aborted. Used by one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
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
  // The piece as a new file on the other drive; gives its name.
  Result<uint64_t> copy_piece(const Object& object, const Piece& piece, const std::shared_ptr<Drive>& to);
  Result<Record> copy_files(const Object& object, const std::shared_ptr<Drive>& to,
                            std::vector<uint64_t>& copied);

  Core& core_;
};

}  // namespace millrace::store
