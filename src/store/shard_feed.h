// ShardFeed: the index of a shard, made while its bytes pass. Never stands in the way of the bytes.
//
// A tar that is not valid, or whose index would be above kMaxShardIndexBytes, only loses its index. One that
// needs more memory than the node's budget has now is starved: the index is made later. One thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "base/result.h"
#include "store/trailer.h"
#include "tar/index_build.h"

namespace millrace::store {

// By name: .tar, or compressed: .tgz .tar.gz .tar.zst .tzst.
bool is_shard_name(std::string_view key);
bool is_plain_tar(std::string_view key);

// What came of indexing a shard, in its record.
void note_index(Record& record, const Result<std::string>& index, uint64_t samples);

class ShardFeed {
 public:
  // kPlain takes the bytes for the tar itself: cheap enough for a thread that serves connections.
  enum class Packing : uint8_t { kPlain, kRecognise };

  ShardFeed(const std::string& key, Packing packing, Budget& budget);
  ~ShardFeed();

  // The bytes as they are stored, in order.
  void add(std::string_view bytes);
  uint64_t samples() const { return feed_ ? feed_->samples() : 0; }
  bool failed() const { return feed_ == nullptr; }
  bool starved() const { return starved_; }
  Result<std::string> finish();

 private:
  class Unpacker;
  static constexpr uint64_t kBytesPerSample = 64;  // of the index, about

  void recognise();
  void add_unpacked(std::string_view bytes);
  void unpack();
  void add_tar(std::string_view bytes);
  void fail(std::string why);
  // Takes what it holds by now from the budget.
  void charge();

  const std::string key_;
  Budget& budget_;
  Charge charge_;
  bool starved_ = false;
  bool recognised_;
  std::string start_;  // until it is long enough to be recognised
  tar::Compression compression_ = tar::Compression::kNone;
  std::unique_ptr<tar::IndexFeed> feed_;  // gone after an error
  std::unique_ptr<Unpacker> unpacker_;    // of a compressed shard
  std::string why_;
};

}  // namespace millrace::store
