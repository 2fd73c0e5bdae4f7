// Fetch: one version of one object on its way from the upstream: stored once, followed by all who read it.
//
// The object comes in stretches, several at a time where the upstream gives parts of objects. Whoever reads
// waits for the block that holds his bytes, and gets them as they arrive. A stretch that somebody waits for
// and that is not near comes at once, before its turn. Bytes go to the writer in their order; the object
// appears when all of them are there and have the checksum that the upstream named, or not at all. A fetch
// never waits for a reader: one who falls behind reads what is stored, or has the stretch fetched once more.
//
// Where it cannot be stored (no drive has room), only what somebody waits for is fetched, and given.
//
// A reader of the whole object does not get its last block before the checksum was compared: of a damaged
// object he sees a cut answer.
//
// Any thread. Its work runs on the workers; it keeps itself alive until that has ended.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "base/workers.h"
#include "store/objects.h"
#include "upstream/checksums.h"
#include "upstream/fetch_memory.h"

namespace millrace::upstream {

// Where the bytes of one version of an object come from. Calls block; any thread.
class Source {
 public:
  class Stream {
   public:
    virtual ~Stream() = default;
    virtual Result<size_t> read_some(std::span<std::byte> into) = 0;
  };
  virtual ~Source() = default;
  virtual Result<std::unique_ptr<Stream>> open(uint64_t offset, uint64_t size) = 0;
  // When all bytes have come: whether they can be of one version.
  virtual Status check_unchanged() = 0;
  // What whoever reads is told of bytes that are not what they should be.
  virtual Error told(Error why) { return why; }
};

enum class Parts : uint8_t { kNone, kRanges };

struct FetchPlan {
  uint64_t size = 0;
  Parts parts = Parts::kRanges;
  std::optional<Checksum> checksum;
  store::Finish finish;
  // Who was stored meanwhile by somebody else, where the writer's condition did not hold.
  std::function<void(store::Done<store::ObjectPointer>)> find_winner;
};

class Fetch final : public FetchMemory::Holder, public std::enable_shared_from_this<Fetch> {
 public:
  static constexpr uint64_t kStretch = 8 << 20;
  static constexpr size_t kStreams = 6;
  // Those that fetch in order; the others are for what somebody waits for.
  static constexpr size_t kStreamsAhead = 4;
  static constexpr uint64_t kAhead = 12 * kStretch;  // of the front, where nobody asks for it

  struct Surroundings {
    Workers& workers;  // outlive its beginning and its end
    std::shared_ptr<FetchMemory> memory;
  };
  // What the object became, or why it did not; called once.
  using Ended = std::function<void(Result<store::ObjectPointer>)>;

  Fetch(Surroundings around, FetchPlan plan, std::shared_ptr<Source> source);

  // Begins, once. Readers may wait before it.
  void start(Result<std::unique_ptr<store::Writer>> writer, Ended ended);
  void fail(const Error& why);

  struct Wanted {
    uint64_t offset = 0;
    uint64_t size = 0;
    bool whole = false;  // the reader began at the first byte and wants them all
  };
  // Bytes that are in memory, at least one.
  std::optional<store::Extent> find(const Wanted& wanted);
  // The same, when they are. Nothing: the object is stored, and they are to be read there.
  using Arrived = std::function<void(Result<std::optional<store::Extent>>)>;
  void wait(const Wanted& wanted, Arrived arrived);

  // Once it is stored.
  store::ObjectPointer stored() const;
  // When it has ended; at once if it has.
  void when_ended(Ended ended);
  uint64_t bytes_written() const;

  void drop(uint64_t bytes) override;

 private:
  struct Slot {
    std::shared_ptr<FetchMemory::Memory> memory;
    size_t filled = 0;
    uint64_t touched = 0;
  };
  struct Stretch {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t reached = 0;
    uint64_t promised = 0;  // bytes of memory that were set aside for it and not taken
  };
  struct Waiter {
    Wanted wanted;
    Arrived arrived;
  };
  enum class State : uint8_t { kWaiting, kRunning, kStored, kFailed };

  bool has_ended() const MR_REQUIRES(mutex_) { return state_ == State::kStored || state_ == State::kFailed; }
  size_t slot_bytes(uint64_t begin) const;
  uint64_t readable_end(const Wanted& wanted) const MR_REQUIRES(mutex_);
  std::optional<store::Extent> find_now(const Wanted& wanted) MR_REQUIRES(mutex_);
  // Whether the block is in memory or on its way.
  bool is_covered(uint64_t offset) const MR_REQUIRES(mutex_);
  // Where a stretch that begins there ends: before what is covered, and at most so many bytes on.
  uint64_t free_end(uint64_t begin, uint64_t most) const MR_REQUIRES(mutex_);
  // The number of a stretch that may begin now; it counts as running from then on.
  std::optional<uint64_t> choose_stretch() MR_REQUIRES(mutex_);
  std::optional<uint64_t> choose_wanted() MR_REQUIRES(mutex_);
  std::optional<uint64_t> choose_ahead() MR_REQUIRES(mutex_);
  uint64_t begin_stretch(uint64_t begin, uint64_t end, uint64_t promised) MR_REQUIRES(mutex_);

  void pump();
  void run(uint64_t number);
  void end_stretch(uint64_t number);
  Status receive(uint64_t number);
  std::shared_ptr<FetchMemory::Memory> memory_for(uint64_t number, uint64_t offset);
  // False: the fetch has ended meanwhile.
  bool publish(uint64_t number, uint64_t offset, size_t bytes);
  // Those whose bytes are there, or who wait in vain, with what they are told.
  using Answers = std::vector<std::function<void()>>;
  Answers take_answers() MR_REQUIRES(mutex_);
  void answer_waiters();
  // Gives the writer what has come in order.
  void write_out();
  bool write_next();
  void take_write_error(Error error);
  void go_on_unstored(Error why);
  void finish_writing();
  void take_written(Result<store::ObjectPointer> object);
  void end(Result<store::ObjectPointer> outcome);

  const Surroundings around_;
  const FetchPlan plan_;
  const std::shared_ptr<Source> source_;

  mutable Mutex mutex_;
  State state_ MR_GUARDED_BY(mutex_) = State::kWaiting;
  std::optional<Error> failure_ MR_GUARDED_BY(mutex_);  // also why it is not stored
  store::ObjectPointer stored_ MR_GUARDED_BY(mutex_);
  std::map<uint64_t, Slot> slots_ MR_GUARDED_BY(mutex_);       // by their first byte
  std::map<uint64_t, Stretch> running_ MR_GUARDED_BY(mutex_);  // by their numbers
  uint64_t last_number_ MR_GUARDED_BY(mutex_) = 0;
  std::vector<Waiter> waiters_ MR_GUARDED_BY(mutex_);
  std::vector<Ended> ended_ MR_GUARDED_BY(mutex_);
  uint64_t next_ MR_GUARDED_BY(mutex_) = 0;     // the first byte that no stretch in order has taken
  uint64_t written_ MR_GUARDED_BY(mutex_) = 0;  // bytes that the writer has
  uint64_t clock_ MR_GUARDED_BY(mutex_) = 0;
  bool verified_ MR_GUARDED_BY(mutex_) = false;
  bool writing_ MR_GUARDED_BY(mutex_) = false;  // one thread at a time has the writer
  bool unstored_ MR_GUARDED_BY(mutex_) = false;

  std::unique_ptr<store::Writer> writer_;  // of whoever set writing_
  Verifier verifier_;                      // the same
};

}  // namespace millrace::upstream
