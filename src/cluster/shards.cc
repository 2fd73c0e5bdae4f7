// Finding stretches by index, and sending them.
#include "cluster/shards.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/text.h"
#include "cluster/read.h"
#include "tar/compress.h"
#include "tar/format.h"
#include "tar/reader.h"

namespace millrace::cluster {

namespace {

using store::Object;

constexpr uint64_t kMaxUnpacked = 256 << 20;
constexpr size_t kReadBytes = 256 << 10;

// A stretch of an object as a stream for the tar readers.
class ObjectSource final : public tar::ByteSource {
 public:
  ObjectSource(store::Store& store, const Object& object, uint64_t offset, uint64_t size)
      : store_(store), object_(object), at_(offset), end_(offset + size) {}

  Result<size_t> read_some(std::span<std::byte> into) override {
    const uint64_t want = std::min<uint64_t>({into.size(), end_ - at_, kReadBytes});
    if (want == 0) return size_t{0};
    const std::string bytes = MR_TRY(store_.read(object_, at_, want));
    std::memcpy(into.data(), bytes.data(), bytes.size());
    at_ += bytes.size();
    return bytes.size();
  }
  Result<uint64_t> skip(uint64_t bytes) override {
    const uint64_t pass = std::min(bytes, end_ - at_);
    at_ += pass;
    return pass;
  }

 private:
  store::Store& store_;
  const Object& object_;
  uint64_t at_;
  const uint64_t end_;
};

// The bytes of [offset, offset + size) of the tar inside a compressed object.
Result<std::string> unpack(store::Store& store, const Object& object, tar::Compression compression,
                           tar::Index::Range range) {
  if (range.size > kMaxUnpacked) {
    return make_error(Code::kTooLarge, "{} bytes of a compressed shard at once; at most {}", range.size,
                      kMaxUnpacked)
        .with_hint("ask for fewer samples, or store the shard uncompressed");
  }
  ObjectSource stored(store, object, 0, object.record().size);
  auto plain = MR_TRY(tar::make_decompressor(compression, stored, object.key()));
  const uint64_t skipped = MR_TRY(plain->skip(range.offset));
  std::string bytes(range.size, 0);
  size_t have = 0;
  while (skipped == range.offset && have < bytes.size()) {
    const size_t got = MR_TRY(plain->read_some(std::as_writable_bytes(std::span(bytes)).subspan(have)));
    if (got == 0) break;
    have += got;
  }
  if (have < bytes.size())
    return make_error(Code::kTruncated, "{} ends before byte {}", object.key(), range.offset + range.size);
  return bytes;
}

Result<Stretch> take_range(store::Store& store, const tar::Index& index, std::shared_ptr<const Object> object,
                           tar::Index::Range range) {
  Stretch stretch;
  stretch.offset = range.offset;
  stretch.size = range.size;
  if (index.compression() != tar::Compression::kNone) {
    stretch.unpacked = MR_TRY(unpack(store, *object, index.compression(), range));
    stretch.offset = 0;
  }
  stretch.object = std::move(object);
  return stretch;
}

// The member of this name among those of one sample; nothing if it is not there.
Result<std::optional<tar::Index::Range>> find_in_sample(store::Store& store, const Stretch& sample,
                                                        const std::string& path) {
  std::unique_ptr<tar::ByteSource> source;
  std::unique_ptr<tar::Window> window;
  if (sample.unpacked) {
    window = std::make_unique<tar::MappedWindow>(*sample.unpacked);
  } else {
    source = std::make_unique<ObjectSource>(store, *sample.object, sample.offset, sample.size);
    window = std::make_unique<tar::StreamWindow>(*source);
  }
  tar::MemberReader reader(*window, sample.object->key());
  while (reader.offset() < sample.size) {
    const tar::Member* member = MR_TRY(reader.next());
    if (member == nullptr) break;
    if (member->is_file && member->name == path) {
      return std::optional(tar::Index::Range{sample.offset + member->data_offset, member->size});
    }
  }
  return std::optional<tar::Index::Range>();
}

Result<std::pair<uint64_t, uint64_t>> parse_sample_range(std::string_view text) {
  const size_t dash = text.find('-');
  const std::string_view first_text = text.substr(0, dash);
  const std::string_view last_text = dash == std::string_view::npos ? first_text : text.substr(dash + 1);
  uint64_t first = 0;
  uint64_t last = 0;
  const auto a = std::from_chars(first_text.data(), first_text.data() + first_text.size(), first);
  const auto b = std::from_chars(last_text.data(), last_text.data() + last_text.size(), last);
  const bool good = a.ec == std::errc() && a.ptr == first_text.data() + first_text.size() &&
                    b.ec == std::errc() && b.ptr == last_text.data() + last_text.size() && first <= last;
  if (!good) {
    return make_error(Code::kInvalid, "\"{}\" is not a range of samples", printable(text, 64))
        .with_hint("?sample=17 or ?samples=0-99");
  }
  return std::pair(first, last);
}

}  // namespace

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

Result<std::shared_ptr<const tar::Index>> ShardIndexes::get(const std::shared_ptr<const Object>& object) {
  const std::string name = object->bucket() + "/" + object->key();
  const uint64_t version = object->record().version;
  {
    std::lock_guard lock(mutex_);
    const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
      return kept.version == version && kept.name == name;
    });
    if (found != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, found);
      return found->index;
    }
  }
  if (object->record().shard == store::ShardState::kNone) {
    return make_error(Code::kNotFound, "NoSuchIndex: {} is not named like a tar", object->key())
        .with_hint("shards end in .tar, .tgz, .tar.gz, .tar.zst or .tzst");
  }
  if (object->record().shard == store::ShardState::kInvalid) {
    return make_error(Code::kNotFound, "NoSuchIndex: {} is not a valid tar", object->key())
        .with_hint("millrace tar verify says why");
  }
  const std::shared_ptr<const std::string> bytes = MR_TRY(store_.shard_index(object));
  auto index = std::make_shared<const tar::Index>(MR_TRY(tar::Index::parse(*bytes)));
  std::lock_guard lock(mutex_);
  kept_.push_front({name, version, index});
  if (kept_.size() > kKept) kept_.pop_back();
  return std::shared_ptr<const tar::Index>(index);
}

