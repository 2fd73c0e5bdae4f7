// SliceService: the messages that move bytes or go over many keys, served from this machine's drives.
//
// A large slice comes as a row of appends, each at the offset where the last one ended, and a finish; a
// sender that goes silent loses what it sent. All work is done by workers; verifying, which reads whole
// drives, has threads of its own, so that nobody else waits for it. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/blocks.h"
#include "base/mutex.h"
#include "base/workers.h"
#include "cluster/message.h"
#include "cluster/peers.h"
#include "store/slices.h"

namespace millrace::cluster {

class SliceService {
 public:
  static constexpr uint64_t kPatienceUs = 600'000'000;  // with a sender that went silent
  static constexpr size_t kMostIncoming = 1024;
  static constexpr uint32_t kMostReadBytes = 4 << 20;
  static constexpr uint32_t kMostListed = 5000;
  static constexpr size_t kMostListedBytes = 4
                                             << 20;  // of records in one list, which must fit into a message
  static constexpr uint64_t kMostVerifiedBlocks = 32;  // by one message
  static constexpr unsigned kVerifyThreads = 2;
  static constexpr size_t kMostVerifying = 256;  // messages that wait

  // `enter` makes a durable slice known to the holder (Holder::enter, on the strand).
  using Enter = std::function<void(DriveId, ObjectName, Prepared, Done<void>)>;
  SliceService(store::Slices& slices, Workers& workers, Blocks blocks, Enter enter)
      : slices_(slices), workers_(workers), blocks_(std::move(blocks)), enter_(std::move(enter)) {}

  void append(AppendRequest request, Done<Reply> done);
  void finish(FinishRequest request, Done<Reply> done);
  // Lets go of the file and the buffers of a slice that will not be finished.
  void forget(const DropRequest& request);
  void read(ReadRequest request, Done<Reply> done);
  struct ListView {
    uint32_t since = 0;                  // what is older was written to a bucket that was removed
    std::shared_ptr<const Map> once_by;  // leaves out what other drives of this map list; null: nothing
  };
  void list(ListRequest request, ListView view, Done<Reply> done);
  void verify(VerifyRequest request, Done<Reply> done);
  // Ends verifying; the workers are stopped by their owner.
  void stop() { verifiers_.stop(); }

 private:
  using Name = std::pair<DriveId, std::string>;
  struct Incoming {
    Mutex mutex;  // one append at a time
    std::unique_ptr<store::Writer> writer MR_GUARDED_BY(mutex);
    uint64_t bytes MR_GUARDED_BY(mutex) = 0;
    std::atomic<uint64_t> last_us = 0;
  };

  void run(std::function<Result<Reply>()> work, Done<Reply> done);
  Result<Reply> append_now(const AppendRequest& request);
  Status finish_now(const FinishRequest& request);
  Result<Reply> read_now(const ReadRequest& request);
  Result<Reply> list_now(const ListRequest& request, const ListView& view);
  Result<Reply> verify_now(const VerifyRequest& request);
  VerifyReply verify_slice(const VerifyRequest& request, const store::Record& record);
  Result<std::shared_ptr<Incoming>> begin(const AppendRequest& request, const Name& name);
  std::shared_ptr<Incoming> find(const Name& name);
  void forget_silent(uint64_t now) MR_REQUIRES(mutex_);

  store::Slices& slices_;
  Workers& workers_;
  Blocks blocks_;  // for what is read
  const Enter enter_;
  Mutex mutex_;
  std::map<Name, std::shared_ptr<Incoming>> incoming_ MR_GUARDED_BY(mutex_);
  Workers verifiers_{kVerifyThreads, kMostVerifying};  // last: its work uses all of the above
};

}  // namespace millrace::cluster
