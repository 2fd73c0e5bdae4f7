// Cluster: one node's part in a cluster, put together: its protocol on the strand, its slices, its peers.
//
// Requests of peers come in by handle(), requests to peers go out by call(). Both from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/blocks.h"
#include "base/buffer.h"
#include "base/log.h"
#include "base/workers.h"
#include "cluster/answer_times.h"
#include "cluster/heal_pace.h"
#include "cluster/message.h"
#include "cluster/peers.h"
#include "cluster/protocol.h"
#include "cluster/slice_builder.h"
#include "cluster/slice_service.h"
#include "cluster/usual_time.h"
#include "store/slices.h"

namespace millrace::cluster {

// Reads of objects whose bytes came from other nodes, or had to be computed or read from another copy.
struct ReadCounts {
  std::atomic<uint64_t> relayed = 0;
  std::atomic<uint64_t> degraded = 0;
  std::atomic<uint64_t> hedged = 0;  // stretches for which other slices were read because a holder was slow
  UsualTime slices{20'000};          // that a holder takes for a stretch of its slice
  AnswerTimes drives{{2'000'000, 100'000}};  // the same by drive, this node's own too
};

// What PUTs under way may hold: the cells that they fill, and those that are on their way to holders.
struct StripeMemory {
  Budget budget{256 << 20};
  std::atomic<size_t> waiting = 0;  // PUTs that have to wait for theirs
};

class SliceRepair;
class SliceSweep;

class Cluster {
 public:
  // All of them outlive it; `workers` wait for drives. `refresh` reads buckets and settings again; it blocks.
  Cluster(Surroundings around, store::Slices& slices, Workers& workers, Blocks blocks,
          std::function<Status()> refresh);
  ~Cluster();

  void handle(Request request, Done<Reply> done);
  // `done` on the strand, or on a worker where this node answers itself.
  void call(uint32_t node, Request request, Done<Reply> done);
  // The map changed.
  void adopt_map();
  // Before the node leaves: it is nobody's home any more, and commits under way end. `done` once, on the
  // strand; nothing waits longer than so long.
  static constexpr uint64_t kRetireUs = 2'000'000;
  void retire(std::function<void()> done);
  // See Home::on_replaced; called on the strand.
  void on_replaced(Home::Replaced replaced);
  // On the strand.
  void after(uint64_t us, std::function<void()> work) { around_.strand.after(us, std::move(work)); }

  // The requester's calls, from any thread; `done` on the strand.
  void find(ObjectName name, Done<std::optional<FoundObject>> done);
  void put(CommitRequest request, std::vector<std::string> slices, Done<store::Record> done);
  void commit(CommitRequest request, Done<std::optional<store::Record>> done);
  void drop(ObjectName name, store::Spread spread);
  Result<store::Spread> choose_spread(const ObjectName& name, Requester::Size size) const;

  // Begins to heal, move and tidy. A drive that is away is waited for; `share`: of the time, for making
  // slices.
  struct Healing {
    uint64_t grace_us = MenderOptions().grace_us;
    double share = 1.0;
  };
  void start_walking(const WalkerOptions& options, const Healing& healing);
  // Begins to make slices again that are found damaged, and to remove those of earlier runs that nobody
  // needs. Before start_walking().
  void start_repairing(Log& log);
  // Slices that are being made are given up, and nothing is verified any more.
  void stop_building();
  // Makes a slice again, in the place of one that is missing or damaged. `done` on the strand.
  void rebuild(SliceBuilder::Order order, Done<uint64_t> done);
  // Has the home of the key see that every holder has its slice and its mark; nobody waits for that. False:
  // kMostMends are under way, or there is no home. Then a walk finds the key.
  static constexpr size_t kMostMends = 8;
  bool ask_to_mend(const ObjectName& name);
  // What this node's walks found and mended, and what was repaired.
  Progress progress() const;
  // Null before start_repairing().
  const SliceRepair* repairs() const { return repair_.get(); }
  // Work that a builder finished, on the strand.
  void post(std::function<void()> work) { around_.strand.post(std::move(work)); }

  const Membership& membership() const { return around_.membership; }
  store::Slices& slices() { return slices_; }
  Workers& workers() { return workers_; }
  ReadCounts& read_counts() { return read_counts_; }
  // Whoever serves clients notes them; whoever makes slices asks.
  HealPace& heal_pace() { return heal_pace_; }
  // For bytes on their way.
  Blocks& blocks() { return blocks_; }
  // Shared: the last answer to a PUT may be let go after this.
  const std::shared_ptr<StripeMemory>& stripe_memory() const { return stripe_memory_; }
  // For cells that degraded reads keep; where it is used up, they ask for cells again.
  const std::shared_ptr<Budget>& cell_memory() const { return cell_memory_; }
  // For stretches that come from other nodes, until they are sent on.
  const std::shared_ptr<Budget>& read_memory() const { return read_memory_; }
  // The node that has this drive, by the newest map; 0: none.
  uint32_t node_of(DriveId drive) const;
  // It serves, by the newest map.
  bool is_alive(DriveId drive) const { return around_.membership.maps()->back()->is_alive(drive); }
  // And neither its node nor itself answers much later than others do.
  bool is_prompt(DriveId drive) const;
  bool is_own(DriveId drive) const { return node_of(drive) == around_.membership.self(); }

 private:
  // From time to time, on the strand.
  void forget_silent();
  void wait_for_commits(uint64_t until_us, std::function<void()> done);
  // Whoever lists by an old map does not ask the nodes that know of newer writes.
  Status check_list(const ListRequest& request) const;

  Surroundings around_;
  store::Slices& slices_;
  Workers& workers_;
  Blocks blocks_;
  const std::function<Status()> refresh_;
  ReadCounts read_counts_;
  HealPace heal_pace_;
  std::atomic<size_t> mends_ = 0;  // that ask_to_mend() began and that were not answered
  const std::shared_ptr<Budget> cell_memory_ = std::make_shared<Budget>(128 << 20);
  const std::shared_ptr<Budget> read_memory_ = std::make_shared<Budget>(256 << 20);
  const std::shared_ptr<StripeMemory> stripe_memory_ = std::make_shared<StripeMemory>();
  Protocol protocol_;
  SliceService service_;
  ClusterSliceBuilder builder_;
  std::unique_ptr<SliceRepair> repair_;
  std::unique_ptr<SliceSweep> sweep_;
};

}  // namespace millrace::cluster
