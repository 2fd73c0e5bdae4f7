// Finds members and samples by the shard index, and sends them.
#include "gateway/shards.h"

#include <algorithm>
#include <optional>

#include "base/mutex.h"
#include "base/number.h"
#include "base/text.h"
#include "gateway/get_object.h"
#include "store/waiting.h"
#include "tar/format.h"
#include "tar/reader.h"

namespace millrace::gateway {

namespace {

using store::Object;

// The member of this name in a range that begins with a header; nothing if it is not there.
Result<std::optional<TarRange>> find_in_range(Unpacker& unpacker, const TarRange& range,
                                              const std::string& path) {
  tar::ByteSource* const source = MR_TRY(unpacker.open(range));
  tar::StreamWindow window(*source);
  tar::MemberReader reader(window, range.object->key());
  while (reader.offset() < range.size) {
    const tar::Member* member = MR_TRY(reader.next());
    if (member == nullptr) break;
    if (!member->is_file || member->name != path) continue;
    TarRange found = range;
    found.offset += member->data_offset;
    found.size = member->size;
    const uint64_t all = range.object->record().size;
    if (range.compression == tar::Compression::kNone &&
        (found.offset > all || found.size > all - found.offset)) {
      return make_error(kNoSuchMember, "{} ends inside its member {}", range.object->key(),
                        printable(path, 256))
          .with_hint("it was cut short: put it again");
    }
    return std::optional(found);
  }
  return std::optional<TarRange>();
}

TarRange range_of(store::ObjectPointer object, const tar::Index& index, tar::Index::Range range) {
  return {std::move(object), index.compression(), range.offset, range.size};
}

// Why an object has no index; only where it has none.
Error no_such_index(const Object& object) {
  const store::Record& record = object.record();
  if (record.shard == store::ShardState::kNone) {
    return make_error(kNoSuchIndex, "{} is not named like a tar", object.key())
        .with_hint("shards end in .tar, .tgz, .tar.gz, .tar.zst or .tzst");
  }
  const auto problem = std::ranges::find(record.headers, store::kIndexProblem, &store::NameValue::first);
  return make_error(kNoSuchIndex, "{} cannot be indexed: {}", object.key(),
                    problem == record.headers.end() ? "it is not a valid tar" : problem->second)
      .with_hint("millrace tar verify looks at all of it");
}

Error no_such_member(const Object& object, const std::string& path) {
  return make_error(kNoSuchMember, "{} has no member {}", object.key(), printable(path, 256))
      .with_hint("millrace tar ls lists them");
}

// What goes out of one shard, and its beginning: read before the head, so that damage is an error and not an
// answer that is cut.
struct Opened {
  TarRange range;
  std::string start;  // of a compressed one
};
Result<Opened> open_range(Unpacker& unpacker, TarRange range) {
  Opened opened;
  if (range.compression != tar::Compression::kNone && range.size > 0)
    opened.start = MR_TRY(unpacker.read(range));
  range.offset += opened.start.size();
  range.size -= opened.start.size();
  opened.range = std::move(range);
  return opened;
}

net::Task<Status> send_opened(Call& call, Opened opened, Unpacker& unpacker) {
  auto begun = co_await call.connection.send_bytes(opened.start);
  if (!begun) co_return begun;
  co_return co_await send_tar_range(call, std::move(opened.range), unpacker);
}

}  // namespace

Result<std::pair<uint64_t, uint64_t>> parse_sample_range(std::string_view text) {
  const size_t dash = text.find('-');
  const std::string_view first_text = text.substr(0, dash);
  const std::string_view last_text = dash == std::string_view::npos ? first_text : text.substr(dash + 1);
  const auto first = parse_number<uint64_t>(first_text);
  const auto last = parse_number<uint64_t>(last_text);
  if (!first || !last || *first > *last) {
    return make_error(Code::kInvalid, "\"{}\" is not a range of samples", printable(text, 64))
        .with_hint("?sample=17 or ?samples=0-99");
  }
  return std::pair(*first, *last);
}

Result<TarRange> whole_tar(store::Objects& objects, store::ObjectPointer object) {
  const std::string start = MR_TRY(store::WaitingReader(objects, object).read(0, tar::kMagicBytes));
  return TarRange{std::move(object), tar::recognise_compression(start), 0, UINT64_MAX};
}

Result<uint64_t> find_sample_of(ShardIndexes& indexes, const store::ObjectPointer& object,
                                const std::string& path) {
  const auto index = MR_TRY(indexes.get(object));
  const auto split = tar::split_name(path, index->key_rule());
  if (!split) return no_such_member(*object, path);
  const auto found = index->find(split->key);
  if (found.empty()) return no_such_member(*object, path);
  return found.front();
}

std::string_view shard_state_name(store::ShardState state) {
  switch (state) {
    case store::ShardState::kNone:
      return "none";
    case store::ShardState::kPending:
      return "pending";
    case store::ShardState::kReady:
      return "ready";
    case store::ShardState::kInvalid:
      return "invalid";
  }
  return "none";
}

Result<std::shared_ptr<const tar::Index>> ShardIndexes::get(const store::ObjectPointer& object) {
  const std::string name = object->bucket() + "/" + object->key();
  const store::Version version = object->record().version;
  {
    const MutexLock lock(mutex_);
    const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
      return kept.version == version && kept.name == name;
    });
    if (found != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, found);
      return found->index;
    }
  }
  const store::ShardState state = object->record().shard;
  if (state == store::ShardState::kNone || state == store::ShardState::kInvalid)
    return no_such_index(*object);
  const std::shared_ptr<const std::string> bytes = MR_TRY(store::wait_for<std::shared_ptr<const std::string>>(
      [&](store::Done<std::shared_ptr<const std::string>> done) {
        objects_.shard_index(object, std::move(done));
      }));
  auto index = std::make_shared<const tar::Index>(MR_TRY(tar::Index::parse(*bytes)));
  const MutexLock lock(mutex_);
  kept_.push_front({name, version, bytes->size(), index});
  kept_bytes_ += bytes->size();
  while (kept_.size() > 1 && (kept_.size() > kKept || kept_bytes_ > kKeptBytes)) {
    kept_bytes_ -= kept_.back().bytes;
    kept_.pop_back();
  }
  return std::shared_ptr<const tar::Index>(index);
}

