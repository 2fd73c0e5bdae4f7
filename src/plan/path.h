// Path: an installation as a flow network, from the drives to the GPUs, in samples a second.
//
// Everything a sample passes is a Resource: so many parts at a rate, less what other traffic takes of it,
// over what a sample costs there. Bytes differ along the path (stored, decoded, exchanged), samples do not:
// so they flow. Groups of equal machines are one resource per stage: by symmetry the flow is that of the
// single machines.
#pragma once

#include <string>
#include <vector>

#include "plan/installation.h"
#include "plan/network.h"

namespace millrace::plan {

enum class Stage {  // in the order of the path
  kDrives,
  kStoreOut,     // interfaces of store machines
  kExchangeOut,  // interfaces of GPU machines, for what their drives give to others
  kFabric,       // switches and the ways between them, first crossing
  kCpuIn,
  kCpuBus,
  kCpuMemory,
  kCpuCores,
  kCpuOut,
  kFabricAgain,  // second crossing, decoded
  kGpuIn,
  kGpuBus,
  kGpuMemory,
  kGpuCores,
  kGpuLinks,
  kGpus,
};

struct Resource {
  Stage stage = Stage::kDrives;
  std::string group;  // whose it is
  std::string part;   // what it is
  uint64_t count = 0;
  Rational unit = 0;  // bytes a second of one; samples where in_samples
  bool in_samples = false;
  Rational reserved = 0;  // bytes a second of other traffic
  Rational work = 0;      // bytes of it that one sample costs
  Rational capacity = 0;  // samples a second
  size_t edge = 0;
  int order = 0;  // among the switches: from the sources up and down to the sinks

  Rational total() const { return unit * count; }
  std::string noun() const;  // "drives of shelf"
};

struct Path {
  Network network;
  std::vector<Resource> resources;  // by stage
};

Result<Path> make_path(const Installation& plan);

// What one sample costs at a drive, with what exchange adds, in bytes read.
Rational drive_work(const Workload& workload, const Store& store);
Rational drive_rate(const Workload& workload, const Part& drive);
// Bytes a second that ingest and recovery take of the drives and of the interfaces of all stores together.
Rational reserved_of_drives(const Workload& workload, const Part& drive);
Rational reserved_of_interfaces(const Workload& workload);

}  // namespace millrace::plan
