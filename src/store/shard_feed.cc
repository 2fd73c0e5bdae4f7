// Names of shards, and the feed that may fail.
#include "store/shard_feed.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "base/text.h"
#include "tar/compress.h"

namespace millrace::store {

bool is_plain_tar(std::string_view key) {
  return key.ends_with(".tar");
}

bool is_shard_name(std::string_view key) {
  return is_plain_tar(key) || tar::compression_for_name(key) != tar::Compression::kNone;
}

void note_index(Record& record, const Result<std::string>& index, uint64_t samples) {
  constexpr size_t kMostText = 300;
  record.shard = index ? ShardState::kReady : ShardState::kInvalid;
  record.shard_samples = index ? samples : 0;
  std::erase_if(record.headers, [](const NameValue& header) { return header.first == kIndexProblem; });
  if (!index) record.headers.emplace_back(kIndexProblem, printable(index.error().message(), kMostText));
}

// A decompressor that is given its input piece by piece.
class ShardFeed::Unpacker {
 public:
  static Result<std::unique_ptr<Unpacker>> make(tar::Compression compression, const std::string& name) {
    auto unpacker = std::make_unique<Unpacker>();
    unpacker->plain_ = MR_TRY(tar::make_decompressor(compression, unpacker->pieces_, name));
    return unpacker;
  }

  void give(std::string_view piece) { pieces_.left = piece; }
  uint64_t memory() const { return kUnpackedBytes + plain_->memory(); }
  void end() { pieces_.ended = true; }
  // Unpacked bytes; none when the piece is used up, or at the end.
  Result<std::string_view> next() {
    pieces_.dry = false;
    auto got = plain_->read_some(buffer_);
    if (!got && pieces_.dry) return std::string_view();
    if (!got) return got.take_error();
    return std::string_view(reinterpret_cast<const char*>(buffer_.data()), *got);
  }

 private:
  struct Pieces final : tar::ByteSource {
    Result<size_t> read_some(std::span<std::byte> into) override {
      if (left.empty() && !ended) {
        dry = true;
        return make_error(Code::kUnavailable, "the next piece has not come");
      }
      const size_t bytes = std::min(into.size(), left.size());
      std::memcpy(into.data(), left.data(), bytes);
      left.remove_prefix(bytes);
      return bytes;
    }
    Result<uint64_t> skip(uint64_t bytes) override { return tar::skip_by_reading(*this, bytes); }

    std::string_view left;
    bool ended = false;
    bool dry = false;
  };

  static constexpr size_t kUnpackedBytes = 256 << 10;
  Pieces pieces_;
  std::unique_ptr<tar::ByteSource> plain_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kUnpackedBytes);
};

ShardFeed::ShardFeed(const std::string& key, Packing packing, Budget& budget)
    : key_(key),
      budget_(budget),
      recognised_(packing == Packing::kPlain),
      feed_(std::make_unique<tar::IndexFeed>(key, tar::ReadOptions())) {}
ShardFeed::~ShardFeed() = default;

void ShardFeed::add(std::string_view bytes) {
  if (!feed_) return;
  feed_->add_stored(bytes);
  if (recognised_) {
    add_unpacked(bytes);
    return;
  }
  start_.append(bytes);
  if (start_.size() >= tar::kMagicBytes) recognise();
}

void ShardFeed::recognise() {
  recognised_ = true;
  compression_ = tar::recognise_compression(start_);
  if (compression_ != tar::Compression::kNone) {
    auto unpacker = Unpacker::make(compression_, key_);
    if (!unpacker) return fail(unpacker.error().message());
    unpacker_ = unpacker.take();
  }
  add_unpacked(start_);
  start_ = {};
}

void ShardFeed::add_unpacked(std::string_view bytes) {
  if (unpacker_) {
    unpacker_->give(bytes);
    unpack();
    return;
  }
  add_tar(bytes);
}

void ShardFeed::unpack() {
  while (feed_) {
    const auto bytes = unpacker_->next();
    if (!bytes) return fail(bytes.error().message());
    if (bytes->empty()) return;
    add_tar(*bytes);
  }
}

void ShardFeed::add_tar(std::string_view bytes) {
  Status added = feed_->add_tar(bytes);
  if (!added) return fail(added.error().message());
  if (feed_->samples() * kBytesPerSample > kMaxShardIndexBytes) return fail("its index would be too large");
  charge();
}

void ShardFeed::charge() {
  // In steps, so that the budget's lock is rarely taken; finish() holds the index beside the rows.
  constexpr uint64_t kStep = 256 << 10;
  const uint64_t wanted =
      feed_->memory() + feed_->samples() * kBytesPerSample + (unpacker_ ? unpacker_->memory() : 0);
  if (wanted < kStep || wanted <= charge_.bytes()) return;
  if (charge_.try_grow(budget_, wanted + wanted / 8 + kStep)) return;
  starved_ = true;
  fail("there is no memory for its index now");
}

void ShardFeed::fail(std::string why) {
  why_ = std::move(why);
  feed_.reset();
  unpacker_.reset();
  charge_ = Charge();
}

Result<std::string> ShardFeed::finish() {
  if (feed_ && !recognised_) recognise();
  if (feed_ && unpacker_) {
    unpacker_->end();
    unpack();
  }
  if (!feed_) return make_error(starved_ ? Code::kUnavailable : Code::kInvalid, "{}", why_);
  std::string index = MR_TRY(feed_->finish(compression_));
  if (index.size() > kMaxShardIndexBytes) return make_error(Code::kTooLarge, "its index is too large");
  return index;
}

}  // namespace millrace::store
