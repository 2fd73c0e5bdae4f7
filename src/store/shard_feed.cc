// Names of shards, and the feed that may fail.
#include "store/shard_feed.h"

namespace millrace::store {

bool is_plain_tar(std::string_view key) {
  return key.ends_with(".tar");
}

bool is_shard_name(std::string_view key) {
  return is_plain_tar(key) || tar::compression_for_name(key) != tar::Compression::kNone;
}

void ShardFeed::add_stored(std::string_view bytes) {
  if (feed_) feed_->add_stored(bytes);
}

void ShardFeed::add_tar(std::string_view bytes) {
  if (!feed_) return;
  Status added = feed_->add_tar(bytes);
  if (added && feed_->samples() * kBytesPerSample <= kMaxShardIndexBytes) return;
  why_ = added ? "its index would be too large" : added.error().message();
  feed_.reset();
}

Result<std::string> ShardFeed::finish(tar::Compression compression) {
  if (!feed_) return make_error(Code::kInvalid, "{}", why_);
  std::string index = MR_TRY(feed_->finish(compression));
  if (index.size() > kMaxShardIndexBytes) return make_error(Code::kTooLarge, "its index is too large");
  return index;
}

}  // namespace millrace::store
