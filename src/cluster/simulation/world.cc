// Time, trouble, clients, and the judgement at the end.
#include "cluster/simulation/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/number.h"
#include "cluster/places.h"
#include "cluster/reasons.h"
#include "cluster/simulation/node.h"
#include "store/reasons.h"

namespace millrace::cluster::simulation {

namespace {

constexpr uint64_t kSecond = 1'000'000;
constexpr unsigned kClients = 3;  // of each key
constexpr uint64_t kQuietUs = 15 * kSecond;

ObjectName key_name(size_t key) {
  return {"b", fmt::format("k{}", key)};
}

}  // namespace

World::World(const Scene& scene, uint64_t seed)
    : scene_(scene), random_(seed), lease_ends_(scene.nodes + 1), processes_(scene.nodes + 1) {
  histories_.resize(scene.keys);
  left_.assign(scene.keys, scene.operations);
  std::vector<MapNode> entries;
  for (uint32_t number = 1; number <= scene.nodes; ++number) {
    nodes_.push_back(std::make_unique<Node>(*this, number));
    MapNode entry;
    entry.id = nodes_.back()->id();
    entry.number = number;
    entry.process = "1";
    entry.drives = nodes_.back()->drives();
    entries.push_back(std::move(entry));
    processes_[number] = "1";
    lease_ends_[number] = Node::kLeaseUs;
  }
  maps_ = std::make_shared<const Maps>(Maps{std::make_shared<const Map>("c", 1, 1, std::move(entries))});
}

World::~World() = default;

void World::after(uint64_t us, std::function<void()> work) {
  queue_.push({now_ + us, ++events_, std::move(work)});
}

uint64_t World::delay() {
  // Mostly under a millisecond, sometimes much longer.
  if (troubled_ && one_in(100)) return random_.below(3 * kSecond);
  if (troubled_ && one_in(10)) return random_.below(200'000);
  return 50 + random_.below(2'000);
}

void World::deliver(uint32_t from, uint32_t to, std::string request,
                    std::function<void(std::string)> answered) {
  ++messages_;
  // A commit is never sent twice: the connections of the product promise that.
  const bool once = std::holds_alternative<CommitRequest>(*decode_request(request));
  const auto arrive = [this, from, to, request = std::move(request), answered = std::move(answered)] {
    if (is_cut(from, to)) return;
    nodes_[to - 1]->handle(request, [this, from, to, answered](std::string reply) {
      if ((troubled_ && one_in(50)) || is_cut(to, from)) return;
      after(delay(), [answered, reply = std::move(reply)] { answered(reply); });
    });
  };
  if (troubled_ && one_in(50)) return;
  after(from == to ? 1 : delay(), arrive);
  if (troubled_ && !once && one_in(30)) after(delay(), arrive);
}

bool World::renew(uint32_t node, const std::string& process) {
  if (processes_[node] == process && lease_ends_[node] <= now_) return false;
  processes_[node] = process;
  lease_ends_[node] = now_ + Node::kLeaseUs;
  return true;
}

void World::note_walked(uint32_t node, const std::string& process, Walked walked) {
  if (processes_[node] == process) walked_[nodes_[node - 1]->id()] = walked;
}

size_t World::count_slices(const ObjectName& name, const store::Spread& spread) const {
  std::set<unsigned> slots;
  for (const auto& node : nodes_) {
    for (const MapDrive& drive : node->drives()) {
      for (const unsigned slot : node->slots_of(drive.hash(), name, spread.write_id)) slots.insert(slot);
    }
  }
  return slots.size();
}

store::Spread World::begin_write(store::Spread chosen) {
  for (size_t i = 0; i < store::kWriteIdBytes; ++i)
    chosen.write_id.push_back(static_cast<char>(random_.next()));
  if (chosen.k > 1) chosen.cell = 1;
  return chosen;
}

void World::publish(Map map) {
  map_since_ = now_;
  Maps maps = *maps_;
  std::erase_if(maps, [&](const auto& old) { return old->epoch() < map.oldest_open(); });
  maps.push_back(std::make_shared<const Map>(std::move(map)));
  maps_ = std::make_shared<const Maps>(std::move(maps));
}

void World::change_redundancy() {
  std::vector<Redundancy> choices = scene_.others;
  choices.push_back(scene_.redundancy);
  const Redundancy& wanted = choices[random_.below(choices.size())];
  if (auto next = with_redundancy(*maps_->back(), "b", scene_.redundancy, wanted).take())
    publish(std::move(*next));
}

void World::lead() {
  const Map& map = *maps_->back();
  std::vector<MapNode> entries = map.nodes();
  for (MapNode& entry : entries) {
    const bool alive = lease_ends_[entry.number] > now_;
    entry.state = gone_.contains(entry.number)       ? NodeState::kGone
                  : !alive                           ? NodeState::kAway
                  : draining_.contains(entry.number) ? NodeState::kDraining
                                                     : NodeState::kServing;
    if (processes_[entry.number] != entry.process) walked_.erase(entry.id);
    entry.process = processes_[entry.number];
    for (MapDrive& drive : entry.drives) drive.full = full_.contains(drive.id);
  }
  const Calm calm = now_ > map_since_ + kQuietUs ? Calm::kQuiet : Calm::kRecent;
  const auto closable = find_closable(*maps_, walked_, calm);
  const uint32_t oldest = closable.value_or(map.oldest_open());
  if (entries != map.nodes() || closable) {
    publish(Map("c", map.epoch() + 1, oldest, std::move(entries), map.redundancies()));
  }
  after(300'000 + random_.below(400'000), [this] { lead(); });
}

Node* World::pick_node() {
  return nodes_[random_.below(nodes_.size())].get();
}

void World::change_full(const Node& node) {
  const std::vector<MapDrive> drives = node.drives();
  const std::string& drive = drives[random_.below(drives.size())].id;
  if (!full_.erase(drive)) full_.insert(drive);
}

void World::trouble() {
  if (!troubled_) return;
  Node* node = pick_node();
  const uint64_t what = random_.below(10);
  if (what < 4) {
    if (node->is_up()) {
      node->crash();
    } else {
      node->start();
    }
  } else if (what < 6) {  // cut off from the registry for a while
    cuts_.insert({node->number(), 0});
    after(random_.below(15 * kSecond), [this, number = node->number()] { cuts_.erase({number, 0}); });
  } else {  // two nodes, perhaps one way only
    const std::pair cut(node->number(), pick_node()->number());
    cuts_.insert(cut);
    after(random_.below(8 * kSecond), [this, cut] { cuts_.erase(cut); });
  }
  if (!scene_.others.empty() && one_in(6)) change_redundancy();
  if (scene_.fills && one_in(2)) change_full(*node);
  if (one_in(10) && !draining_.erase(node->number())) draining_.insert(node->number());
  if (one_in(3)) {
    Node* sleeper = pick_node();
    if (!sleeper->is_up()) sleeper->start();
  }
  after(random_.below(4 * kSecond), [this] { trouble(); });
}

void World::begin_operation(size_t key, unsigned client) {
  if (left_[key] == 0) return;
  Node* node = pick_node();
  const auto next = [this, key, client] {
    after(random_.below(3 * kSecond), [this, key, client] { begin_operation(key, client); });
  };
  if (!node->is_up()) return next();
  --left_[key];
  const size_t position = histories_[key].size();
  Operation& one = histories_[key].emplace_back();
  constexpr Operation::Kind kKinds[] = {
      Operation::Kind::kPut, Operation::Kind::kPut, Operation::Kind::kPutIfAbsent, Operation::Kind::kRemove,
      Operation::Kind::kGet, Operation::Kind::kGet, Operation::Kind::kGet};
  one.kind = kKinds[random_.below(std::size(kKinds))];
  one.id = next_id_++;
  one.begin = now_;
  // A client whose node dies gets no answer; it goes on with other requests.
  const auto moved_on = std::make_shared<bool>(false);
  const auto go_on = [moved_on, next] {
    if (!std::exchange(*moved_on, true)) next();
  };
  after(12 * kSecond, go_on);
  const auto end = [this, key, position, go_on](const Error* error, uint64_t value) {
    Operation& ended = histories_[key][position];
    const bool refused = error != nullptr && error->is(store::kConditionFailed);
    if (error == nullptr || refused) {
      ended.end = now_;
      ended.value = value;
      ended.refused = refused;
    }
    go_on();
  };
  if (one.kind == Operation::Kind::kGet) {
    node->requester().find(key_name(key), [end](Result<std::optional<FoundObject>> found) {
      if (!found) return end(&found.error(), 0);
      end(nullptr, *found ? parse_number<uint64_t>((*found)->record.etag).value() : 0);
    });
    return;
  }
  CommitRequest request;
  request.name = key_name(key);
  request.record.etag = fmt::format("{}", one.id);
  if (one.kind == Operation::Kind::kRemove) {
    request.kind = CommitRequest::Kind::kRemove;
    node->requester().commit(std::move(request), [end](Result<std::optional<store::Record>> removed) {
      end(removed ? nullptr : &removed.error(), 0);
    });
    return;
  }
  request.condition.only_if_absent = one.kind == Operation::Kind::kPutIfAbsent;
  const bool large = one_in(2);  // else its bytes stay in the ledgers
  Result<store::Spread> spread = node->requester().choose_spread(
      request.name, large ? Requester::Size::kLarge : Requester::Size::kSmall);
  if (!spread) return end(&spread.error(), 0);
  request.record.spread = begin_write(spread.take());
  if (large) {
    request.record.size = kCopiedBytes + 1;
    request.record.pieces = {{0, request.record.size}};
  }
  std::vector<std::string> slices(request.record.spread.holders.size(), "x");
  node->requester().put(std::move(request), std::move(slices),
                        [end](Result<store::Record> put) { end(put ? nullptr : &put.error(), 0); });
}

void World::run_until(uint64_t end) {
  while (!queue_.empty() && queue_.top().at <= end) {
    const std::function<void()> work = std::move(const_cast<Event&>(queue_.top()).work);
    now_ = queue_.top().at;
    queue_.pop();
    work();
  }
  now_ = end;
}

// Everything is mended but for nodes that are lost for good, as many as every write survives. Every key is
// read through every node that is left. Then the cluster has time to heal, and loses as many nodes again.
void World::read_back() {
  troubled_ = false;
  cuts_.clear();
  draining_.clear();
  std::vector<Node*> order;
  for (const auto& node : nodes_) order.push_back(node.get());
  random_.shuffle(std::span(order));
  const Redundancy redundancy = this->redundancy();
  // A write of any redundancy of before survives it.
  size_t most = static_cast<size_t>(scene_.redundancy.floor - scene_.redundancy.k);
  for (const Redundancy& other : scene_.others)
    most = std::min(most, static_cast<size_t>(other.floor - other.k));
  most /= scene_.drives;
  const size_t lost = random_.below(most + 1);
  for (Node* node : order) {
    if (!node->is_up()) node->start();
  }
  std::vector<Node*> left(order.begin() + static_cast<ptrdiff_t>(lost), order.end());
  for (size_t i = 0; i < lost; ++i) order[i]->wipe();
  run_until(now_ + 15 * kSecond);
  read_all(left, all_keys());
  if (!problems_.empty()) return;
  const bool removed = one_in(2);  // else the lost nodes stay away, for all that the others know
  for (size_t i = 0; i < lost && removed; ++i) gone_.insert(order[i]->number());
  if (left.size() * scene_.drives < redundancy.floor) return;  // nothing is committed, so nothing can move
  full_.clear();
  run_until(now_ + 90 * kSecond);
  check_healed(left);
  const auto differs = [&](const auto& map) { return !map->places_like(*maps_->back()); };
  if (removed && std::ranges::any_of(*maps_, differs))
    problems_.push_back(fmt::format("{} epochs are still open", maps_->size()));
  const size_t slices = std::min(redundancy.slices(), left.size() * scene_.drives);
  const size_t spare = (slices - std::min<size_t>(slices, redundancy.k)) / scene_.drives;
  const size_t lost_again = random_.below(std::min(spare, left.size() - 1) + 1);
  for (size_t i = 0; i < lost_again; ++i) left[i]->wipe();
  left.erase(left.begin(), left.begin() + static_cast<ptrdiff_t>(lost_again));
  run_until(now_ + 15 * kSecond);
  // Of a key that has no object, nobody can say so while nodes are away that might know one.
  read_all(left, removed ? all_keys() : whole_);
}

std::vector<size_t> World::all_keys() const {
  std::vector<size_t> keys(scene_.keys);
  std::iota(keys.begin(), keys.end(), size_t{0});
  return keys;
}

void World::check_healed(const std::vector<Node*>& left) {
  const Redundancy whole = redundancy();
  const size_t drives = left.size() * scene_.drives;
  for (size_t key = 0; key < scene_.keys; ++key) {
    left.front()->requester().find(
        key_name(key), [this, key, whole, drives](Result<std::optional<FoundObject>> found) {
          if (!found || !*found) return;
          if (is_spread_otherwise((*found)->record, whole))
            problems_.push_back(fmt::format("key {} is not encoded anew", key));
          whole_.push_back(key);
          const size_t wanted = std::min(redundancy_for((*found)->record, whole).slices(), drives);
          const size_t slices = count_slices(key_name(key), (*found)->record.spread);
          if (slices < wanted)
            problems_.push_back(fmt::format("key {} is not healed: {} of {} slices", key, slices, wanted));
        });
  }
  run_until(now_ + 12 * kSecond);
}

void World::read_all(const std::vector<Node*>& nodes, const std::vector<size_t>& keys) {
  for (const size_t key : keys) {
    for (Node* node : nodes) {
      const size_t position = histories_[key].size();
      Operation& one = histories_[key].emplace_back();
      one.begin = now_;
      one.id = next_id_++;
      node->requester().find(key_name(key), [this, key, position](Result<std::optional<FoundObject>> found) {
        if (!found) {
          problems_.push_back(
              fmt::format("key {} is not readable at the end: {}", key, found.error().message()));
          return;
        }
        Operation& ended = histories_[key][position];
        ended.end = now_;
        ended.value = *found ? parse_number<uint64_t>((*found)->record.etag).value() : 0;
        if (!*found) return;
        const store::Spread& spread = (*found)->record.spread;
        const size_t slices = count_slices(key_name(key), spread);
        if (slices < spread.k)
          problems_.push_back(fmt::format("key {} has {} slices of {}", key, slices, spread.k));
      });
      run_until(now_ + 12 * kSecond);
      if (!histories_[key][position].is_known() && problems_.empty())
        problems_.push_back(fmt::format("key {} was never answered", key));
    }
  }
}

std::string World::judge() const {
  if (!problems_.empty()) return problems_.front();
  for (size_t key = 0; key < histories_.size(); ++key) {
    if (!is_linearizable(histories_[key])) return fmt::format("no order explains what key {} was", key);
  }
  return "";
}

Outcome World::run() {
  for (const auto& node : nodes_) node->start();
  lead();
  after(kSecond, [this] { trouble(); });
  for (size_t key = 0; key < scene_.keys; ++key) {
    for (unsigned client = 0; client < kClients; ++client)
      after(random_.below(2 * kSecond), [this, key, client] { begin_operation(key, client); });
  }
  run_until(scene_.seconds * kSecond);
  read_back();
  Outcome outcome;
  outcome.violation = judge();
  outcome.histories = histories_;
  outcome.messages = messages_;
  for (const auto& history : histories_) {
    outcome.acknowledged += static_cast<uint64_t>(std::ranges::count_if(history, [](const Operation& one) {
      return one.is_known() && !one.refused && one.kind != Operation::Kind::kGet;
    }));
  }
  return outcome;
}

}  // namespace millrace::cluster::simulation