Result<Stretch> find_samples(store::Store& store, ShardIndexes& indexes, std::shared_ptr<const Object> object,
                             uint64_t first, uint64_t last) {
  const auto index = MR_TRY(indexes.get(object));
  if (last >= index->samples()) {
    return make_error(Code::kNotFound, "NoSuchSample: {} has {} samples; the last is {}", object->key(),
                      index->samples(), static_cast<int64_t>(index->samples()) - 1);
  }
  const uint64_t begin = index->range(first).offset;
  const tar::Index::Range end = index->range(last);
  return take_range(store, *index, std::move(object), {begin, end.offset + end.size - begin});
}

Result<Stretch> find_member(store::Store& store, ShardIndexes& indexes, std::shared_ptr<const Object> object,
                            const std::string& path) {
  const auto index = MR_TRY(indexes.get(object));
  const auto split = tar::split_name(path, index->key_rule());
  const std::vector<uint64_t> candidates = split ? index->find(split->key) : std::vector<uint64_t>();
  for (const uint64_t sample : candidates) {
    Stretch whole = MR_TRY(take_range(store, *index, object, index->range(sample)));
    const auto member = MR_TRY(find_in_sample(store, whole, path));
    if (!member) continue;
    if (whole.unpacked) whole.unpacked = whole.unpacked->substr(member->offset, member->size);
    whole.offset = member->offset;
    whole.size = member->size;
    return whole;
  }
  return make_error(Code::kNotFound, "NoSuchMember: {} has no member {}", object->key(), printable(path, 256))
      .with_hint("millrace tar ls lists them");
}

