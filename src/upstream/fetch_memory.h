// FetchMemory: the blocks in which bytes of upstreams lie between their arrival and whoever reads them.
//
// One limit in bytes for all fetches of a node. Blocks that are on the drive already are dropped, the longest
// unused first, before something is fetched ahead. What the front of a fetch needs is always given: a fetch
// goes on when readers are slow. So above the limit there is at most one stretch per fetch that runs, and
// one block per reader that is slow to take its bytes. Blocks keep it alive. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/blocks.h"
#include "base/bytes.h"
#include "base/mutex.h"
#include "store/record.h"

namespace millrace::upstream {

inline constexpr uint64_t kFetchBlock = store::kBlockBytes;

class FetchMemory : public std::enable_shared_from_this<FetchMemory> {
 public:
  // What can drop blocks.
  class Holder {
   public:
    virtual ~Holder() = default;
    // About so many bytes, of what can be read elsewhere.
    virtual void drop(uint64_t bytes) = 0;
  };

  explicit FetchMemory(uint64_t limit) : limit_(limit) {}

  void add(std::weak_ptr<Holder> holder);

  // Sets bytes aside for blocks that will be taken; false: there is no room now.
  bool try_promise(uint64_t bytes);
  void give_back_promise(uint64_t bytes) { promised_.fetch_sub(bytes); }
  // Has holders drop blocks until so many bytes have room. Not under a lock of a holder.
  void make_room(uint64_t bytes);

  // A block of kFetchBlock bytes, which may hold anything. It counts until nobody holds it.
  class Memory {
   public:
    explicit Memory(std::shared_ptr<FetchMemory> memory);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    std::span<std::byte> span() const { return block_.span(); }

   private:
    const std::shared_ptr<FetchMemory> memory_;
    const Block block_;
  };
  std::shared_ptr<Memory> take() { return std::make_shared<Memory>(shared_from_this()); }

  uint64_t used() const { return used_.load(); }
  uint64_t limit() const { return limit_; }

 private:
  bool has_room(uint64_t bytes) const { return used_.load() + promised_.load() + bytes <= limit_; }

  const uint64_t limit_;
  Blocks blocks_;
  std::atomic<uint64_t> used_ = 0;
  std::atomic<uint64_t> promised_ = 0;
  Mutex mutex_;
  std::vector<std::weak_ptr<Holder>> holders_ MR_GUARDED_BY(mutex_);  // the oldest first
};

}  // namespace millrace::upstream
