// SliceService: the messages that move bytes or go over many keys, served from this machine's drives.
//
// A large slice comes as a row of appends, each at the offset where the last one ended, and a finish; a
// sender that goes silent loses what it sent. An append that finds no write buffer waits without a thread,
// and between appends a slice holds no buffer where they are few: so any number of senders goes on, and
// whoever could give a buffer back waits for nobody. Appends, and verifying, which reads whole drives, have
// threads of their own; the workers do the rest. Any thread.
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
  static constexpr unsigned kFillThreads = 8;
  static constexpr size_t kMostFilling = 4096;  // appends that wait for a thread
  static constexpr unsigned kVerifyThreads = 2;
  static constexpr size_t kMostVerifying = 256;  // messages that wait

  // `enter` makes a durable slice known to the holder (Holder::enter, on the strand).
  using Enter = std::function<void(DriveId, ObjectName, Prepared, Done<void>)>;
  SliceService(store::Slices& slices, Workers& workers, Blocks blocks, Enter enter)
      : slices_(slices), workers_(workers), blocks_(std::move(blocks)), enter_(std::move(enter)) {}
  ~SliceService() { stop(); }

  void append(AppendRequest request, Done<Reply> done);
  void finish(FinishRequest request, Done<Reply> done);
  // Lets go of the file and the buffers of a slice that will not be finished.
  void forget(const DropRequest& request);
  // The same with slices of which nothing came for kPatienceUs.
  void forget_silent(uint64_t now_us);
  // Slices that are being written.
  size_t incoming() const;
  void read(ReadRequest request, Done<Reply> done);
  struct ListView {
    uint32_t since = 0;                  // what is older was written to a bucket that was removed
    std::shared_ptr<const Map> once_by;  // leaves out what other drives of this map list; null: nothing
  };
  void list(ListRequest request, ListView view, Done<Reply> done);
  void verify(VerifyRequest request, Done<Reply> done);
  // Ends verifying and appending; the workers are stopped by their owner.
  void stop();

 private:
  using Name = std::pair<DriveId, std::string>;
  struct Incoming {
    std::unique_ptr<store::Writer> writer;  // of the append under way, or of the finish
    std::atomic<uint64_t> last_us = 0;
    Mutex mutex;
    bool appending MR_GUARDED_BY(mutex) = false;
    uint64_t bytes MR_GUARDED_BY(mutex) = 0;
  };
  using IncomingPointer = std::shared_ptr<Incoming>;
  // An append under way.
  struct Filling {
    AppendRequest request;
    Done<Reply> done;
    IncomingPointer incoming = nullptr;
    size_t filled = 0;
  };

  void run(std::function<Result<Reply>()> work, Done<Reply> done);
  static Name name_of(const AppendRequest& request);
  static Name name_of(DriveId drive, const store::Spread& spread);
  void fill(const std::shared_ptr<Filling>& filling);
  void fill_later(const std::shared_ptr<Filling>& filling);
  void end(Filling& filling, Status status);
  Result<IncomingPointer> claim(const AppendRequest& request);
  Result<IncomingPointer> take_whole(const FinishRequest& request);
  void let_go(IncomingPointer incoming);
  Result<Reply> read_now(const ReadRequest& request);
  Result<Reply> list_now(const ListRequest& request, const ListView& view);
  Result<Reply> verify_now(const VerifyRequest& request);
  VerifyReply verify_slice(const VerifyRequest& request, const store::Record& record);
  Result<IncomingPointer> begin(const AppendRequest& request, const Name& name);
  IncomingPointer find(const Name& name);

  store::Slices& slices_;
  Workers& workers_;
  Blocks blocks_;  // for what is read
  const Enter enter_;
  mutable Mutex mutex_;
  std::map<Name, IncomingPointer> incoming_ MR_GUARDED_BY(mutex_);
  // Shared: an append may get its buffer after this is gone. Last: their work uses all of the above.
  const std::shared_ptr<Workers> fillers_ = std::make_shared<Workers>(kFillThreads, kMostFilling);
  Workers verifiers_{kVerifyThreads, kMostVerifying};
};

}  // namespace millrace::cluster
