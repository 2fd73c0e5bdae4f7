// The encoding of messages between nodes: docs/formats/peer-messages.md.
#include "cluster/message.h"

#include <algorithm>
#include <array>
#include <limits>

#include "cluster/reasons.h"
#include "cluster/tail_coding.h"
#include "store/reasons.h"

namespace millrace::cluster {

namespace {

constexpr uint8_t kFormat = 1;
constexpr size_t kMaxDrives = 4096;
constexpr uint8_t kError = 255;  // in place of a reply's kind

// Reasons that whoever asked acts on.
constexpr std::array<const Reason*, 11> kReasons = {&kOldEpoch,
                                                    &kNotHome,
                                                    &kUndecided,
                                                    &kHoldersChanged,
                                                    &kOutcomeUnknown,
                                                    &kMarkRefused,
                                                    &store::kNoSuchBucket,
                                                    &store::kNoSuchObject,
                                                    &store::kConditionFailed,
                                                    &store::kBucketNotEmpty,
                                                    &kClosing};

Error broken(std::string_view why) {
  return make_error(Code::kCorrupt, "peer message: {}", why);
}

void encode(TailEncoder& out, const ObjectName& name) {
  out.text(name.bucket);
  out.text(name.key);
}
ObjectName decode_name(TailDecoder& in) {
  ObjectName name;
  name.bucket = in.text();
  name.key = in.text();
  return name;
}

void encode(TailEncoder& out, const store::Record& record) {
  out.text(store::encode_record(record));
}
Result<store::Record> decode_record(TailDecoder& in) {
  return store::decode_record(in.text());
}

template <typename T>
void encode_optional(TailEncoder& out, const std::optional<T>& value) {
  out.u8(value ? 1 : 0);
  if constexpr (std::is_same_v<T, std::string>) {
    if (value) out.text(*value);
  } else {
    if (value) out.u64(static_cast<uint64_t>(*value));
  }
}
template <typename T>
std::optional<T> decode_optional(TailDecoder& in) {
  if (in.u8() == 0) return std::nullopt;
  if constexpr (std::is_same_v<T, std::string>) {
    return std::string(in.text());
  } else {
    return static_cast<T>(in.u64());
  }
}

void encode(TailEncoder& out, const store::Condition& condition) {
  out.u8(condition.only_if_absent ? 1 : 0);
  encode_optional(out, condition.only_if_etag);
  encode_optional(out, condition.only_if_size);
  encode_optional(out, condition.only_if_modified_ms);
}
store::Condition decode_condition(TailDecoder& in) {
  store::Condition condition;
  condition.only_if_absent = in.u8() != 0;
  condition.only_if_etag = decode_optional<std::string>(in);
  condition.only_if_size = decode_optional<uint64_t>(in);
  condition.only_if_modified_ms = decode_optional<int64_t>(in);
  return condition;
}

void encode(TailEncoder& out, const store::Spread& spread) {
  store::Record record;  // a spread has no encoding of its own
  record.spread = spread;
  encode(out, record);
}
Result<store::Spread> decode_spread(TailDecoder& in) {
  return MR_TRY(decode_record(in)).spread;
}

void encode(TailEncoder& out, const PrepareRequest& request) {
  out.u64(request.drive);
  encode(out, request.name);
  encode(out, request.spread);
  out.text(request.bytes);
  out.u8(request.inlined ? 1 : 0);
}
Result<Request> decode_prepare(TailDecoder& in) {
  PrepareRequest request;
  request.drive = in.u64();
  request.name = decode_name(in);
  request.spread = MR_TRY(decode_spread(in));
  request.bytes = in.text();
  request.inlined = in.u8() != 0;
  return Request(std::move(request));
}

void encode(TailEncoder& out, const StateRequest& request) {
  out.u8(static_cast<uint8_t>(request.purpose));
  out.u32(request.epoch);
  encode(out, request.name);
  out.u32(static_cast<uint32_t>(request.drives.size()));
  for (const DriveId drive : request.drives) out.u64(drive);
}
Result<Request> decode_state(TailDecoder& in) {
  StateRequest request;
  const uint8_t purpose = in.u8();
  if (purpose > 1) return broken("its purpose is unknown");
  request.purpose = static_cast<StateRequest::Purpose>(purpose);
  request.epoch = in.u32();
  request.name = decode_name(in);
  const uint32_t drives = in.u32();
  if (drives > kMaxDrives) return broken("it names too many drives");
  for (uint32_t i = 0; i < drives && in.good(); ++i) request.drives.push_back(in.u64());
  return Request(std::move(request));
}

void encode(TailEncoder& out, const MarkRequest& request) {
  out.u32(request.epoch);
  out.u64(request.drive);
  encode(out, request.name);
  encode(out, request.record);
  out.u8(request.pointer ? 1 : 0);
}
Result<Request> decode_mark(TailDecoder& in) {
  MarkRequest request;
  request.epoch = in.u32();
  request.drive = in.u64();
  request.name = decode_name(in);
  request.record = MR_TRY(decode_record(in));
  request.pointer = in.u8() != 0;
  return Request(std::move(request));
}

void encode(TailEncoder& out, const store::Version& version) {
  out.u32(version.epoch);
  out.u64(version.counter);
  out.u32(version.node);
}
store::Version decode_version(TailDecoder& in) {
  store::Version version;
  version.epoch = in.u32();
  version.counter = in.u64();
  version.node = in.u32();
  return version;
}

void encode(TailEncoder& out, const CompleteRequest& request) {
  out.u64(request.drive);
  encode(out, request.name);
  encode(out, request.version);
}
Result<Request> decode_complete(TailDecoder& in) {
  CompleteRequest request;
  request.drive = in.u64();
  request.name = decode_name(in);
  request.version = decode_version(in);
  return Request(std::move(request));
}

void encode(TailEncoder& out, const CommitRequest& request) {
  out.u8(static_cast<uint8_t>(request.kind));
  out.u32(request.epoch);
  encode(out, request.name);
  encode(out, request.record);
  encode(out, request.condition);
}
Result<Request> decode_commit(TailDecoder& in) {
  CommitRequest request;
  const uint8_t kind = in.u8();
  if (kind > static_cast<uint8_t>(CommitRequest::Kind::kMove)) return broken("its kind is unknown");
  request.kind = static_cast<CommitRequest::Kind>(kind);
  request.epoch = in.u32();
  request.name = decode_name(in);
  request.record = MR_TRY(decode_record(in));
  request.condition = decode_condition(in);
  return Request(std::move(request));
}

void encode(TailEncoder& out, const FindRequest& request) {
  out.u32(request.epoch);
  encode(out, request.name);
}
Result<Request> decode_find(TailDecoder& in) {
  FindRequest request;
  request.epoch = in.u32();
  request.name = decode_name(in);
  return Request(std::move(request));
}

void encode(TailEncoder& out, const AppendRequest& request) {
  out.u64(request.drive);
  out.text(request.write_id);
  out.u8(request.slot);
  out.u64(request.offset);
  out.tail(request.bytes);
}
Result<Request> decode_append(TailDecoder& in) {
  AppendRequest request;
  request.drive = in.u64();
  request.write_id = in.text();
  request.slot = in.u8();
  request.offset = in.u64();
  request.bytes = in.tail();
  return Request(std::move(request));
}

void encode(TailEncoder& out, const FinishRequest& request) {
  out.u64(request.drive);
  encode(out, request.name);
  encode(out, request.spread);
  out.u64(request.size);
}
Result<Request> decode_finish(TailDecoder& in) {
  FinishRequest request;
  request.drive = in.u64();
  request.name = decode_name(in);
  request.spread = MR_TRY(decode_spread(in));
  request.size = in.u64();
  return Request(std::move(request));
}

void encode(TailEncoder& out, const DropRequest& request) {
  out.u64(request.drive);
  encode(out, request.name);
  encode(out, request.spread);
}
Result<Request> decode_drop(TailDecoder& in) {
  DropRequest request;
  request.drive = in.u64();
  request.name = decode_name(in);
  request.spread = MR_TRY(decode_spread(in));
  return Request(std::move(request));
}

void encode(TailEncoder& out, const ReadRequest& request) {
  out.u64(request.drive);
  out.text(request.write_id);
  out.u8(request.slot);
  out.u64(request.offset);
  out.u32(request.size);
}
Result<Request> decode_read(TailDecoder& in) {
  ReadRequest request;
  request.drive = in.u64();
  request.write_id = in.text();
  request.slot = in.u8();
  request.offset = in.u64();
  request.size = in.u32();
  return Request(std::move(request));
}

// Flags of a list.
constexpr uint8_t kRecords = 1;
constexpr uint8_t kOnce = 2;

void encode(TailEncoder& out, const ListRequest& request) {
  out.u32(request.epoch);
  out.text(request.bucket);
  out.text(request.prefix);
  out.text(request.after);
  out.u32(request.limit);
  out.u8(static_cast<uint8_t>((request.records ? kRecords : 0) | (request.once ? kOnce : 0)));
}
Result<Request> decode_list(TailDecoder& in) {
  ListRequest request;
  request.epoch = in.u32();
  request.bucket = in.text();
  request.prefix = in.text();
  request.after = in.text();
  request.limit = in.u32();
  const uint8_t flags = in.u8();
  if ((flags & ~(kRecords | kOnce)) != 0) return broken("it asks for what is not known here");
  request.records = (flags & kRecords) != 0;
  request.once = (flags & kOnce) != 0;
  if (request.limit == 0) return broken("it asks for nothing");
  return Request(std::move(request));
}

void encode(TailEncoder&, const RefreshRequest&) {}
Result<Request> decode_refresh(TailDecoder&) {
  return Request(RefreshRequest{});
}

void encode(TailEncoder& out, const MendRequest& request) {
  out.u32(request.epoch);
  encode(out, request.name);
  out.u64(request.drive);
}
Result<Request> decode_mend(TailDecoder& in) {
  MendRequest request;
  request.epoch = in.u32();
  request.name = decode_name(in);
  request.drive = in.u64();
  return Request(std::move(request));
}

void encode(TailEncoder& out, const ForgetRequest& request) {
  out.u32(request.epoch);
  out.u64(request.drive);
  encode(out, request.name);
  encode(out, request.version);
}
Result<Request> decode_forget(TailDecoder& in) {
  ForgetRequest request;
  request.epoch = in.u32();
  request.drive = in.u64();
  request.name = decode_name(in);
  request.version = decode_version(in);
  return Request(std::move(request));
}

void encode(TailEncoder& out, const CompareRequest& request) {
  out.u32(request.epoch);
  out.u64(request.drive);
  out.u32(static_cast<uint32_t>(request.known.size()));
  for (const CompareRequest::Known& one : request.known) {
    encode(out, one.name);
    encode(out, one.version);
  }
}
Result<Request> decode_compare(TailDecoder& in) {
  CompareRequest request;
  request.epoch = in.u32();
  request.drive = in.u64();
  const uint32_t count = in.u32();
  if (count > CompareRequest::kMost) return broken("it names too many objects");
  for (uint32_t i = 0; i < count && in.good(); ++i) {
    CompareRequest::Known& one = request.known.emplace_back();
    one.name = decode_name(in);
    one.version = decode_version(in);
  }
  return Request(std::move(request));
}

void encode(TailEncoder&, const ProgressRequest&) {}
Result<Request> decode_progress(TailDecoder&) {
  return Request(ProgressRequest{});
}

void encode(TailEncoder& out, const VerifyRequest& request) {
  out.u64(request.drive);
  encode(out, request.name);
  out.text(request.write_id);
  out.u8(request.slot);
  out.u64(request.block);
}
Result<Request> decode_verify(TailDecoder& in) {
  VerifyRequest request;
  request.drive = in.u64();
  request.name = decode_name(in);
  request.write_id = in.text();
  request.slot = in.u8();
  request.block = in.u64();
  return Request(std::move(request));
}

using DecodeRequest = Result<Request> (*)(TailDecoder&);
// At the positions of the variant.
constexpr std::array<DecodeRequest, std::variant_size_v<Request>> kDecoders = {
    decode_prepare, decode_state,  decode_mark,    decode_complete, decode_commit, decode_find,
    decode_append,  decode_finish, decode_drop,    decode_read,     decode_list,   decode_refresh,
    decode_mend,    decode_forget, decode_compare, decode_progress, decode_verify};

void encode(TailEncoder& out, const StateReply& reply) {
  out.u32(static_cast<uint32_t>(reply.drives.size()));
  for (const StateReply::Held& held : reply.drives) {
    out.u64(held.drive);
    encode_ledger(out, held.ledger);
  }
}
Result<Reply> decode_state_reply(TailDecoder& in) {
  StateReply reply;
  const uint32_t drives = in.u32();
  if (drives > kMaxDrives) return broken("it names too many drives");
  for (uint32_t i = 0; i < drives && in.good(); ++i) {
    const DriveId drive = in.u64();
    reply.drives.push_back({drive, MR_TRY(decode_ledger(in))});
  }
  return Reply(std::move(reply));
}

void encode(TailEncoder& out, const ObjectReply& reply) {
  out.u8(reply.record ? 1 : 0);
  if (reply.record) encode(out, *reply.record);
}
Result<Reply> decode_object_reply(TailDecoder& in) {
  ObjectReply reply;
  if (in.u8() != 0) reply.record = MR_TRY(decode_record(in));
  return Reply(std::move(reply));
}

void encode(TailEncoder&, const DoneReply&) {}
Result<Reply> decode_done_reply(TailDecoder&) {
  return Reply(DoneReply{});
}

void encode(TailEncoder& out, const BytesReply& reply) {
  out.tail(reply.bytes);
}
Result<Reply> decode_bytes_reply(TailDecoder& in) {
  return Reply(BytesReply{in.tail()});
}

void encode(TailEncoder& out, const ListReply& reply) {
  out.text(reply.reached);
  out.u32(static_cast<uint32_t>(reply.drives.size()));
  for (const DriveId drive : reply.drives) out.u64(drive);
  out.u32(static_cast<uint32_t>(reply.entries.size()));
  for (const ListReply::Entry& entry : reply.entries) {
    out.text(entry.key);
    encode(out, entry.version);
    out.u8(entry.deleted ? 1 : 0);
    out.u64(entry.size);
    out.u64(static_cast<uint64_t>(entry.modified_ms));
    out.text(entry.etag);
    out.u8(entry.record ? 1 : 0);
    if (entry.record) encode(out, *entry.record);
  }
}
Result<Reply> decode_list_reply(TailDecoder& in) {
  ListReply reply;
  reply.reached = in.text();
  for (uint32_t left = in.u32(); left > 0 && in.good(); --left) reply.drives.push_back(in.u64());
  for (uint32_t left = in.u32(); left > 0 && in.good(); --left) {
    ListReply::Entry entry;
    entry.key = in.text();
    entry.version = decode_version(in);
    entry.deleted = in.u8() != 0;
    entry.size = in.u64();
    entry.modified_ms = static_cast<int64_t>(in.u64());
    entry.etag = in.text();
    if (in.u8() != 0) entry.record = std::make_shared<const store::Record>(MR_TRY(decode_record(in)));
    reply.entries.push_back(std::move(entry));
  }
  return Reply(std::move(reply));
}

void encode(TailEncoder& out, const CompareReply& reply) {
  out.u32(static_cast<uint32_t>(reply.differing.size()));
  for (const uint32_t position : reply.differing) out.u32(position);
}
Result<Reply> decode_compare_reply(TailDecoder& in) {
  CompareReply reply;
  const uint32_t count = in.u32();
  if (count > CompareRequest::kMost) return broken("it names too many objects");
  for (uint32_t i = 0; i < count && in.good(); ++i) reply.differing.push_back(in.u32());
  return Reply(std::move(reply));
}

constexpr uint64_t Progress::* kProgressNumbers[] = {&Progress::rows,
                                                     &Progress::rows_before,
                                                     &Progress::objects,
                                                     &Progress::below,
                                                     &Progress::below_floor,
                                                     &Progress::to_move_bytes,
                                                     &Progress::needed,
                                                     &Progress::held,
                                                     &Progress::failures,
                                                     &Progress::mended,
                                                     &Progress::built,
                                                     &Progress::built_bytes,
                                                     &Progress::bytes_per_second,
                                                     &Progress::forgotten,
                                                     &Progress::under_way,
                                                     &Progress::damaged,
                                                     &Progress::repaired};

void encode(TailEncoder& out, const ProgressReply& reply) {
  out.u32(reply.progress.clean);
  out.u32(reply.progress.walking);
  for (const auto number : kProgressNumbers) out.u64(reply.progress.*number);
  out.text(reply.progress.problem);
}
Result<Reply> decode_progress_reply(TailDecoder& in) {
  ProgressReply reply;
  reply.progress.clean = in.u32();
  reply.progress.walking = in.u32();
  for (const auto number : kProgressNumbers) reply.progress.*number = in.u64();
  reply.progress.problem = in.text();
  return Reply(std::move(reply));
}

void encode(TailEncoder& out, const VerifyReply& reply) {
  out.u8(static_cast<uint8_t>(reply.found));
  out.u64(reply.bytes);
  out.u64(reply.next);
  encode_optional(out, reply.bad_block);
  out.text(reply.why);
}
Result<Reply> decode_verify_reply(TailDecoder& in) {
  VerifyReply reply;
  const uint8_t found = in.u8();
  if (found > static_cast<uint8_t>(VerifyReply::Found::kDamaged)) return broken("its finding is unknown");
  reply.found = static_cast<VerifyReply::Found>(found);
  reply.bytes = in.u64();
  reply.next = in.u64();
  reply.bad_block = decode_optional<uint64_t>(in);
  reply.why = in.text();
  return Reply(std::move(reply));
}

using DecodeReply = Result<Reply> (*)(TailDecoder&);
constexpr std::array<DecodeReply, std::variant_size_v<Reply>> kReplyDecoders = {
    decode_state_reply, decode_object_reply,  decode_done_reply,     decode_bytes_reply,
    decode_list_reply,  decode_compare_reply, decode_progress_reply, decode_verify_reply};

Error decode_error(TailDecoder& in) {
  const uint8_t code = in.u8();
  const uint8_t reason = in.u8();
  std::string message(in.text());
  std::string hint(in.text());
  if (!in.good() || code > static_cast<uint8_t>(Code::kCancelled)) return broken("its error is none");
  Error error = reason < kReasons.size() ? Error(*kReasons[reason], std::move(message))
                                         : Error(static_cast<Code>(code), std::move(message));
  return hint.empty() ? std::move(error) : std::move(error).with_hint(std::move(hint));
}

Status check_format(uint8_t format) {
  if (format == kFormat) return {};
  return make_error(Code::kUnsupported, "peer message: it has format {}, this node speaks {}", format,
                    kFormat)
      .with_hint("update the node of the older version");
}

}  // namespace

WireMessage encode_request(const Request& request) {
  TailEncoder out;
  out.u8(kFormat);
  out.u8(static_cast<uint8_t>(request.index()));
  std::visit([&](const auto& one) { encode(out, one); }, request);
  return std::move(out).take();
}

Result<Request> decode_request(const Bytes& bytes) {
  TailDecoder in(bytes);
  MR_TRY(check_format(in.u8()));
  const uint8_t kind = in.u8();
  if (!in.good() || kind >= kDecoders.size()) return broken("its kind is unknown");
  Result<Request> request = kDecoders[kind](in);
  if (request && (!in.good() || in.left() != 0)) return broken("it has not the length it says");
  return request;
}

WireMessage encode_reply(const Result<Reply>& reply) {
  TailEncoder out;
  out.u8(kFormat);
  if (reply) {
    out.u8(static_cast<uint8_t>(reply->index()));
    std::visit([&](const auto& one) { encode(out, one); }, *reply);
    return std::move(out).take();
  }
  const Error& error = reply.error();
  out.u8(kError);
  out.u8(static_cast<uint8_t>(error.code()));
  const auto reason = std::ranges::find(kReasons, error.reason());
  out.u8(reason == kReasons.end() ? std::numeric_limits<uint8_t>::max()
                                  : static_cast<uint8_t>(reason - kReasons.begin()));
  out.text(error.message());
  out.text(error.hint());
  return std::move(out).take();
}

Result<Reply> decode_reply(const Bytes& bytes) {
  TailDecoder in(bytes);
  MR_TRY(check_format(in.u8()));
  const uint8_t kind = in.u8();
  if (kind == kError) return decode_error(in);
  if (!in.good() || kind >= kReplyDecoders.size()) return broken("its kind is unknown");
  Result<Reply> reply = kReplyDecoders[kind](in);
  if (reply && (!in.good() || in.left() != 0)) return broken("it has not the length it says");
  return reply;
}

}  // namespace millrace::cluster
