// Multipart uploads: begun, filled part by part, completed without copying a byte, or aborted.
//
// Each part is a file of its own on the upload's drive; completing writes a head file that lists them and one
// commit that makes them an object. All calls block, but for put_part. Any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/core.h"

namespace millrace::store {

class Multipart {
 public:
  explicit Multipart(Core& core) : core_(core) {}

  // Reads what the drive's index has.
  static Status load(Core& core, const std::shared_ptr<Drive>& drive);

  Result<std::string> create(PutOptions options);
  Result<std::unique_ptr<Writer>> put_part(PartOptions options);
  Result<std::vector<PartStatus>> parts(const UploadName& name);
  Result<UploadStatus> status(const UploadName& name);
  Result<std::vector<UploadStatus>> all(const std::string& bucket);
  Result<std::shared_ptr<const LocalObject>> complete(Completion completion);
  Status abort(const UploadName& name);
  // Aborts those that began, and got their last part, before this time, and those of buckets that are gone.
  size_t expire(int64_t before_ms);

 private:
  Result<std::shared_ptr<const Upload>> get(const UploadName& name) const;
  // The upload where it is now, and its parts.
  struct Parts {
    std::shared_ptr<const Upload> upload;
    std::vector<UploadPart> parts;
  };
  Result<Parts> load_parts(const UploadName& name) const;
  // kCancelled: the upload was moved meanwhile.
  Result<std::shared_ptr<const LocalObject>> try_to_complete(Completion completion);

  Core& core_;
};

}  // namespace millrace::store
