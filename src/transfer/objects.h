// What a store can be asked to do with buckets and objects: one function per request, S3's own words on the
// wire.
//
// Thread-safe as the Store is. Entity tags are without their quotes here.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/client.h"
#include "net/digest.h"
#include "transfer/stores.h"

namespace millrace::transfer {

struct ObjectSummary {
  std::string key;
  uint64_t size = 0;
  std::string etag;
  int64_t modified_ms = 0;
  std::optional<bool> is_cached;  // of a bucket in front of other storage: whether it is stored there as well
};
struct Listing {
  std::vector<ObjectSummary> objects;
  std::vector<std::string> prefixes;  // "directories", where a delimiter was asked for
};
enum class Depth { kOneLevel, kAll };  // one level: up to the next "/"
// One page.
struct PageOptions {
  std::string delimiter;
  std::string after;  // keys beyond this one
  size_t limit = 1000;
};
struct ListedPage {
  Listing listing;
  bool truncated = false;
};
Result<ListedPage> list_page(const Location& prefix, const PageOptions& options);
// Calls `page` for each page as it arrives, in the order of the keys.
Status list_objects(const Location& prefix, Depth depth, const std::function<Status(Listing&)>& page);

struct BucketSummary {
  std::string name;
  int64_t made_ms = 0;
};
Result<std::vector<BucketSummary>> list_buckets(const Location& store);
Status make_bucket(const Location& bucket, std::vector<net::HeaderField> headers = {});
Status remove_bucket(const Location& bucket);

struct ObjectHead {
  std::optional<uint64_t> size;
  std::string etag;  // with quotes, as it is sent back
  int64_t modified_ms = 0;
  std::string crc32c;  // base64, of the whole object; empty if the server has none
  std::vector<net::HeaderField> headers;
};
ObjectHead read_head(const std::vector<net::HeaderField>& headers);
Result<ObjectHead> get_head(const Location& object);
Result<std::optional<ObjectHead>> find_head(const Location& object);  // nothing: there is no such object

// In the metadata of what is written once: by whom.
inline constexpr std::string_view kMarkHeader = "x-amz-meta-millrace-job";
struct PutOptions {
  std::vector<net::HeaderField> headers;  // content-type, x-amz-meta-…
  // Not empty: the object must not be there yet, and gets this mark. One that is there with the same mark was
  // written before, by an attempt whose end nobody heard of: that counts as written. Of several writers one
  // wins.
  std::string once;
};
// `crc32c` raw; empty: none is sent. Gives the entity tag.
Result<std::string> put_object(const Location& object, net::RequestBody body, const std::string& crc32c,
                               const PutOptions& options);
Result<std::string> copy_object(const Location& from, const Location& to);  // inside one store
Status remove_object(const Location& object);
inline constexpr size_t kMostRemovals = 1000;
Status remove_objects(const Location& bucket, const std::vector<std::string>& keys);  // at most kMostRemovals

struct Part {
  int number = 0;  // from 1
  uint64_t size = 0;
  std::string etag;
  std::string crc32c;  // base64; may be empty
};
Result<std::string> begin_upload(const Location& object, const PutOptions& options);
Result<Part> put_part(const Location& object, const std::string& upload, int number, net::RequestBody body,
                      const std::string& crc32c);
// A stretch of an object of the same store, copied there; of the version with this tag only.
struct PartSource {
  const Location& object;
  const std::string& etag;
  uint64_t offset = 0;
  uint64_t size = 0;
};
Result<Part> copy_part(const Location& object, const std::string& upload, int number,
                       const PartSource& source);
Result<std::vector<Part>> list_parts(const Location& object, const std::string& upload);
struct UploadSummary {
  std::string key;
  std::string id;
  int64_t begun_ms = 0;
};
// All uploads under way whose key begins with that of `prefix`.
Result<std::vector<UploadSummary>> list_uploads(const Location& prefix);
Result<std::optional<std::string>> find_upload(const Location& object);  // the latest that is under way
Status finish_upload(const Location& object, const std::string& upload, const std::vector<Part>& parts,
                     const PutOptions& options = {});
Status abort_upload(const Location& object, const std::string& upload);

}  // namespace millrace::transfer
