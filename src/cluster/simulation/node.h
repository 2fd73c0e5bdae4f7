// Node: one node of the simulated cluster: durable drives that survive crashes, and a process that does not.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cluster/peers.h"
#include "cluster/protocol.h"
#include "cluster/simulation/world.h"

namespace millrace::cluster::simulation {

// What a node keeps over a crash.
struct Drives {
  std::map<std::pair<DriveId, ObjectName>, Ledger> ledgers;
  std::map<std::pair<DriveId, ObjectName>, Ledger> before_lazy;  // what a power loss goes back to
  using Slice = std::tuple<DriveId, std::string, unsigned>;      // write id and slot
  std::set<Slice> slices;
  std::map<Slice, uint64_t> puts;  // how often each was put
  uint32_t promised = 0;
};

class Process;

class Node {
 public:
  static constexpr uint64_t kLeaseUs = 6'000'000;
  static constexpr uint64_t kCallUs = 1'000'000;  // until a call fails

  Node(World& world, uint32_t number);
  ~Node();

  uint32_t number() const { return number_; }
  std::string id() const { return "n" + std::to_string(number_); }
  const std::vector<MapDrive>& drives() const { return map_drives_; }
  // Which slices of a write have their bytes there, in the ledger or beside it.
  std::vector<unsigned> slots_of(DriveId drive, const ObjectName& name, const std::string& write_id) const;
  bool is_up() const { return process_ != nullptr; }

  void start();
  void crash();
  // The end of its drives: nothing survives.
  void wipe();
  // A request of another node; `answer` with the encoded reply.
  void handle(const std::string& request, std::function<void(std::string)> answer);
  Requester& requester();

 private:
  World& world_;
  const uint32_t number_;
  std::vector<MapDrive> map_drives_;
  Drives durable_;
  uint64_t starts_ = 0;
  std::shared_ptr<Process> process_;
  std::vector<std::shared_ptr<Process>> dead_;  // events may still name them
};

}  // namespace millrace::cluster::simulation
