// Registry, member, strand, peers, objects: made one after the other, and ended in reverse.
#include "node/cluster_part.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "cluster/hidden_bucket.h"
#include "cluster/open_registry.h"
#include "net/client_tls.h"
#include "node/keys.h"
#include "store/reasons.h"

namespace millrace::node {

namespace {

using namespace std::chrono_literals;

constexpr auto kJoinPatience = 30s;
// For a map that was changed elsewhere; less than a RefreshRequest is waited for.
constexpr auto kLongestAdoption = 1500ms;

std::string identity_path(const Config& config) {
  return config.data + "/cluster.json";
}

// Which cluster the node's directory belongs to; empty: none yet.
Result<std::string> load_cluster(const Config& config) {
  if (!file_exists(identity_path(config))) return std::string();
  constexpr uint64_t kMostBytes = 4096;
  const auto json =
      nlohmann::json::parse(MR_TRY(read_file(identity_path(config), kMostBytes)), nullptr, false);
  if (!json.is_object() || !json.value("cluster", nlohmann::json()).is_string())
    return make_error(Code::kCorrupt, "{} does not name a cluster", identity_path(config));
  return json["cluster"].get<std::string>();
}

// How long each kind of message is waited for. A home waits for its holders; large slices for a drive.
Result<cluster::HttpPeersOptions> peer_options(const Config& config, Blocks blocks) {
  cluster::HttpPeersOptions options;
  options.tls = MR_TRY(net::ClientTls::make(net::Verify::kPeer, config.tls_ca));
  options.blocks = std::move(blocks);
  const auto set = [&](const cluster::Request& kind, std::chrono::microseconds time) {
    options.timeouts_us[kind.index()] = static_cast<uint64_t>(time.count());
  };
  set(cluster::StateRequest{}, 2s);
  set(cluster::MarkRequest{}, 2s);
  set(cluster::CommitRequest{}, 15s);
  set(cluster::FindRequest{}, 15s);
  set(cluster::AppendRequest{}, 30s);
  set(cluster::FinishRequest{}, 60s);
  set(cluster::ReadRequest{}, 3s);
  set(cluster::ListRequest{}, 15s);
  set(cluster::RefreshRequest{}, 2s);
  set(cluster::MendRequest{}, 600s);
  set(cluster::CompareRequest{}, 30s);
  set(cluster::ProgressRequest{}, 1s);
  set(cluster::VerifyRequest{}, 60s);
  return options;
}

}  // namespace

Status check_alone(const Config& config) {
  const std::string cluster = MR_TRY(load_cluster(config));
  if (cluster.empty()) return {};
  return make_error(Code::kInvalid, "{} belongs to a node of cluster {}", config.data, cluster)
      .with_hint("give the cluster's --registry, or another --data");
}

std::function<bool(const std::string& drive)> adoption_by(const Config& config) {
  if (config.registry.empty()) return {};
  const auto judge = [address = config.registry, ca = config.tls_ca](const std::string& id) -> Result<bool> {
    const auto registry = MR_TRY(cluster::open_registry(address, {ca}));
    const auto known = MR_TRY(cluster::read_map(*registry));
    if (!known) return false;
    const cluster::MapNode* const owner = known->map->node_of(hash64(id));
    if (owner == nullptr || owner->state == cluster::NodeState::kGone) return false;
    const auto drive = std::ranges::find(owner->drives, id, &cluster::MapDrive::id);
    if (drive == owner->drives.end() || drive->state == cluster::DriveStanding::kGone) return false;
    const bool lives = MR_TRY(cluster::has_session(*registry, owner->id));
    return !lives || drive->state == cluster::DriveStanding::kAway;
  };
  return [judge](const std::string& id) {
    const Result<bool> may = judge(id);
    return may && *may;
  };
}

class ClusterPart::NodeMembership final : public cluster::Membership {
 public:
  NodeMembership(cluster::Member& member, const cluster::ClusterBuckets& buckets)
      : member_(member), buckets_(buckets) {}
  uint32_t self() const override { return member_.self(); }
  std::shared_ptr<const cluster::Maps> maps() const override { return member_.maps(); }
  bool has_lease() const override { return member_.has_lease(); }
  void look_again() override { member_.look_again(); }
  Result<store::Redundancy> redundancy(const std::string& bucket) const override {
    const auto found = buckets_.find(cluster::real_bucket(bucket));
    if (found == nullptr) return store::no_such_bucket(bucket);
    return found->settings.redundancy;
  }
  bool is_closing(const std::string& bucket) const override {
    const auto found = buckets_.find(cluster::real_bucket(bucket));
    return found != nullptr && found->closing;
  }
  void note_walked(cluster::Walked walked) override { member_.note_walked(walked); }

