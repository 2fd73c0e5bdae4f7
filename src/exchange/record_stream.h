// RecordStreams: records of a sort on their way between ranks, many to many, in bounded memory.
//
// Each rank gives records to any rank and takes those that come for it, until every rank has said that it
// gives no more. Records of one sender arrive in the order they were given. Whoever gives also takes: while
// its buffers are full it handles what arrives, so no two ranks wait for each other. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "exchange/group.h"
#include "shard/run.h"

namespace millrace::exchange {

void append_record(std::string& to, const shard::RunRecord& record);
// The records of a message, one after the other; an error where it does not consist of whole records.
Status each_record(std::string_view message, const std::function<Status(const shard::RunRecord&)>& take);

class RecordStreams {
 public:
  using Take = std::function<Status(const shard::RunRecord&)>;
  // `from`: the ranks that will give something, in the order in which they are heard: all at once, or one
  // after the other. `take` is not called again after it failed; the failure is finish()'s.
  enum class Hearing { kAtOnce, kInTurn };
  RecordStreams(Group& group, std::vector<uint32_t> from, Hearing hearing, Take take);
  ~RecordStreams();

  void set_patience(Patience patience) { patience_ = patience; }
  Status give(uint32_t to, const shard::RunRecord& record);
  // Says to these ranks that nothing more comes, and takes until all others have said so too.
  Status finish(const std::vector<uint32_t>& to);

  uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  struct State;
  Status post(uint32_t to);
  Status progress();
  Status progress_sends();
  Status progress_receives();
  Status wait_until(const std::function<bool()>& done);
  std::string waiting_for() const;

  Group& group_;
  const Take take_;
  Patience patience_{600'000, "sorting"};
  std::shared_ptr<State> state_;
  Status taken_;
  uint64_t bytes_sent_ = 0;
  uint64_t moved_ = 0;  // messages that ended, of either direction
  bool finished_ = false;
};

}  // namespace millrace::exchange
