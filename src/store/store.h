// Store: buckets and objects on this machine's drives. It never opens a socket.
//
// Threads. Calls marked "never blocks" may be made from an io thread; calls marked "blocks" wait for a drive
// and belong on a worker thread; calls with a `done` return at once and call it later from one of the store's
// own threads (or at once, on an early error): `done` must be quick. All calls are safe from many threads.
//
// Promises. What `done` or the return value acknowledges survives kill -9 and, in buckets of class flush,
// power loss. A reader sees one version whole. Of several writers of one key one wins, whole; conditions are
// judged at the moment of the switch, so `only_if_absent` has exactly one winner. After a failure the old
// object is as it was.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/meter.h"
#include "base/result.h"
#include "store/object.h"
#include "store/record.h"
#include "store/request_memory.h"

namespace millrace::store {

enum class Durability : uint8_t { kFlush, kOs };
enum class EtagMode : uint8_t { kAuto, kMd5, kFast };
// When checksums are compared: when a block is first read after it came from the drive, on every read, or by
// the scrubber alone. The numbers are those of the bucket's record.
enum class Verify : uint8_t { kFirst = 0, kRead = 1, kScrub = 2 };

// Whether a read compares checksums.
enum class Verified : uint8_t { kAsBucketSays, kAlways };

struct BucketSettings {
  Durability durability = Durability::kFlush;
  EtagMode etag = EtagMode::kAuto;
  Verify verify = Verify::kFirst;
  bool anonymous_read = false;
  bool operator==(const BucketSettings&) const = default;
};

struct Bucket {
  std::string name;
  int64_t created_ms = 0;
  uint64_t version = 0;
  BucketSettings settings;
};

// 1 to 63 of a-z 0-9 . -; kS3: 3 at least, and none of the forms that S3 keeps for addresses and for itself.
enum class NameRule : uint8_t { kShort, kS3 };
Status check_bucket_name(std::string_view name, NameRule rule);
// 1 to 1024 bytes of UTF-8.
Status check_key(std::string_view key);

struct StoreOptions {
  std::string state_directory;  // node identity, list of drives; created if missing
  // Directories, beside those that the state already lists. Where neither names one: "drive" in the state's.
  std::vector<std::string> drives;
  uint64_t read_window = 4 << 20;  // one sequential read of one stream
  unsigned reads_in_flight = 0;    // windows per drive at a time; 0: 1 on rotational drives, else 4
  uint64_t reserve_bytes =
      256 << 20;  // a drive with less free than this takes no new objects (at most 5 % of it)
  uint64_t request_bytes = 512 << 20;          // what requests under way may make the node hold
  uint64_t cache_bytes = 256 << 20;            // small objects and records kept in memory
  unsigned open_files = 4096;                  // descriptors kept open for hot objects
  bool direct_io = true;                       // false: buffered writes, for file systems without O_DIRECT
  uint64_t scrub_bytes_per_second = 20 << 20;  // 0: no scrubbing
  uint64_t scrub_cycle_seconds = 14 * 86400;
  uint64_t upload_expiry_seconds = 7 * 86400;  // of abandoned multipart uploads
};

// kSlow: it gets new objects only where no other has room.
enum class DriveState : uint8_t { kServing, kSlow, kDraining, kFailed, kMissing };
std::string_view drive_state_name(DriveState state);

struct DriveStatus {
  std::string path;
  std::string id;
  DriveState state = DriveState::kServing;
  std::string reason;  // why it failed, is slow or is missing
  bool rotational = false;
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
  uint64_t free_inodes = 0;
  uint64_t objects = 0;       // as the index estimates
  uint64_t drain_left = 0;    // objects still to be moved
  uint64_t queue_reads = 0;   // windows waiting
  uint64_t queue_writes = 0;  // commits and blocks waiting
  Meter::Reading reads;
  Meter::Reading writes;
  Meter::Reading commits;
};

// Whether it can do its work, at a glance.
struct Readiness {
  bool takes_writes = false;         // at least one drive does
  std::vector<std::string> missing;  // drives
};

struct Damage {
  std::string bucket;
  std::string key;
  std::string drive;
  uint64_t block = 0;
  std::string what;
};

struct ScrubStatus {
  bool running = false;
  uint64_t cycles = 0;
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;  // of this cycle, or of the last one; as counted when it began
  uint64_t objects_done = 0;
  uint64_t damaged = 0;       // places, found since start; one that is found again counts once
  std::vector<Damage> found;  // at most kMaxDamages, newest last
};
inline constexpr size_t kMaxDamages = 1000;

// What must hold at the moment of the switch. Where it does not: kConditionFailed, or kNoSuchObject for
// something wanted of an object that is not there. kUnavailable: another writer was at work at the same
// moment, try again.
struct Condition {
  bool only_if_absent = false;                 // If-None-Match: *
  std::optional<std::string> only_if_etag;     // If-Match; "*" means any existing object
  std::optional<uint64_t> only_if_size;        // x-amz-if-match-size
  std::optional<int64_t> only_if_modified_ms;  // x-amz-if-match-last-modified-time; compared to the second

