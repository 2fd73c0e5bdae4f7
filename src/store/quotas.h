// Quotas: how much buckets with a quota hold, and who may still write to them.
//
// What a bucket holds is counted by listing it, on the one thread of this class. Between two counts, what is
// written here is added, and what is removed or replaced is not taken off: so the sum is never too low for
// what this process did. A write for which the sum leaves no room waits for a new count.
//
// Other nodes may write, too. Then a count is good for a while only, and each node takes at most its share of
// what was free at the count. A write that needs more waits for a count of its own. So nodes together exceed
// a quota by no more than what others wrote since this node's last count (docs/guide/cluster.md).
//
// Any thread. Nothing blocks but stop(). The objects outlive stop(); grants may outlive this.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/background.h"
#include "base/result.h"
#include "store/objects.h"

namespace millrace::store {

// What objects take of a quota.
struct Use {
  uint64_t bytes = 0;
  uint64_t objects = 0;
  bool operator==(const Use&) const = default;
};

class Quotas {
  struct Book;
  struct Tally;
  struct Waiting;

 public:
  // Others that take writes besides this process, and the time; both never block.
  struct Surroundings {
    std::function<size_t()> nodes;     // with this one
    std::function<uint64_t()> now_us;  // steady
  };
  Quotas(Objects& objects, Surroundings around);
  ~Quotas();
  Quotas(const Quotas&) = delete;
  Quotas& operator=(const Quotas&) = delete;
  // Whoever waits for a count is told that it is over.
  void stop();

  // Room for one write. Given back when it goes, unless the write happened.
  class Grant {
   public:
    Grant(std::shared_ptr<Book> book, std::string bucket, Use use);
    ~Grant();
    Grant(const Grant&) = delete;
    Grant& operator=(const Grant&) = delete;
    // Before anyone is told: whoever writes next finds it counted once.
    void note_written();

   private:
    const std::shared_ptr<Book> book_;
    const std::string bucket_;
    const Use use_;
    bool ended_ = false;
  };
  using GrantPointer = std::shared_ptr<Grant>;

  // At once, where there is room without a doubt. Nothing: ask take().
  GrantPointer try_take(const Bucket& bucket, uint64_t bytes);
  // For an object of this key and size, which may replace another one. kQuotaExceeded where there is no room;
  // kUnavailable while nobody can count.
  void take(const std::shared_ptr<const Bucket>& bucket, const std::string& key, uint64_t bytes,
            Done<GrantPointer> done);
  // try_take(), or else take().
  void ask(const std::shared_ptr<const Bucket>& bucket, const std::string& key, uint64_t bytes,
           Done<GrantPointer> done);
  // Something was removed.
  void note_removed(const std::string& bucket);

  // As far as it is known here; nothing before the first count.
  std::optional<Use> find_use(const Bucket& bucket) const;
  uint64_t refused() const;

  // So long a count is good for a share, or so many times as long as it took.
  static constexpr uint64_t kShareUs = 10'000'000;
  static constexpr uint64_t kShareTimes = 20;
  // A count begins no sooner than so many times as long as the last one took.
  static constexpr uint64_t kRestTimes = 5;
  // For one write, while others are written at the same time.
  static constexpr unsigned kMostCounts = 4;

 private:
  void count_all();
  void count(const std::string& bucket);
  Result<Use> list_all(const std::string& bucket);

  Objects& objects_;
  const std::shared_ptr<Book> book_;
  Background counter_;
};

// Of a write that its bucket has no room for.
Error quota_exceeded(const Bucket& bucket, Use use);

}  // namespace millrace::store