 private:
  cluster::Member& member_;
  const cluster::ClusterBuckets& buckets_;
};

ClusterPart::ClusterPart(const Config& config, store::LocalStore& store, Log& log)
    : config_(config),
      store_(store),
      log_(log),
      workers_(static_cast<unsigned>(config.workers)),
      callers_(static_cast<unsigned>(config.workers)) {}

Result<std::unique_ptr<ClusterPart>> ClusterPart::start(const Config& config, store::LocalStore& store,
                                                        Log& log, const Keys& keys) {
  std::unique_ptr<ClusterPart> part(new ClusterPart(config, store, log));
  if (const auto own = store.objects().buckets(); !own.empty()) {
    return make_error(Code::kInvalid, "{} holds bucket {} of a node alone, which a cluster does not see",
                      config.data, own.front()->name)
        .with_hint(
            "join with an empty --data, then copy: millrace cp from this node, started without --registry");
  }
  MR_TRY(store.slices().prepare());
  part->registry_ = MR_TRY(cluster::open_registry(config.registry, {config.tls_ca}));
  MR_TRY(part->bring_keys(keys).within("the keys of the cluster at " +
                                       cluster::shown_registry(config.registry)));
  MR_TRY(part->join());
  MR_TRY(part->wire());
  return part;
}

std::vector<cluster::MapDrive> ClusterPart::own_drives() const {
  std::vector<cluster::MapDrive> drives;
  for (const store::Slices::OwnDrive& drive : store_.slices().drives()) {
    if (!drive.in_service && !drive.draining) continue;
    drives.push_back({drive.id, drive.weight,
                      drive.draining ? cluster::DriveStanding::kDraining : cluster::DriveStanding::kServing,
                      drive.nearly_full});
  }
  for (std::string& id : store_.slices().removed_drives())
    drives.push_back({std::move(id), 1.0, cluster::DriveStanding::kGone});
  return drives;
}

void ClusterPart::forget_given_away() {
  if (store_.drives().readiness().missing.empty()) return;
  const auto map = member_->map();
  for (const store::DriveStatus& drive : store_.drives().status()) {
    if (drive.state != store::DriveState::kMissing) continue;
    const cluster::MapNode* const owner = map->node_of(hash64(drive.id));
    if (owner == nullptr || owner->number == member_->self()) continue;
    if (const Status forgotten = store_.drives().forget(drive.id); forgotten)
      log_.info("a drive is another node's now", "drive", drive.id, "node", owner->number);
  }
}

Status ClusterPart::bring_keys(const Keys& keys) {
  keys_ = std::make_unique<ClusterKeys>(*registry_);
  const bool is_new = MR_TRY(load_cluster(config_)).empty();
  const auto standing = is_new ? ClusterKeys::Standing::kNew : ClusterKeys::Standing::kMember;
  MR_TRY(keys_->begin(*keys.own, standing, keys.check));
  if (!keys.own->empty() && encode_keys(*keys.own) != encode_keys(*keys_->current()))
    log_.info("the keys of the cluster count, the node's own key file does not", "file",
              key_file_path(config_.data));
  return {};
}

Status ClusterPart::refresh() {
  MR_TRY(buckets_->refresh());
  MR_TRY(keys_->refresh());
  const auto newest = MR_TRY(cluster::read_map(*registry_));
  if (newest) wait_for_epoch(newest->map->epoch());
  return {};
}

// Whoever changed the map waits for this node; a write that comes next finds all nodes in the same epoch.
void ClusterPart::wait_for_epoch(uint32_t epoch) {
  const auto until = std::chrono::steady_clock::now() + kLongestAdoption;
  while (member_->maps()->back()->epoch() < epoch && std::chrono::steady_clock::now() < until) {
    member_->look_again();
    std::this_thread::sleep_for(5ms);
  }
}

Status ClusterPart::join() {
  buckets_ = std::make_unique<cluster::ClusterBuckets>(*registry_);
  cluster::MemberOptions options;
  options.node = store_.node_id();
  options.address = config_.advertise.empty() ? config_.listen : config_.advertise;
  options.tls = !config_.tls_cert.empty();
  options.zone = config_.zone;
  options.lease = std::chrono::seconds(config_.lease_seconds);
  options.drives = own_drives();
  options.cluster = MR_TRY(load_cluster(config_));
  options.token = config_.join;
  options.admission =
      config_.registry.starts_with("etcd") ? cluster::Admission::kToken : cluster::Admission::kOpen;
  cluster::MemberSurroundings around = cluster::MemberSurroundings::real();
  around.wake = [this] { threads_.wake(); };
  member_ = std::make_unique<cluster::Member>(*registry_, options, around, [this](const cluster::Maps& maps) {
    log_.info("the map changed", "epoch", maps.back()->epoch());
    if (cluster_) cluster_->adopt_map();
  });
  threads_.start(*member_);
  return wait_for_place();
}

Status ClusterPart::wait_for_place() {
  const auto limit = std::chrono::steady_clock::now() + kJoinPatience;
  while (member_->self() == 0 || member_->maps() == nullptr || !member_->has_lease()) {
    auto problem = member_->problem();
    const bool hopeless =
        problem && problem->code() != Code::kUnavailable && problem->code() != Code::kExists;
    if (hopeless || std::chrono::steady_clock::now() > limit) {
      threads_.stop();
      Error why = problem ? std::move(*problem)
                          : make_error(Code::kUnavailable, "the registry did not answer in time");
      return std::move(why).within("joining the cluster at " + cluster::shown_registry(config_.registry));
    }
    std::this_thread::sleep_for(20ms);
  }
  const nlohmann::json identity = {{"cluster", member_->identity()->id}};
  return write_file_atomically(identity_path(config_), identity.dump() + "\n");
}

Status ClusterPart::wire() {
  MR_TRY(buckets_->refresh());
  membership_ = std::make_unique<NodeMembership>(*member_, *buckets_);
  strand_ = std::make_unique<cluster::LoopStrand>();
  const uint64_t keep_replaced_us = config_.keep_replaced_seconds * 1'000'000;
  shelf_ = MR_TRY(cluster::SliceShelf::open(*strand_, store_.slices(), workers_,
                                            {config_.data + "/promised", keep_replaced_us}));
  const auto identity = member_->identity();
  const cluster::PeerSecret secret = MR_TRY(cluster::PeerSecret::make(identity->id, identity->secret));
  const Blocks blocks;
  peers_ = std::make_unique<cluster::HttpPeers>(
      *strand_, *membership_, secret,
      [this](cluster::Request request, store::Done<cluster::Reply> done) {
        cluster_->handle(std::move(request), std::move(done));
      },
      MR_TRY(peer_options(config_, blocks)));
  cluster_ =
      std::make_unique<cluster::Cluster>(cluster::Surroundings{*strand_, *peers_, *membership_, *shelf_},
                                         store_.slices(), workers_, blocks, [this] { return refresh(); });
  sweep_ = std::make_unique<cluster::HiddenSweep>(*cluster_, *buckets_, log_, keep_replaced_us);
  cluster_->on_replaced(
      [this](const cluster::ObjectName& name, const store::Record& old) { sweep_->look_after(name, old); });
  objects_ = std::make_unique<cluster::ClusterObjects>(
      cluster::ClusterObjects::Links{*cluster_, *buckets_, callers_, *sweep_, store_.memory(),
                                     [this](uint32_t node) { return !peers_->is_grey(node); }});
  service_ = std::make_unique<cluster::PeerService>(
      secret, member_->self(), store_.memory().documents,
      [this](cluster::Request request, store::Done<cluster::Reply> done) {
        cluster_->handle(std::move(request), std::move(done));
      },
      blocks);
  reader_.start(60s, [this] {
    if (const Status read = refresh(); !read)
      log_.warn("buckets and keys cannot be read from the registry", "error", read.error().message());
  });
  bucket_watch_ = registry_->watch("buckets/", [this] { reader_.wake(); });
  key_watch_ = registry_->watch(std::string(kKeysEntry), [this] { reader_.wake(); });
  sweep_->start();
  objects_->start();
  peers_->start_pings();
  cluster_->start_repairing(log_);
  cluster_->start_walking(
      {}, {config_.heal_after_seconds * 1'000'000, static_cast<double>(config_.heal_share_percent) / 100.0});
  drive_watch_.start(1s, [this] {
    forget_given_away();
    member_->set_drives(own_drives());
  });
  return {};
}

ClusterPart::~ClusterPart() {
  stop();
}

void ClusterPart::stop() {
  if (std::exchange(stopped_, true)) return;
  // Whoever waits for the strand is let go by its answers; then those who answer end.
  if (sweep_) sweep_->stop();
  if (objects_) objects_->stop();
  if (cluster_) cluster_->stop_building();
  callers_.stop();
  workers_.stop();
  bucket_watch_.reset();
  key_watch_.reset();
  reader_.stop();
  leave();
  if (strand_) strand_->stop();
}

size_t ClusterPart::count_serving() const {
  const auto map = member_->map();
  return static_cast<size_t>(std::ranges::count_if(map->nodes(), &cluster::MapNode::is_alive));
}

void ClusterPart::hand_over() {
  std::promise<void> retired;
  cluster_->retire([&retired] { retired.set_value(); });
  retired.get_future().wait();
  leave();
}

void ClusterPart::leave() {
  if (std::exchange(handed_over_, true)) return;
  drive_watch_.stop();
  threads_.stop();
  if (!member_) return;
  if (const Status left = member_->leave(); !left)
    log_.warn("the others learn that this node is gone when its lease ends", "error", left.error().message());
}

}  // namespace millrace::node
