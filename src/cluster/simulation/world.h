// World: a whole cluster in one thread, with time, messages, drives and failures drawn from one seed.
//
// The nodes run the product's protocol (Holder, Home, Requester, messages encoded and decoded); only their
// surroundings are made up. Messages are lost, late, doubled and reordered; nodes are cut off from each other
// and from the registry; they crash between any two durable steps and start again; leases end. The same seed
// gives the same run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "cluster/map.h"
#include "cluster/peers.h"
#include "cluster/simulation/history.h"

namespace millrace::cluster::simulation {

struct Scene {
  Redundancy redundancy{1, 2, 2};
  unsigned nodes = 4;
  unsigned drives = 1;  // of each node
  unsigned keys = 1;
  std::vector<Redundancy> others = {};  // to which the bucket is changed now and then
  unsigned operations = 12;             // for each key
  uint64_t seconds = 40;                // of trouble; then everything is mended and read back
  bool fills = false;                   // drives become full, and have room again
};

struct Outcome {
  std::string violation;                          // empty: none
  std::vector<std::vector<Operation>> histories;  // by key
  uint64_t acknowledged = 0;
  uint64_t messages = 0;
};

class Node;

class World {
 public:
  World(const Scene& scene, uint64_t seed);
  ~World();

  Outcome run();

  // For the nodes.
  const Scene& scene() const { return scene_; }
  uint64_t now() const { return now_; }
  Random& random() { return random_; }
  void after(uint64_t us, std::function<void()> work);
  // With probability one in `n`.
  bool one_in(uint64_t n) { return random_.below(n) == 0; }
  // How long a message or a durable step takes.
  uint64_t delay();
  bool is_cut(uint32_t from, uint32_t to) const { return cuts_.contains({from, to}); }
  // The node's request, delivered to another one; `answered` with its reply.
  void deliver(uint32_t from, uint32_t to, std::string request, std::function<void(std::string)> answered);
  // The registry (node 0 for cuts): renewal of a lease; the newest maps.
  bool renew(uint32_t node, const std::string& process);
  std::shared_ptr<const Maps> newest_maps() const { return maps_; }
  void note_walked(uint32_t node, const std::string& process, Walked walked);
  // A spread that was chosen, as one of a write of its own.
  store::Spread begin_write(store::Spread chosen);
  // Different slices of a write whose bytes are on drives of nodes that are up, or on any.
  size_t count_slices(const ObjectName& name, const store::Spread& spread) const;

 private:
  struct Event {
    uint64_t at = 0;
    uint64_t number = 0;
    std::function<void()> work;
    bool operator<(const Event& other) const {
      return std::pair(at, number) > std::pair(other.at, other.number);
    }
  };

  void run_until(uint64_t end);
  void lead();  // the leader's look at the leases
  void publish(Map map);
  void change_redundancy();
  // Of the bucket now.
  Redundancy redundancy() const { return maps_->back()->redundancy_of("b", scene_.redundancy); }
  void trouble();  // one failure, and the next one later
  void change_full(const Node& node);
  void begin_operation(size_t key, unsigned client);
  void read_back();
  void read_all(const std::vector<Node*>& nodes, const std::vector<size_t>& keys);
  std::vector<size_t> all_keys() const;
  // Every object has all slices that the nodes which are left can hold.
  void check_healed(const std::vector<Node*>& left);
  std::string judge() const;
  Node* pick_node();

  const Scene scene_;
  Random random_;
  uint64_t now_ = 0;
  uint64_t events_ = 0;
  uint64_t messages_ = 0;
  std::priority_queue<Event> queue_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::set<std::pair<uint32_t, uint32_t>> cuts_;
  std::shared_ptr<const Maps> maps_;
  std::vector<uint64_t> lease_ends_;      // at the registry, by node
  std::vector<std::string> processes_;    // that registered, by node
  std::map<std::string, Walked> walked_;  // what nodes said
  uint64_t map_since_ = 0;
  std::set<uint32_t> draining_;  // nodes
  std::set<std::string> full_;   // drives
  std::set<uint32_t> gone_;
  bool troubled_ = true;
  std::vector<std::vector<Operation>> histories_;
  std::vector<unsigned> left_;  // operations to come, by key
  std::vector<std::string> problems_;
  uint64_t next_id_ = 1;
  std::vector<size_t> whole_;  // keys of objects that were looked at after healing
};

}  // namespace millrace::cluster::simulation