  bool is_any() const { return only_if_absent || wants_object(); }
  bool wants_object() const { return only_if_etag || only_if_size || only_if_modified_ms; }
  // Against the object that is there; null: there is none.
  Status judge(std::string_view bucket, std::string_view key, const Record* current) const;
};

struct PutOptions {
  std::string bucket;
  std::string key;
  std::optional<uint64_t> size;    // where known: the space is reserved before the first byte
  std::vector<NameValue> headers;  // see Record
  std::vector<NameValue> tags;
  Condition condition;
};

// One part of a multipart upload.
struct PartOptions {
  std::string bucket;
  std::string key;
  std::string upload;
  unsigned number = 0;
  std::optional<uint64_t> size;
};

// What is known only when all bytes are there.
struct Finish {
  std::string etag;                // empty: the store makes an opaque one, in the form "…-1"
  std::vector<NameValue> headers;  // added to those of PutOptions: checksums that came as trailers
};

using ObjectDone = std::function<void(Result<std::shared_ptr<const Object>>)>;

// The bytes of one PUT or part on their way to a drive. Used by one thread at a time. Destroyed before
// finish(): leaves no trace. It holds at most kMaxInFlight buffers of kBlockBytes. It must be gone before the
// store is.
class Writer {
 public:
  static constexpr unsigned kMaxInFlight = 8;
  virtual ~Writer() = default;
  // Where the next bytes go; never blocks. Empty while all buffers are on their way: see when_space.
  virtual std::span<std::byte> space() = 0;
  // So many bytes of space() are filled. Errors of earlier writes show up here: stop then.
  virtual Status advance(size_t bytes) = 0;
  // Calls `ready` once it is worth asking space() again, or an error is there for advance(0) to return; from
  // any thread, perhaps at once, perhaps after the writer is gone.
  virtual void when_space(std::function<void()> ready) = 0;
  virtual uint64_t bytes() const = 0;
  virtual uint32_t crc32c() const = 0;
  // Makes it durable and switches. The writer may be destroyed after `done` was called.
  virtual void finish(Finish finish, ObjectDone done) = 0;
};

struct ListOptions {
  std::string prefix;
  std::string delimiter;
  std::string after;  // keys (and common prefixes) beyond this one
  size_t limit = 1000;
};
struct ListEntry {
  std::string key;  // or a common prefix
  bool is_prefix = false;
  uint64_t size = 0;
  int64_t modified_ms = 0;
  std::string etag;
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
// What makes an upload an object.
struct Completion {
  std::string bucket;
  std::string key;
  std::string upload;
  std::vector<CompletePart> parts;
  Finish finish = {};
  Condition condition = {};
};

class Store {
 public:
  // Blocks. A drive that is missing or damaged is reported in drives(); the others serve. An error only where
  // nothing can be served at all, or a drive belongs to another node or is in use.
  static Result<std::unique_ptr<Store>> open(StoreOptions options, Log& log);
  virtual ~Store() = default;  // finishes what is committed, drops the rest

