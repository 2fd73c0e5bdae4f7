// ShardIndexes: the index of every shard: read where it is ready, built where the bytes did not come in one
// plain stream (compressed, or in parts).
//
// A background thread builds what is pending, also what an earlier run left; whoever asks for a pending one
// has it built at once, and others that ask meanwhile wait for the same. Building changes neither version nor
// etag.
#pragma once

#include <memory>
#include <string>

#include "base/background.h"
#include "base/result.h"
#include "base/shared_work.h"
#include "store/core.h"

namespace millrace::store {

class ShardIndexes {
 public:
  explicit ShardIndexes(Core& core) : core_(core) {}

  void start();
  void stop() { thread_.stop(); }
  // There is a new pending one.
  void wake() { thread_.wake(); }
  // Blocks. kNotFound: the name promises no tar; kInvalid: the bytes are none.
  Result<std::shared_ptr<const std::string>> get(const std::shared_ptr<const LocalObject>& object);

 private:
  using Index = Result<std::shared_ptr<const std::string>>;

  void build_pending();
  Index read_ready(const LocalObject& object) const;
  Index build(const std::shared_ptr<const LocalObject>& object);
  Status commit(const LocalObject& object, const Result<std::string>& index, uint64_t samples);

  Core& core_;
  SharedWork<Version, std::shared_ptr<const std::string>> builds_;
  Background thread_;  // last: a round uses all of the above
};

}  // namespace millrace::store
