// Each request to the strand or to the workers.
#include "cluster/cluster.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/fault.h"
#include "cluster/reasons.h"
#include "cluster/slice_repair.h"
#include "cluster/slice_sweep.h"
#include "net/digest.h"
#include "store/on_workers.h"

namespace millrace::cluster {

Cluster::Cluster(Surroundings around, store::Slices& slices, Workers& workers, Blocks blocks,
                 std::function<Status()> refresh)
    : around_(around),
      slices_(slices),
      workers_(workers),
      blocks_(std::move(blocks)),
      refresh_(std::move(refresh)),
      protocol_(around),
      service_(slices, workers, blocks_,
               [this](DriveId drive, ObjectName name, Prepared slice, Done<void> done) {
                 around_.strand.post([this, drive, name, slice, done] {
                   protocol_.holder().enter(drive, name, slice, done);
                 });
               }),
      builder_(*this) {}

Cluster::~Cluster() = default;

void Cluster::start_repairing(Log& log) {
  repair_ = std::make_unique<SliceRepair>(*this, log);
  repair_->start();
  sweep_ = std::make_unique<SliceSweep>(slices_, log);
  sweep_->start();
}

void Cluster::start_walking(const WalkerOptions& options, const Healing& healing) {
  heal_pace_.set_share(healing.share);
  MenderOptions mending;
  mending.grace_us = healing.grace_us;
  mending.rest_us = [this](uint64_t took_us) { return heal_pace_.rest_us(took_us); };
  around_.strand.post([this, options, mending] {
    protocol_.mender().set_builder(builder_, mending);
    protocol_.mender().adopt_map();
    protocol_.walker().start(options);
    forget_silent();
  });
}

void Cluster::forget_silent() {
  constexpr uint64_t kLookUs = 60'000'000;
  service_.forget_silent(steady_us());
  around_.strand.after(kLookUs, [this] { forget_silent(); });
}

void Cluster::stop_building() {
  builder_.give_up();
  if (repair_) repair_->stop();
  if (sweep_) sweep_->stop();
  builder_.stop();
  service_.stop();
}

void Cluster::rebuild(SliceBuilder::Order order, Done<uint64_t> done) {
  builder_.build(std::move(order), std::move(done));
}

bool Cluster::ask_to_mend(const ObjectName& name) {
  const auto map = around_.membership.maps()->back();
  const uint32_t home = map->home(name_hash(name.bucket, name.key));
  if (home == 0) return false;
  if (mends_.fetch_add(1) >= kMostMends) {
    --mends_;
    return false;
  }
  call(home, MendRequest{map->epoch(), name, 0}, [this](Result<Reply>) { --mends_; });
  return true;
}

void Cluster::handle(Request request, Done<Reply> done) {
  if (auto* append = std::get_if<AppendRequest>(&request))
    return service_.append(std::move(*append), std::move(done));
  if (auto* finish = std::get_if<FinishRequest>(&request))
    return service_.finish(std::move(*finish), std::move(done));
  if (auto* read = std::get_if<ReadRequest>(&request))
    return service_.read(std::move(*read), std::move(done));
  if (auto* list = std::get_if<ListRequest>(&request)) {
    if (Status acts = check_list(*list); !acts) return done(acts.take_error());
    SliceService::ListView view;
    if (const auto made = around_.membership.redundancy(list->bucket)) view.since = made->since;
    const auto map = around_.membership.maps()->back();
    if (list->once && map->epoch() == list->epoch) view.once_by = map;
    return service_.list(std::move(*list), std::move(view), std::move(done));
  }
  if (auto* verify = std::get_if<VerifyRequest>(&request))
    return service_.verify(std::move(*verify), std::move(done));
  if (std::holds_alternative<ProgressRequest>(request)) return done(Reply(ProgressReply{progress()}));
  if (std::holds_alternative<RefreshRequest>(request)) {
    return store::run_on<Reply>(
        workers_,
        [this]() -> Result<Reply> {
          MR_TRY(refresh_());
          return Reply(DoneReply{});
        },
        std::move(done));
  }
  if (const auto* drop = std::get_if<DropRequest>(&request)) service_.forget(*drop);
  const auto shared = std::make_shared<Request>(std::move(request));
  around_.strand.post([this, shared, done = std::move(done)]() mutable {
    protocol_.handle(std::move(*shared), std::move(done));
  });
}

Progress Cluster::progress() const {
  Progress progress = protocol_.walker().progress();
  protocol_.mender().add_counts(progress);
  if (repair_) {
    progress.damaged = repair_->waiting();
    progress.repaired = repair_->repaired();
  }
  return progress;
}

Status Cluster::check_list(const ListRequest& request) const {
  const auto maps = around_.membership.maps();
  const uint32_t known = std::max(maps->back()->epoch(), around_.shelf.promised());
  if (request.epoch < known)
    return make_error(kOldEpoch, "epoch {} is over, {} has begun", request.epoch, known);
  if (!around_.membership.has_lease()) return make_error(kNotHome, "this node has lost its lease");
  return {};
}

void Cluster::call(uint32_t node, Request request, Done<Reply> done) {
  if (node == around_.membership.self()) return handle(std::move(request), std::move(done));
  const auto shared = std::make_shared<Request>(std::move(request));
  around_.strand.post([this, node, shared, done = std::move(done)]() mutable {
    around_.peers.call(node, std::move(*shared), std::move(done));
  });
}

void Cluster::adopt_map() {
  around_.strand.post([this] { protocol_.adopt_map(); });
}

void Cluster::retire(std::function<void()> done) {
  around_.strand.post([this, done = std::move(done)] {
    protocol_.home().retire();
    wait_for_commits(around_.strand.now_us() + kRetireUs, done);
  });
}

void Cluster::wait_for_commits(uint64_t until_us, std::function<void()> done) {
  constexpr uint64_t kLookUs = 5'000;
  if (protocol_.home().is_idle() || around_.strand.now_us() >= until_us) return done();
  around_.strand.after(kLookUs,
                       [this, until_us, done = std::move(done)] { wait_for_commits(until_us, done); });
}

void Cluster::on_replaced(Home::Replaced replaced) {
  around_.strand.post([this, replaced = std::move(replaced)] { protocol_.home().on_replaced(replaced); });
}

void Cluster::find(ObjectName name, Done<std::optional<FoundObject>> done) {
  around_.strand.post([this, name = std::move(name), done = std::move(done)]() mutable {
    protocol_.requester().find(std::move(name), std::move(done));
  });
}

void Cluster::put(CommitRequest request, std::vector<std::string> slices, Done<store::Record> done) {
  around_.strand.post(
      [this, request = std::move(request), slices = std::move(slices), done = std::move(done)]() mutable {
        protocol_.requester().put(std::move(request), std::move(slices), std::move(done));
      });
}

void Cluster::commit(CommitRequest request, Done<std::optional<store::Record>> done) {
  around_.strand.post([this, request = std::move(request), done = std::move(done)]() mutable {
    protocol_.requester().commit(std::move(request), std::move(done));
  });
}

void Cluster::drop(ObjectName name, store::Spread spread) {
  around_.strand.post([this, name = std::move(name), spread = std::move(spread)] {
    protocol_.requester().drop(name, spread);
  });
}

Result<store::Spread> Cluster::choose_spread(const ObjectName& name, Requester::Size size) const {
  store::Spread spread = MR_TRY(protocol_.requester().choose_spread(name, size));
  spread.write_id = net::random_bytes(store::kWriteIdBytes);
  if (broken("mixed-writes")) spread.write_id.assign(store::kWriteIdBytes, 'x');
  return spread;
}

uint32_t Cluster::node_of(DriveId drive) const {
  const auto maps = around_.membership.maps();
  const MapNode* node = maps->back()->node_of(drive);
  return node == nullptr ? 0 : node->number;
}

bool Cluster::is_prompt(DriveId drive) const {
  const auto maps = around_.membership.maps();
  const MapNode* node = maps->back()->node_of(drive);
  return node != nullptr && maps->back()->is_alive(drive) && !around_.peers.is_grey(node->number) &&
         !read_counts_.drives.is_grey(drive, steady_us());
}

}  // namespace millrace::cluster
