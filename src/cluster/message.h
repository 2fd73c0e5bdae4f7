// Messages: what nodes ask each other about one key, and what they answer.
//
// The protocol is described in docs/cluster-protocol.md: prepare, commit, mark, complete; sync and peek are
// the two uses of StateRequest. Decoding trusts nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "cluster/ledger.h"
#include "cluster/map.h"
#include "cluster/progress.h"
#include "store/condition.h"

namespace millrace::cluster {

// To a holder: keep these bytes as a slice, durably and invisibly.
struct PrepareRequest {
  DriveId drive = 0;
  ObjectName name;
  store::Spread spread;
  std::string bytes;
  bool inlined = false;  // the bytes are few: they stay in the ledger
};

// To a node: what do these drives of yours know of the key?
struct StateRequest {
  enum class Purpose : uint8_t {
    kPeek,  // a reader asks
    kSync,  // a home asks: refuse marks of older epochs from now on
  };
  Purpose purpose = Purpose::kPeek;
  uint32_t epoch = 0;
  ObjectName name;
  std::vector<DriveId> drives;
};

// To a holder: the write is committed with this version.
struct MarkRequest {
  uint32_t epoch = 0;
  DriveId drive = 0;
  ObjectName name;
  store::Record record;
  bool pointer = false;  // the slices are elsewhere; otherwise the drive must have its own
};

// To a holder: enough holders have the mark of this version.
struct CompleteRequest {
  DriveId drive = 0;
  ObjectName name;
  store::Version version;
};

// To the home of a key: make this the object. The record has no version yet; a deleted one deletes.
struct CommitRequest {
  enum class Kind : uint8_t {
    kPut,
    kRemove,
    kTags,   // of the object that is there; the record brings nothing but the tags
    kIndex,  // what came of indexing the shard that is there; kConditionFailed where it is another write
    kMove,   // of the object that is there, if it is still this version: its slices lie by this spread now
  };
  Kind kind = Kind::kPut;
  uint32_t epoch = 0;
  ObjectName name;
  store::Record record;
  store::Condition condition;
};

// To the home of a key: what is the object?
struct FindRequest {
  uint32_t epoch = 0;
  ObjectName name;
};

// To a holder: the next bytes of a slice that is being written; with offset 0 the first.
struct AppendRequest {
  DriveId drive = 0;
  std::string write_id;
  uint8_t slot = 0;
  uint64_t offset = 0;
  Bytes bytes;
};

// To a holder: all bytes of the slice were sent; make it durable and enter it as prepared.
struct FinishRequest {
  DriveId drive = 0;
  ObjectName name;
  store::Spread spread;
  uint64_t size = 0;  // of the slice
};

// To a holder: the write will not be committed; forget its slice.
struct DropRequest {
  DriveId drive = 0;
  ObjectName name;
  store::Spread spread;
};

// To a holder: some bytes of a slice.
struct ReadRequest {
  DriveId drive = 0;
  std::string write_id;
  uint8_t slot = 0;
  uint64_t offset = 0;
  uint32_t size = 0;
};

// To a node: what all its drives know of the keys of a bucket, in their order.
struct ListRequest {
  uint32_t epoch = 0;
  std::string bucket;
  std::string prefix;
  std::string after;
  uint32_t limit = 0;
  bool records = false;  // entries bring their whole records
  bool once = false;     // leave out what enough other drives of this epoch's map list (listed_elsewhere.h)
};

// To the home of a key: see that every holder has its slice and its mark, and answer when it is so.
struct MendRequest {
  uint32_t epoch = 0;
  ObjectName name;
  DriveId drive = 0;  // that knows something of the key; it may be none of those that the home asks
};

// To a drive that is not to hold the key, or whose tombstone everyone has seen: what it knows may go.
struct ForgetRequest {
  uint32_t epoch = 0;
  DriveId drive = 0;
  ObjectName name;
  store::Version version;  // marks up to this one
};

// To a node: which of these objects does this drive of yours not know, or know in another version?
struct CompareRequest {
  static constexpr size_t kMost = 256;
  struct Known {
    ObjectName name;
    store::Version version;
  };
  uint32_t epoch = 0;
  DriveId drive = 0;
  std::vector<Known> known;
};

// To a node: what did your walks find?
struct ProgressRequest {};

// To a holder: compare some blocks of a slice with their checksums, as they are on the drive now.
struct VerifyRequest {
  DriveId drive = 0;
  ObjectName name;
  std::string write_id;
  uint8_t slot = 0;
  uint64_t block = 0;  // the first; the reply says where to go on
};

// To a node: buckets or settings changed; read them again before you answer.
struct RefreshRequest {};

using Request =
    std::variant<PrepareRequest, StateRequest, MarkRequest, CompleteRequest, CommitRequest, FindRequest,
                 AppendRequest, FinishRequest, DropRequest, ReadRequest, ListRequest, RefreshRequest,
                 MendRequest, ForgetRequest, CompareRequest, ProgressRequest, VerifyRequest>;

// The drives that were asked about and are in service.
struct StateReply {
  struct Held {
    DriveId drive = 0;
    Ledger ledger;
  };
  std::vector<Held> drives;
};
// The object after a commit, or as the home knows it; nothing where there is none.
struct ObjectReply {
  std::optional<store::Record> record;
};
struct DoneReply {};
struct BytesReply {
  Bytes bytes;
};
struct ListReply {
  struct Entry {
    std::string key;
    store::Version version;
    bool deleted = false;
    uint64_t size = 0;
    int64_t modified_ms = 0;
    std::string etag;
    std::shared_ptr<const store::Record> record;  // where it was asked for; none of what is deleted
  };
  std::vector<Entry> entries;   // by key; the newest mark that the node knows
  std::vector<DriveId> drives;  // that were looked at
  std::string reached;          // nothing is missing up to this key; empty: to the end
};

struct CompareReply {
  std::vector<uint32_t> differing;  // positions in the request
};

struct ProgressReply {
  Progress progress;
};

struct VerifyReply {
  enum class Found : uint8_t {
    kWhole,     // all that was compared is as it was written
    kUnmarked,  // the drive does not know this write as the object, or has no slice of it
    kMissing,   // the drive is to have the slice, and it is not there
    kDamaged,
  };
  Found found = Found::kWhole;
  uint64_t bytes = 0;                 // that were compared and are good
  uint64_t next = 0;                  // block to go on with; 0: all were compared
  std::optional<uint64_t> bad_block;  // the first one
  std::string why;                    // empty where all is whole
};

using Reply = std::variant<StateReply, ObjectReply, DoneReply, BytesReply, ListReply, CompareReply,
                           ProgressReply, VerifyReply>;

// A message on the wire: `head`, then `tail`. The tail is what an append or an answer to a read carries: many
// bytes, which are not copied. A decoded message shares the bytes that it came from.
struct WireMessage {
  std::string head;
  Bytes tail = {};
  size_t size() const { return head.size() + tail.size(); }
  std::string joined() const { return head + std::string(tail); }
};
WireMessage encode_request(const Request& request);
Result<Request> decode_request(const Bytes& bytes);
// An error crosses with its code, its reason and its message.
WireMessage encode_reply(const Result<Reply>& reply);
Result<Reply> decode_reply(const Bytes& bytes);

}  // namespace millrace::cluster