Result<TarRange> find_samples(ShardIndexes& indexes, store::ObjectPointer object, uint64_t first,
                              uint64_t last) {
  const auto index = MR_TRY(indexes.get(object));
  if (last >= index->samples()) {
    return make_error(kNoSuchSample, "{} has {} samples, counted from 0", object->key(), index->samples());
  }
  const uint64_t begin = index->range(first).offset;
  const tar::Index::Range end = index->range(last);
  return range_of(std::move(object), *index, {begin, end.offset + end.size - begin});
}

Result<TarRange> find_member(Unpacker& unpacker, ShardIndexes& indexes, store::ObjectPointer object,
                             const std::string& path) {
  auto index = indexes.get(object);
  if (!index && object->record().shard != store::ShardState::kInvalid) return index.take_error();
  const auto split = index ? tar::split_name(path, (*index)->key_rule()) : std::nullopt;
  if (split) {
    for (const uint64_t sample : (*index)->find(split->key)) {
      const TarRange whole = range_of(object, **index, (*index)->range(sample));
      const auto member = MR_TRY(find_in_range(unpacker, whole, path));
      if (member) return *member;
    }
    return no_such_member(*object, path);
  }
  // Members that belong to no sample are not in the index, and a tar that has none may still be a good tar.
  const TarRange all = MR_TRY(whole_tar(indexes.objects(), object));
  auto member = find_in_range(unpacker, all, path);
  if (!member && !index) return index.take_error();
  if (!member) return member.take_error();
  if (!*member) return no_such_member(*object, path);
  return **member;
}

net::Task<Status> send_tar_range(Call& call, TarRange range, Unpacker& unpacker) {
  if (range.compression == tar::Compression::kNone) {
    const ByteRange stored{range.offset, range.size};
    co_return co_await send_stored(call, range.object, stored);
  }
  while (range.size > 0) {
    auto work = [&unpacker, &range] { return unpacker.read(range); };
    auto bytes = co_await call.blocking_long(std::move(work));
    if (!bytes) {
      call.services.log.warn("unpacking failed", "bucket", call.bucket, "key", range.object->key(), "error",
                             bytes.error().message());
      co_return bytes.take_error();
    }
    auto sent = co_await call.connection.send_bytes(*bytes);
    if (!sent) co_return sent;
    range.offset += bytes->size();
    range.size -= bytes->size();
  }
  co_return Status();
}

