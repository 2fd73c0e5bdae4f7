// Exchange: one rank's part in partial local shuffling: its store, its peers, one epoch after the other.
//
//   open     the rank's store as it was last committed by all; what a crash left half done is rolled forward
//            where any rank committed it, and dropped otherwise
//   begin    a thread of its own exchanges samples and prepares the next epoch, while training reads this one
//   commit   waits for it; all ranks switch to the next epoch, or none. What left is freed by the next begin
//
// Between begin and commit only that thread uses the group; otherwise only the caller. Every step that may
// fail is voted on, so an error is the same on all ranks and the epoch stays what it was. After an error of
// the transport itself (a rank that is gone or stalls) only a restart helps: open() then finds a consistent
// state.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/result.h"
#include "exchange/balance.h"
#include "exchange/group.h"
#include "exchange/ledger.h"
#include "exchange/plan.h"
#include "exchange/sample_store.h"
#include "exchange/shipment.h"

namespace millrace::exchange {

struct ExchangeOptions {
  PlanOptions plan;
  FractionSchedule fraction;
  StorageLimits limits;
  bool apart = false;  // everything is sent, also between ranks of one machine
  uint64_t timeout_ms = 60'000;
};

struct ExchangeStats {
  uint64_t epochs = 0;
  uint64_t samples_sent = 0;
  uint64_t samples_received = 0;
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  uint64_t messages = 0;
  double transfer_seconds = 0;  // moving bytes
  double prepare_seconds = 0;   // checking and flushing them
  double exposed_seconds = 0;   // that the trainer waited in commit()
  double fraction = 0;          // of the last epoch
  // Before the last exchange; none where nothing needed the labels and they were not counted.
  std::optional<LabelBalance> balance;
  uint64_t peak_bytes = 0;  // of segments on the drive
};

class Exchange {
 public:
  // The group outlives the exchange.
  static Result<std::unique_ptr<Exchange>> open(const std::string& directory, Group& group,
                                                ExchangeOptions options);
  ~Exchange();

  Status begin();
  Status commit();
  // Drops what begin() started, on all ranks: the others' commit() fails and the epoch stays. Waits for them.
  Status cancel();

  std::shared_ptr<const SampleStore> store() const { return ledger_->store(); }
  uint64_t epoch() const { return ledger_->manifest().exchanges(); }
  bool is_under_way() const { return thread_.joinable(); }
  const ExchangeStats& stats() const { return stats_; }

  // Owners and contents of all ranks, as one number each; all ranks call it. Not between begin and commit.
  struct Digest {
    uint64_t owners = 0;    // which rank holds which sample: equal to the simulation's
    uint64_t contents = 0;  // ids, labels and checksums: never changes
    uint64_t samples = 0;
  };
  Result<Digest> digest();

  // Deals the samples to the first `world` ranks anew, moving as few as possible; commits.
  Status redeal(uint32_t world);

 private:
  Exchange(std::unique_ptr<Ledger> ledger, std::unique_ptr<Group> group, ExchangeOptions options);
  Patience patience(std::string_view doing) const;
  Status recover();
  Result<RankPlan> make_plan();
  // Of the next manifest.
  struct Shape {
    uint32_t world = 1;
    uint32_t redeals = 0;
  };
  Status run(const RankPlan& plan, Shape shape);
  Result<Manifest> receive(const RankPlan& plan, Shape shape);
  std::vector<Outgoing> pack(const RankPlan& plan) const;
  Result<std::optional<StagedSegment>> make_room(Shipment& shipment, uint64_t bytes);
  Status seal(std::optional<StagedSegment>& staged, std::vector<Record>& arrivals, const RankPlan& plan,
              Manifest& next);
  Status check_arrivals(std::span<const Record> records, std::span<const std::byte> bytes) const;
  Status check_leavers(const RankPlan& plan) const;
  Status agree(const Status& own);
  Status finish();
  Status release();

  const std::unique_ptr<Ledger> ledger_;
  const std::unique_ptr<Group> own_group_;
  Group& group_;
  const ExchangeOptions options_;
  const std::shared_ptr<GatherPool> gather_pool_ = std::make_shared<GatherPool>();
  std::shared_ptr<Neighbours> neighbours_;
  std::string doing_;
  ExchangeStats stats_;
  std::jthread thread_;
  Status prepared_;
  bool release_due_ = false;  // what left in the last epoch still takes space
};

}  // namespace millrace::exchange
