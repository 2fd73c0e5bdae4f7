// Objects: buckets and objects, wherever their bytes are. The one interface that requests are served from.
//
// The drives of one machine implement it (store/local_objects.h); so can many nodes. Calls that may wait take
// a `done`, which is called once, later and from any thread, or at once where the answer is known: it must be
// quick. All other calls never block. All calls are safe from many threads.
//
// Promises. What `done` acknowledges survives kill -9 and, in buckets of class flush, power loss. A reader
// sees one version whole. Of several writers of one key one wins, whole; conditions are judged at the moment
// of the switch, so `only_if_absent` has exactly one winner. After a failure the old object is as it was.
//
// Reasons of errors: store/reasons.h. kUnavailable: try again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "base/result.h"
#include "base/snapshot.h"
#include "store/bucket.h"
#include "store/condition.h"
#include "store/record.h"

namespace millrace::store {

template <typename T>
using Done = std::function<void(Result<T>)>;

// One version of one object: everything that is known of it but its bytes, and of a small one those, too.
// Immutable; shared by all who read it. Its bytes stay readable while anyone holds it.
class Object {
 public:
  Object(std::string bucket, std::string key, Record record, std::string inline_bytes)
      : bucket_(std::move(bucket)),
        key_(std::move(key)),
        record_(std::move(record)),
        inline_bytes_(std::move(inline_bytes)) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  const std::string& bucket() const { return bucket_; }
  const std::string& key() const { return key_; }
  const Record& record() const { return record_; }
  bool is_inline() const { return record_.pieces.empty(); }
  const std::string& inline_bytes() const { return inline_bytes_; }

  // What whoever serves the object keeps with it; the store does not look at it.
  mutable Snapshot<std::string> attachment;

 private:
  const std::string bucket_;
  const std::string key_;
  const Record record_;
  const std::string inline_bytes_;
};
using ObjectPointer = std::shared_ptr<const Object>;

// Bytes that can be sent without waiting: a stretch of a file that is in the page cache, or a buffer.
struct Extent {
  std::shared_ptr<const File> file;  // null: a buffer
  Bytes buffer;
  uint64_t offset = 0;  // in either
  uint64_t size = 0;

  // The bytes of a buffer.
  std::string_view bytes() const { return buffer.view().substr(offset, size); }
};

// Whether a reader compares checksums. What is stored again must be compared: its new checksums would hide
// the damage.
enum class Comparing : uint8_t { kAsBucketSays, kAlways };

// Reads one object that is not inline, in any order; one thread at a time.
class Reader {
 public:
  virtual ~Reader() = default;
  // Bytes from `offset` on, at least one and at most `size`, if they are ready.
  virtual std::optional<Extent> find_ready(uint64_t offset, uint64_t size) = 0;
  // Brings them, in fair turns with other readers. `done` may come after the reader is gone.
  virtual void prepare(uint64_t offset, uint64_t size, Done<Extent> done) = 0;
};

struct PutOptions {
  std::string bucket;
  std::string key;
  std::optional<uint64_t> size;    // where known: the space is reserved before the first byte
  std::vector<NameValue> headers;  // see Record
  std::vector<NameValue> tags;
  Condition condition;
};

// Names an upload.
struct UploadName {
  std::string bucket;
  std::string key;
  std::string upload;
};

// One part of a multipart upload.
struct PartOptions {
  UploadName name;
  unsigned number = 0;
  std::optional<uint64_t> size;
};

// What is known only when all bytes are there.
struct Finish {
  std::string etag;                // empty: the store makes an opaque one, in the form "…-1"
  std::vector<NameValue> headers;  // added to those of PutOptions: checksums that came as trailers
};

// The bytes of one PUT or part on their way. Used by one thread at a time. Destroyed before finish(): leaves
// no trace. It holds at most kMaxInFlight buffers of kBlockBytes. It must be gone before the store is.
class Writer {
 public:
  static constexpr unsigned kMaxInFlight = 8;
  virtual ~Writer() = default;
  // Where the next bytes go. Empty while all buffers are on their way: see when_space.
  virtual std::span<std::byte> space() = 0;
  // So many bytes of space() are filled. Errors of earlier writes show up here: stop then.
  virtual Status advance(size_t bytes) = 0;
  // Calls `ready` once it is worth asking space() again, or an error is there for advance(0) to return; from
  // any thread, perhaps at once, perhaps after the writer is gone.
  virtual void when_space(std::function<void()> ready) = 0;
  // The next bytes may be long in coming. Where buffers are few, those that came go to the drive until then,
  // and this holds no buffer meanwhile. Blocks on the drive.
  virtual Status set_aside() { return {}; }
  virtual uint64_t bytes() const = 0;
  virtual uint32_t crc32c() const = 0;
  // Makes it durable and switches. The writer may be destroyed after `done` was called.
  virtual void finish(Finish finish, Done<ObjectPointer> done) = 0;
};

struct ListOptions {
  std::string prefix;
  std::string delimiter;
  std::string after;  // keys (and common prefixes) beyond this one
  size_t limit = 1000;
};
// Whether an object of a bucket in front of other storage is stored here as well.
enum class Cached : uint8_t { kNoUpstream, kNo, kYes };

struct ListEntry {
  std::string key;  // or a common prefix
  bool is_prefix = false;
  uint64_t size = 0;
  int64_t modified_ms = 0;
  std::string etag;
  Cached cached = Cached::kNoUpstream;
};
struct ListPage {
  std::vector<ListEntry> entries;  // in key order
  bool truncated = false;          // more follow the last entry
};

struct UploadStatus {
  std::string key;
  std::string upload;
  int64_t initiated_ms = 0;
  std::vector<NameValue> headers;  // as given at the start
};
struct PartStatus {
  unsigned number = 0;
  uint64_t size = 0;
  int64_t modified_ms = 0;
  std::string etag;
  std::vector<NameValue> headers;  // its checksum
};
struct CompletePart {
  unsigned number = 0;
  std::string etag;
};
struct Completion {
  UploadName name;
  std::vector<CompletePart> parts;
  Finish finish;
  Condition condition;
};

// How far an object is that somebody wants to read soon.
struct Prefetched {
  enum class State : uint8_t { kStored, kComing, kMissing, kFailed };
  std::string key;
  State state = State::kMissing;
  uint64_t size = 0;
  uint64_t stored_bytes = 0;
  std::string problem = {};  // of one that failed
};

class Objects {
 public:
  virtual ~Objects() = default;