  virtual const std::string& node_id() const = 0;
  virtual RequestMemory& memory() = 0;

  // Buckets. find and all never block.
  virtual std::shared_ptr<const Bucket> find_bucket(std::string_view name) const = 0;
  virtual std::vector<std::shared_ptr<const Bucket>> buckets() const = 0;
  virtual Status create_bucket(const std::string& name, BucketSettings settings) = 0;  // blocks; kExists
  virtual Status change_bucket(const std::string& name, BucketSettings settings) = 0;  // blocks
  // Blocks. kExists while it holds objects; uploads under way end with it.
  virtual Status remove_bucket(const std::string& name) = 0;

  // The object, if it is in memory: never blocks. Nothing: ask get_object.
  virtual std::shared_ptr<const Object> find_object(std::string_view bucket, std::string_view key) = 0;
  virtual Result<std::shared_ptr<const Object>> get_object(const std::string& bucket,
                                                           const std::string& key) = 0;  // blocks; kNotFound

  // Reading a stretch of an object that is not inline. `find_ready` never blocks: a stretch from `offset` on,
  // at most `size` long and within one piece, if it is in the page cache. Else `prepare` has the drive's
  // reader bring it (at most read_window bytes), in fair turns with other streams.
  virtual std::optional<Extent> find_ready(const Object& object, uint64_t offset, uint64_t size) = 0;
  virtual void prepare(std::shared_ptr<const Object> object, uint64_t offset, uint64_t size,
                       std::function<void(Result<Extent>)> done) = 0;
  virtual uint64_t read_window() const = 0;
  // Any bytes, copied; blocks. For work on tars and copies. What is stored again must be verified: its new
  // checksums would hide the damage.
  virtual Result<std::string> read(const Object& object, uint64_t offset, uint64_t size,
                                   Verified verified = Verified::kAsBucketSays) = 0;
  // The bytes of the shard index (docs/formats/shard-index.md); blocks; builds it where it is still pending.
  virtual Result<std::shared_ptr<const std::string>> shard_index(std::shared_ptr<const Object> object) = 0;

  // Writing. Starting never blocks for long (no drive I/O); errors: kNotFound (bucket, upload), kNoSpace.
  virtual Result<std::unique_ptr<Writer>> put(PutOptions options) = 0;
  virtual void remove(const std::string& bucket, const std::string& key, Condition condition,
                      std::function<void(Status)> done) = 0;  // removing nothing is fine
  virtual Result<std::shared_ptr<const Object>> set_tags(const std::string& bucket, const std::string& key,
                                                         std::vector<NameValue> tags) = 0;  // blocks

  // Multipart uploads. All block, but for put_part.
  virtual Result<std::string> create_upload(PutOptions options) = 0;
  virtual Result<std::unique_ptr<Writer>> put_part(PartOptions options) = 0;  // its Object is the part
  virtual Result<std::vector<PartStatus>> parts(const std::string& bucket, const std::string& key,
                                                const std::string& upload) = 0;  // by number
  virtual Result<UploadStatus> upload(const std::string& bucket, const std::string& key,
                                      const std::string& upload) = 0;
  virtual Result<std::vector<UploadStatus>> uploads(const std::string& bucket) = 0;  // by key, then by start
  virtual Result<std::shared_ptr<const Object>> complete_upload(Completion completion) = 0;
  virtual Status abort_upload(const std::string& bucket, const std::string& key,
                              const std::string& upload) = 0;

  virtual Result<ListPage> list(const std::string& bucket, const ListOptions& options) = 0;  // blocks

  // Drives; all but the first block.
  virtual Readiness readiness() const = 0;
  virtual std::vector<DriveStatus> drives() = 0;
  virtual Status add_drive(const std::string& path) = 0;
  virtual Status drain_drive(const std::string& path) = 0;   // starts; drives() shows how far
  virtual Status remove_drive(const std::string& path) = 0;  // an error while it still holds objects

  virtual ScrubStatus scrub_status() = 0;
  virtual void scrub_now() = 0;  // a whole cycle, without waiting for its turn
};

}  // namespace millrace::store