net::Task<Status> get_index(Call& call) {
  auto object = co_await find_object(call, call.bucket, call.key);
  if (!object) co_return co_await call.refuse(object.error());
  const Verdict verdict = judge_read(call.request(), (*object)->record());
  if (verdict != Verdict::kGo) co_return co_await answer_verdict(call, (*object)->record(), verdict);
  const store::ShardState state = (*object)->record().shard;
  if (state == store::ShardState::kNone || state == store::ShardState::kInvalid)
    co_return co_await call.refuse(no_such_index(**object));
  const uint64_t size = (*object)->record().shard_index_size;
  auto reserved = co_await call.reserve(size > 0 ? size : store::kInlineBytes);
  if (!reserved) co_return co_await call.refuse(reserved.error());
  using Bytes = std::shared_ptr<const std::string>;
  std::function<void(store::Done<Bytes>)> get = [&call, kept = *object](store::Done<Bytes> done) {
    call.objects().shard_index(kept, std::move(done));
  };
  auto index = co_await call.ask<Bytes>(std::move(get));
  if (!index) co_return co_await call.refuse(index.error());
  net::HeadBuilder& head = call.connection.start(200);
  head.add("Content-Type", "application/octet-stream");
  head.add("ETag", quoted_etag((*object)->record().etag));
  co_return co_await call.connection.send(**index);
}

net::Task<Status> get_member(Call& call) {
  ShardIndexes& indexes = call.services.indexes;
  auto object = co_await find_object(call, call.bucket, call.key);
  if (!object) co_return co_await call.refuse(object.error());
  const Verdict verdict = judge_read(call.request(), (*object)->record());
  if (verdict != Verdict::kGo) co_return co_await answer_verdict(call, (*object)->record(), verdict);
  Unpacker unpacker(call.objects(), call.services.memory.work);
  auto work = [&unpacker, &indexes, kept = *object, path = call.get_query("member")]() -> Result<Opened> {
    return open_range(unpacker, MR_TRY(find_member(unpacker, indexes, kept, path)));
  };
  auto opened = co_await call.blocking(std::move(work));
  if (!opened) co_return co_await call.refuse(opened.error());
  net::HeadBuilder& head = call.connection.start(200);
  head.add("Content-Type", "application/octet-stream");
  head.add("x-millrace-etag", quoted_etag((*object)->record().etag));
  auto sent = co_await call.connection.send_head(opened->start.size() + opened->range.size);
  if (!sent || call.method() == "HEAD") co_return sent;
  auto body = co_await send_opened(call, opened.take(), unpacker);
  if (!body) co_return body;
  co_return co_await call.connection.end_body();
}

net::Task<Status> get_samples(Call& call) {
  ShardIndexes& indexes = call.services.indexes;
  auto range =
      parse_sample_range(call.has_query("sample") ? call.get_query("sample") : call.get_query("samples"));
  if (!range) co_return co_await call.refuse(range.error());
  auto object = co_await find_object(call, call.bucket, call.key);
  if (!object) co_return co_await call.refuse(object.error());
  const Verdict verdict = judge_read(call.request(), (*object)->record());
  if (verdict != Verdict::kGo) co_return co_await answer_verdict(call, (*object)->record(), verdict);
  Unpacker unpacker(call.objects(), call.services.memory.work);
  auto work = [&unpacker, &indexes, kept = *object, wanted = *range]() -> Result<Opened> {
    return open_range(unpacker, MR_TRY(find_samples(indexes, kept, wanted.first, wanted.second)));
  };
  auto opened = co_await call.blocking(std::move(work));
  if (!opened) co_return co_await call.refuse(opened.error());
  net::HeadBuilder& head = call.connection.start(200);
  head.add("Content-Type", "application/x-tar");
  head.add("x-millrace-etag", quoted_etag((*object)->record().etag));
  const std::string end_blocks(2 * tar::kBlock, 0);
  auto sent =
      co_await call.connection.send_head(opened->start.size() + opened->range.size + end_blocks.size());
  if (!sent || call.method() == "HEAD") co_return sent;
  auto body = co_await send_opened(call, opened.take(), unpacker);
  if (!body) co_return body;
  auto tail = co_await call.connection.send_bytes(end_blocks);
  if (!tail) co_return tail;
  co_return co_await call.connection.end_body();
}

}  // namespace millrace::gateway