  virtual std::shared_ptr<const Bucket> find_bucket(std::string_view name) const = 0;
  virtual std::vector<std::shared_ptr<const Bucket>> buckets() const = 0;
  virtual void create_bucket(const std::string& name, BucketSettings settings, Done<void> done) = 0;
  virtual void change_bucket(const std::string& name, BucketSettings settings, Done<void> done) = 0;
  // kBucketNotEmpty while it holds objects; uploads under way end with it.
  virtual void remove_bucket(const std::string& name, Done<void> done) = 0;

  // The object, if it is in memory. Nothing: get() it.
  virtual ObjectPointer find(std::string_view bucket, std::string_view key) = 0;
  virtual void get(const std::string& bucket, const std::string& key, Done<ObjectPointer> done) = 0;
  // Of an object that find() or get() gave, and that is not inline.
  virtual std::unique_ptr<Reader> open(ObjectPointer object, Comparing comparing) = 0;
  // Where its bytes lie, as clients are told (docs/guide/cluster.md). Empty: here, or with its record.
  virtual std::string where(const Object& object) const = 0;
  // Where an object of that size would lie if it were put now, as clients are told. Empty: here, or nobody
  // can be told.
  virtual std::string place(const std::string& bucket, const std::string& key, uint64_t size) const = 0;
  // Who answers for the object as well, as clients are told. Empty: nobody, or where() names them.
  virtual std::string nodes(const Object& object) const = 0;
  // Of an object that is not inline: whether these bytes are better asked for elsewhere, because none of them
  // is here and one other node has them all. Its address, host:port.
  virtual std::optional<std::string> find_holder(const Object& object, uint64_t offset,
                                                 uint64_t size) const = 0;
  virtual Cached cached(const Object&) const { return Cached::kNoUpstream; }
  // Has objects fetched that are stored elsewhere only, and says how far each is; in the order of the keys.
  // kUnsupported: the bucket is in front of nothing.
  virtual void prefetch(const std::string& bucket, std::vector<std::string>,
                        Done<std::vector<Prefetched>> done) {
    done(make_error(Code::kUnsupported, "bucket {} is in front of no other storage", bucket));
  }
  // The bytes of the shard index (docs/formats/shard-index.md); builds it where it is still pending.
  virtual void shard_index(ObjectPointer object, Done<std::shared_ptr<const std::string>> done) = 0;
  // Complete, or an error: whoever deletes what is not in a list would delete what is only out of sight.
  virtual void list(const std::string& bucket, ListOptions options, Done<ListPage> done) = 0;

  virtual Result<std::unique_ptr<Writer>> put(PutOptions options) = 0;
  // Removing nothing is fine.
  virtual void remove(const std::string& bucket, const std::string& key, Condition condition,
                      Done<void> done) = 0;
  virtual void set_tags(const std::string& bucket, const std::string& key, std::vector<NameValue> tags,
                        Done<ObjectPointer> done) = 0;

  virtual void create_upload(PutOptions options, Done<std::string> done) = 0;
  virtual Result<std::unique_ptr<Writer>> put_part(PartOptions options) = 0;    // its Object is the part
  virtual void parts(UploadName name, Done<std::vector<PartStatus>> done) = 0;  // by number,
                                                                                // then the latest first
  virtual void upload(UploadName name, Done<UploadStatus> done) = 0;
  virtual void uploads(const std::string& bucket,
                       Done<std::vector<UploadStatus>> done) = 0;  // by key, then start
  virtual void complete_upload(Completion completion, Done<ObjectPointer> done) = 0;
  virtual void abort_upload(UploadName name, Done<void> done) = 0;
};

}  // namespace millrace::store
