// RemoteObject: an object that the upstream has and this store has not, or not in this version.
//
// Immutable, like every Object. Its record says what the stored object's will say: size, ETag, headers.
#pragma once

#include <memory>
#include <string>

#include "store/objects.h"
#include "upstream/remote.h"

namespace millrace::upstream {

class RemoteObject final : public store::Object {
 public:
  // `condition`: of what is stored now, for the moment when the object takes its place.
  RemoteObject(std::string bucket, std::string key, std::shared_ptr<Remote> remote, RemoteHead head,
               store::Condition condition);

  Remote& remote() const { return *remote_; }
  const std::shared_ptr<Remote>& remote_pointer() const { return remote_; }
  const RemoteHead& head() const { return head_; }
  const store::Condition& condition() const { return condition_; }

 private:
  const std::shared_ptr<Remote> remote_;
  const RemoteHead head_;
  const store::Condition condition_;
};

// The version of the upstream that an object is; null where it did not come from one.
const std::string* find_version(const store::Record& record);
// Null where it is stored here. Most objects have no version, and cost no cast.
inline const RemoteObject* find_remote(const store::Object& object) {
  return find_version(object.record()) == nullptr ? nullptr : dynamic_cast<const RemoteObject*>(&object);
}
// What clients are told as the ETag; the stored object has the same.
std::string shown_etag(const RemoteHead& head);
// The headers that are stored with the object.
std::vector<store::NameValue> stored_headers(const RemoteHead& head);

}  // namespace millrace::upstream
