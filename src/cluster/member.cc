// One step after the other: who is the cluster, who am I, which map, who leads.
#include "cluster/member.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/ids.h"
#include "base/text.h"
#include "cluster/join_token.h"
#include "net/digest.h"

namespace millrace::cluster {

namespace {

using Json = nlohmann::json;

constexpr std::chrono::milliseconds kLongestPace{1000};
constexpr int kRenewalsInLease = 6;
constexpr size_t kSecretBytes = 32;
constexpr const char* kLeader = "leader";
constexpr std::string_view kLeases = "lease/";
constexpr std::string_view kWalked = "walked/";
constexpr uint64_t kQuietUs = uint64_t{6} * 3600 * 1'000'000;

std::string find_text(const Json& object, const char* name) {
  if (!object.is_object()) return {};
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Of `leader` and lease/NODE.
std::string encode_holder(const std::string& node, const std::string& process) {
  return Json{{"node", node}, {"process", process}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string process_of(const Entry& entry) {
  return find_text(Json::parse(entry.value, nullptr, false), "process");
}

std::string node_of(const Entry& entry) {
  return find_text(Json::parse(entry.value, nullptr, false), "node");
}

}  // namespace

std::string encode_identity(const ClusterIdentity& identity) {
  return Json{{"format", 1}, {"id", identity.id}, {"secret", identity.secret}}.dump();
}

Result<ClusterIdentity> decode_identity(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  ClusterIdentity identity{find_text(json, "id"), find_text(json, "secret")};
  if (identity.id.empty() || identity.secret.empty())
    return make_error(Code::kCorrupt, "the registry's \"cluster\" has no id or no secret");
  return identity;
}

Result<bool> has_session(Registry& registry, const std::string& node) {
  return MR_TRY(registry.get(std::string(kLeases) + node)).has_value();
}

MemberSurroundings MemberSurroundings::real() {
  return {// A machine that was suspended wakes without its lease.
          [] { return boot_us(); },
          [] { return millrace::wall_ms(); },
          [] { return millrace::make_id(); },
          {}};
}

Member::Member(Registry& registry, MemberOptions options, MemberSurroundings surroundings,
               std::function<void(const Maps&)> changed)
    : registry_(registry),
      options_(std::move(options)),
      surroundings_(std::move(surroundings)),
      changed_(std::move(changed)),
      drives_(options_.drives) {
  watch_ = registry_.watch("map", [this] { look_again(); });
}

Member::~Member() {
  watch_.reset();
}

std::optional<Member::Session> Member::session() const {
  const MutexLock lock(mutex_);
  return session_;
}

std::chrono::milliseconds Member::pace() const {
  return std::min(kLongestPace, options_.lease / kRenewalsInLease);
}

std::optional<uint64_t> Member::lease_age_us() const {
  const uint64_t length_us = static_cast<uint64_t>(std::chrono::microseconds(options_.lease).count());
  const uint64_t now_us = surroundings_.now_us();
  const MutexLock lock(mutex_);
  if (!session_ || session_->valid_until_us == 0) return std::nullopt;
  const uint64_t renewed_us = session_->valid_until_us - length_us;
  return now_us > renewed_us ? now_us - renewed_us : 0;
}

bool Member::has_lease() const {
  const MutexLock lock(mutex_);
  return session_ && session_->entered && session_->process == acting_process_ &&
         surroundings_.now_us() < session_->valid_until_us;
}

bool Member::is_leader() const {
  const MutexLock lock(mutex_);
  return session_ && session_->process == leading_process_ &&
         surroundings_.now_us() < session_->valid_until_us;
}

uint32_t Member::leader() const {
  if (is_leader()) return self();
  const auto known = map();
  const MutexLock lock(mutex_);
  const MapNode* const node = known ? known->find_node(leading_node_) : nullptr;
  // An entry that names this node is of a session that ended.
  return node == nullptr || node->id == options_.node ? 0 : node->number;
}

std::shared_ptr<const Map> Member::map() const {
  const auto maps = maps_.load();
  return maps ? maps->back() : nullptr;
}

std::optional<Error> Member::problem() const {
  const MutexLock lock(mutex_);
  if (!problem_) return std::nullopt;
  return problem_->copy();
}

void Member::look_again() {
  look_.store(true);
  if (surroundings_.wake) surroundings_.wake();
}

void Member::set_drives(std::vector<MapDrive> drives) {
  const MutexLock lock(mutex_);
  drives_ = std::move(drives);
}

void Member::renew() {
  const auto current = session();
  if (!current) return;
  // Before it is sent: the registry counts from its arrival, which is later.
  const uint64_t sent_us = surroundings_.now_us();
  const auto renewed = registry_.renew(current->lease);
  if (!renewed) return;  // the lease goes on until its end
  if (!*renewed) return end_session(current->lease);
  const MutexLock lock(mutex_);
  if (!session_ || session_->lease != current->lease) return;
  session_->valid_until_us =
      sent_us + static_cast<uint64_t>(std::chrono::microseconds(options_.lease).count());
}

void Member::end_session(LeaseId lease) {
  const MutexLock lock(mutex_);
  if (session_ && session_->lease == lease) session_.reset();
}

void Member::step() {
  Status done = run_step();
  const MutexLock lock(mutex_);
  problem_.reset();
  if (!done) problem_ = done.take_error();
}

Status Member::run_step() {
  MR_TRY(identify().within("joining the cluster"));
  // The map before the lease: a node that was removed, or that may not join, holds none.
  MR_TRY(learn());
  MR_TRY(begin_session());
  MR_TRY(enter_lease().within("joining the cluster"));
  MR_TRY(newest_.map ? take_place() : found_map());
  MR_TRY(tell_walked());
  MR_TRY(campaign());
  return is_leader() ? lead() : Status();
}

void Member::note_walked(Walked walked) {
  {
    const MutexLock lock(walked_mutex_);
    walked_ = walked;
  }
  if (surroundings_.wake) surroundings_.wake();
}

Status Member::tell_walked() {
  const Walked walked = [&] {
    const MutexLock lock(walked_mutex_);
    return walked_;
  }();
  const auto current = session();
  if (!current || (walked.epoch == told_walked_.epoch && walked.tombstones == told_walked_.tombstones))
    return {};
  const std::string name = std::string(kWalked) + options_.node;
  const auto entry = MR_TRY(registry_.get(name));
  // With the lease: what a node said before it went away says nothing about what it is like when it returns.
  const std::string value = Json{{"epoch", walked.epoch}, {"tombstones", walked.tombstones}}.dump();
  if (MR_TRY(registry_.swap(name, entry ? entry->revision : 0, value, current->lease))) told_walked_ = walked;
  return {};
}

Status Member::close_epochs() {
  std::map<std::string, Walked> by_node;
  for (const Entry& entry : MR_TRY(registry_.list(std::string(kWalked)))) {
    const Json json = Json::parse(entry.value, nullptr, false);
    const auto number = [&](const char* name) {
      const bool good = json.is_object() && json.contains(name) && json[name].is_number_unsigned();
      return good ? json[name].get<uint64_t>() : 0;
    };
    by_node[entry.name.substr(kWalked.size())] = {static_cast<uint32_t>(number("epoch")),
                                                  number("tombstones")};
  }
  const auto maps = maps_.load();
  if (maps->back()->epoch() != newest_.map->epoch()) return {};
  const bool quiet = surroundings_.now_us() >= newest_since_us_ + kQuietUs;
  const auto oldest = find_closable(*maps, by_node, quiet ? Calm::kQuiet : Calm::kRecent);
  if (!oldest) return {};
  const auto next = MR_TRY(with_closed(*newest_.map, *oldest));
  if (next) MR_TRY(replace(*next));
  return {};
}

Status Member::identify() {
  if (identity_.load()) return {};
  auto entry = MR_TRY(registry_.get("cluster"));
  if (!entry && !options_.cluster.empty())
    return make_error(kOtherCluster, "this node belongs to cluster {}, and the registry knows no cluster",
                      options_.cluster)
        .with_hint("is it the right registry? One that lost its entries must be restored from a backup");
  if (!entry) {
    const ClusterIdentity made{surroundings_.make_id(), net::to_hex(net::random_bytes(kSecretBytes))};
    // Whoever is first founds the cluster; everyone reads what is there then.
    MR_TRY(registry_.swap("cluster", 0, encode_identity(made)));
    entry = MR_TRY(registry_.get("cluster"));
    if (!entry) return make_error(Code::kUnavailable, "the registry's \"cluster\" vanished");
    admitted_ = entry->value == encode_identity(made);
  }
  ClusterIdentity identity = MR_TRY(decode_identity(entry->value));
  if (!options_.cluster.empty() && options_.cluster != identity.id)
    return make_error(kOtherCluster,
                      "this node belongs to cluster {}, and this is the registry of cluster {}",
                      options_.cluster, printable(identity.id, 80))
        .with_hint("is it the right registry? To move the node, start it with an empty directory");
  identity_.store(std::make_shared<const ClusterIdentity>(std::move(identity)));
  return {};
}

Status Member::begin_session() {
  if (session()) return {};
  const uint64_t sent_us = surroundings_.now_us();
  const LeaseId lease = MR_TRY(registry_.grant(options_.lease));
  Session begun;
  begun.lease = lease;
  begun.process = surroundings_.make_id();
  begun.valid_until_us = sent_us + static_cast<uint64_t>(std::chrono::microseconds(options_.lease).count());
  const MutexLock lock(mutex_);
  session_ = std::move(begun);
  return {};
}

Status Member::enter_lease() {
  const auto current = session();
  if (!current || current->entered) return {};
  const std::string name = std::string(kLeases) + options_.node;
  const auto entry = MR_TRY(registry_.get(name));
  // An answer may have been lost: then it is ours already.
  if (entry && process_of(*entry) != current->process)
    return make_error(kNodeInUse, "another process serves as node {}", options_.node)
        .with_hint(fmt::format("if it was killed, its lease ends within {} s; if this node's directory was "
                               "copied, one of the two must go",
                               std::chrono::ceil<std::chrono::seconds>(options_.lease).count()));
  if (!entry) {
    auto swapped = registry_.swap(name, 0, encode_holder(options_.node, current->process), current->lease);
    if (!swapped && swapped.error().is(kLeaseEnded)) end_session(current->lease);
    if (!swapped) return swapped.take_error();
    if (!*swapped) return make_error(kNodeInUse, "another process serves as node {}", options_.node);
  }
  const MutexLock lock(mutex_);
  if (session_ && session_->lease == current->lease) session_->entered = true;
  return {};
}

Status Member::learn() {
  const uint64_t now_us = surroundings_.now_us();
  const auto every_us = static_cast<uint64_t>(std::chrono::microseconds(options_.read_every).count());
  const bool due = newest_.map == nullptr || now_us >= read_at_us_ + every_us;
  if (!look_.exchange(false) && !due) return {};
  auto known = read_map(registry_);
  if (!known) {
    look_.store(true);
    return known.take_error();
  }
  read_at_us_ = now_us;
  if (*known) return learn_from(std::move(**known));
  if (newest_.map != nullptr || !options_.cluster.empty())
    return make_error(kOtherCluster, "the registry has lost the map of this cluster")
        .with_hint("it must be restored from a backup");
  return {};
}

Status Member::learn_from(KnownMap newest) {
  if (newest.map->cluster() != identity_.load()->id)
    return make_error(kOtherCluster, "the registry's map is of cluster {}",
                      printable(newest.map->cluster(), 80));
  if (newest_.map && newest.map->epoch() < newest_.map->epoch())
    return make_error(Code::kCorrupt, "the registry's map went back from epoch {} to {}",
                      newest_.map->epoch(), newest.map->epoch())
        .with_hint("was the registry restored from an old backup?");
  if (newest_.map && newest.map->epoch() == newest_.map->epoch()) return {};
  const auto known = maps_.load();
  auto maps = read_open_maps(registry_, newest, known.get());
  if (!maps) {
    look_.store(true);
    return maps.take_error();
  }
  newest_ = std::move(newest);
  newest_since_us_ = surroundings_.now_us();
  note_acting();
  maps_.store(*maps);
  if (changed_) changed_(**maps);
  return {};
}

void Member::note_acting() {
  const MapNode* const mine = newest_.map->find_node(options_.node);
  if (mine != nullptr) number_.store(mine->number, std::memory_order_relaxed);
  const MutexLock lock(mutex_);
  acting_process_ = mine != nullptr && mine->is_alive() ? mine->process : std::string();
}

MapNode Member::wanted() const {
  MapNode node;
  node.id = options_.node;
  node.address = options_.address;
  node.tls = options_.tls;
  node.zone = options_.zone;
  const MutexLock lock(mutex_);
  node.drives = drives_;
  if (session_) node.process = session_->process;
  return node;
}

Result<bool> Member::replace(const Map& next) {
  auto replaced = replace_map(registry_, newest_, next);
  // At once where somebody was faster; a registry that fails is given its second.
  if (!replaced) look_.store(true);
  if (!replaced) return replaced.take_error();
  if (!*replaced) look_again();
  if (!*replaced) return false;
  MR_TRY(learn_from(std::move(**replaced)));
  return true;
}

Status Member::found_map() {
  // Whoever wrote the identity may have died before the map. Then nobody has joined yet who could have given
  // a token; a map that was lost leaves buckets and older maps behind.
  const bool is_first = MR_TRY(registry_.list("buckets/")).empty() && MR_TRY(registry_.list("maps/")).empty();
  if (!is_first) MR_TRY(admit());
  if (!session()) return {};
  const Map none(identity_.load()->id, 0, 0, {});
  const auto first = MR_TRY(with_node(none, wanted(), surroundings_.wall_ms()));
  MR_TRY(replace(*first));
  return {};
}

Status Member::admit() {
  if (admitted_ || options_.admission == Admission::kOpen) return {};
  admitted_ = MR_TRY(check_token(registry_, options_.token));
  if (admitted_) return {};
  return make_error(kTokenNeeded, "the join token of node {} is missing, wrong or over", options_.node)
      .with_hint("`millrace cluster token` makes one");
}

Status Member::take_place() {
  // A session that ended since must not be entered.
  const MapNode node = wanted();
  if (node.process.empty()) return {};
  if (newest_.map->find_node(options_.node) == nullptr) MR_TRY(admit());
  auto next = with_node(*newest_.map, node, surroundings_.wall_ms());
  // Perhaps that node has just ended, and nobody leads who says so.
  if (!next && next.error().is(kServedElsewhere)) {
    MR_TRY(call_away());
    next = with_node(*newest_.map, node, surroundings_.wall_ms());
  }
  if (!next) return next.take_error();
  if (*next) MR_TRY(replace(**next));
  return {};
}

Status Member::call_away() {
  // The map was read before the leases are: a session that it names had its lease entry then, so an entry
  // that is missing now is over. The map is replaced only if it is still that one.
  std::set<std::string> living;
  for (const Entry& entry : MR_TRY(registry_.list(std::string(kLeases)))) living.insert(process_of(entry));
  const auto next = MR_TRY(with_living(*newest_.map, living, surroundings_.wall_ms()));
  if (next) MR_TRY(replace(*next));
  return {};
}

Status Member::campaign() {
  const auto current = session();
  if (!current || !current->entered || is_leader()) return {};
  const auto entry = MR_TRY(registry_.get(kLeader));
  if (!entry) {
    const std::string mine = encode_holder(options_.node, current->process);
    if (!MR_TRY(registry_.swap(kLeader, 0, mine, current->lease))) return {};
  } else if (process_of(*entry) != current->process) {
    const MutexLock lock(mutex_);
    leading_node_ = node_of(*entry);
    return {};
  }
  const MutexLock lock(mutex_);
  leading_process_ = current->process;
  return {};
}

Status Member::lead() {
  if (newest_.map == nullptr) return {};
  MR_TRY(call_away());
  MR_TRY(close_epochs());
  if (tidied_epoch_ == newest_.map->epoch()) return {};
  MR_TRY(forget_closed_maps(registry_, *newest_.map));
  tidied_epoch_ = newest_.map->epoch();
  return {};
}

Status Member::leave() {
  const auto current = session();
  if (!current) return {};
  // First: once the map says that it is away, others act for it.
  end_session(current->lease);
  Status left = leave_map(current->process).within("leaving the map");
  MR_TRY(registry_.revoke(current->lease).within("ending the lease"));
  return left;
}

Status Member::leave_map(const std::string& process) {
  if (newest_.map == nullptr) return {};
  return learn_from(MR_TRY(change_map(
      registry_, [&](const Map& map) { return with_left(map, process, surroundings_.wall_ms()); })));
}

void MemberThreads::start(Member& member) {
  renewals_.start(member.pace(), [&member] { member.renew(); });
  steps_.start(member.pace(), [&member] { member.step(); });
}

void MemberThreads::stop() {
  steps_.stop();
  renewals_.stop();
}

}  // namespace millrace::cluster
