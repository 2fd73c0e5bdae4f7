// Reading objects: GET and HEAD, conditions and ranges.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/call.h"
#include "gateway/conditions.h"
#include "store/objects.h"

namespace millrace::gateway {

// The object a call names, from memory if it is there.
net::Task<Result<store::ObjectPointer>> find_object(Call& call, std::string bucket, std::string key);

net::Task<Status> get_object(Call& call);  // GET and HEAD

// The conditions of a read, and the answer where it is not to go on.
inline Verdict judge_read(const net::RequestHead& request, const store::Record& record) {
  return *judge_conditions(request, record, ConditionHeaders::kPlain);
}
net::Task<Status> answer_verdict(Call& call, const store::Record& record, Verdict verdict);

struct ByteRange {
  uint64_t offset = 0;
  uint64_t size = 0;
};

// The node to which a reader of these bytes is better sent, and sending him there, with his query.
Result<std::optional<std::string>> find_redirect(Call& call, const store::Object& object, ByteRange range);
net::Task<Status> redirect(Call& call, std::string address);

// Sends a range of which `first` was brought already, as (part of) a body whose head is out.
net::Task<Status> send_brought(Call& call, store::Reader& reader, store::Extent first, ByteRange range);
// Logs why bytes of an answer that has begun cannot be read.
void note_unread(Call& call, const Error& error);
// Sends stored bytes as (part of) a body whose head is out.
net::Task<Status> send_stored(Call& call, store::ObjectPointer object, ByteRange range);

enum class RangeKind { kWhole, kPart, kUnsatisfiable };
struct ParsedRange {
  RangeKind kind = RangeKind::kWhole;
  ByteRange range;
};
// "bytes=0-99", "bytes=100-", "bytes=-5". What is not understood, and lists of ranges, mean the whole: RFC
// 9110 allows it.
ParsedRange parse_range(std::string_view text, uint64_t size);

// The headers that describe an object; those of a shard say how many samples it has.
void add_object_headers(Call& call, const store::Object& object, RangeKind kind);

}  // namespace millrace::gateway
