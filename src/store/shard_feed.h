// ShardFeed: the index of a shard, made while its bytes pass. Never stands in the way of the bytes.
//
// A tar that is not valid, or whose index would be above kMaxShardIndexBytes, only loses its index. One
// thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/trailer.h"
#include "tar/index_build.h"

namespace millrace::store {

// By name: .tar, or compressed: .tgz .tar.gz .tar.zst .tzst.
bool is_shard_name(std::string_view key);
bool is_plain_tar(std::string_view key);

class ShardFeed {
 public:
  explicit ShardFeed(const std::string& key)
      : feed_(std::make_unique<tar::IndexFeed>(key, tar::ReadOptions())) {}

  // Of a shard that is stored as it is.
  void add(std::string_view bytes) {
    add_stored(bytes);
    add_tar(bytes);
  }
  void add_stored(std::string_view bytes);
  void add_tar(std::string_view bytes);
  uint64_t samples() const { return feed_ ? feed_->samples() : 0; }
  bool failed() const { return feed_ == nullptr; }
  Result<std::string> finish(tar::Compression compression = tar::Compression::kNone);

 private:
  static constexpr uint64_t kBytesPerSample = 64;  // of the index, about

  std::unique_ptr<tar::IndexFeed> feed_;  // gone after an error
  std::string why_;
};

}  // namespace millrace::store