net::Task<Status> send_stretch(Call& call, Stretch stretch) {
  if (stretch.unpacked) co_return co_await call.connection.send_bytes(*stretch.unpacked);
  co_return co_await send_stretch(call, stretch.object, stretch.offset, stretch.size);
}

net::Task<Status> get_index(Call& call) {
  call.operation = "get_index";
  auto object = co_await find_object(call, call.bucket, call.key);
  if (!object) co_return co_await call.refuse(object.error(), About::kObject);
  const store::ShardState state = (*object)->record().shard;
  if (state == store::ShardState::kNone || state == store::ShardState::kInvalid) {
    Refusal refusal{"NoSuchIndex",
                    fmt::format("{} has no index: {}", call.key,
                                state == store::ShardState::kNone ? "it is not named like a tar"
                                                                  : "it is not a valid tar"),
                    "millrace tar verify says what is wrong with a tar"};
    co_return co_await call.refuse(std::move(refusal));
  }
  store::Store& store = call.store();
  auto work = [&store, kept = *object] { return store.shard_index(kept); };
  auto index = co_await call.blocking(std::move(work));
  if (!index) co_return co_await call.refuse(index.error(), About::kObject);
  net::HeadBuilder& head = call.connection.start(200);
  head.add("Content-Type", "application/octet-stream");
  head.add("ETag", quoted_etag((*object)->record().etag));
  co_return co_await call.connection.send(**index);
}

net::Task<Status> get_member(Call& call, ShardIndexes& indexes) {
  call.operation = "get_member";
  auto object = co_await find_object(call, call.bucket, call.key);
  if (!object) co_return co_await call.refuse(object.error(), About::kObject);
  store::Store& store = call.store();
  auto work = [&store, &indexes, kept = *object, path = call.get_query("member")] {
    return find_member(store, indexes, kept, path);
  };
  auto stretch = co_await call.blocking(std::move(work));
  if (!stretch) co_return co_await call.refuse(stretch.error(), About::kObject);
  net::HeadBuilder& head = call.connection.start(200);
  head.add("Content-Type", "application/octet-stream");
  head.add("x-millrace-etag", quoted_etag((*object)->record().etag));
  auto sent = co_await call.connection.send_head(stretch->size);
  if (!sent || call.method() == "HEAD") co_return sent;
  auto body = co_await send_stretch(call, stretch.take());
  if (!body) co_return body;
  co_return co_await call.connection.end_body();
}

net::Task<Status> get_samples(Call& call, ShardIndexes& indexes) {
  call.operation = "get_samples";
  auto range =
      parse_sample_range(call.has_query("sample") ? call.get_query("sample") : call.get_query("samples"));
  if (!range) co_return co_await call.refuse(range.error(), About::kObject);
  auto object = co_await find_object(call, call.bucket, call.key);
  if (!object) co_return co_await call.refuse(object.error(), About::kObject);
  store::Store& store = call.store();
  auto work = [&store, &indexes, kept = *object, wanted = *range] {
    return find_samples(store, indexes, kept, wanted.first, wanted.second);
  };
  auto stretch = co_await call.blocking(std::move(work));
  if (!stretch) co_return co_await call.refuse(stretch.error(), About::kObject);
  net::HeadBuilder& head = call.connection.start(200);
  head.add("Content-Type", "application/x-tar");
  head.add("x-millrace-etag", quoted_etag((*object)->record().etag));
  const std::string end_blocks(2 * tar::kBlock, 0);
  auto sent = co_await call.connection.send_head(stretch->size + end_blocks.size());
  if (!sent || call.method() == "HEAD") co_return sent;
  auto body = co_await send_stretch(call, stretch.take());
  if (!body) co_return body;
  auto tail = co_await call.connection.send_bytes(end_blocks);
  if (!tail) co_return tail;
  co_return co_await call.connection.end_body();
}

}  // namespace millrace::cluster
