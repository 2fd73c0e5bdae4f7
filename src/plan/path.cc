// Builds the flow network stage by stage, from the drives to the GPUs.
#include "plan/path.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/units.h"
#include "plan/fabric.h"

namespace millrace::plan {

namespace {

uint64_t write_rate(const Part& drive) {
  return drive.write > 0 ? drive.write : drive.rate;
}

// How often a stored byte crosses the stores' interfaces: slices of an erasure code meet at one of the
// machines.
Rational crossings(const Redundancy& redundancy) {
  return redundancy.is_coded() ? 2 - Rational(1, redundancy.data) : Rational(1);
}

class Builder {
 public:
  explicit Builder(const Installation& plan) : plan_(plan), load_(plan.workload) {}

  Result<Path> build();

 private:
  Result<size_t> add(size_t from, Resource resource);
  Result<size_t> add_links(size_t from, Stage stage, const Machines& group, const Links& links,
                           Rational work);
  Result<size_t> add_drives(const Store& store);
  Status add_cpus(Fabric& first, Fabric& second);
  Status add_gpu(const Machines& group, size_t arrived);
  enum class Host { kDecodes, kPassesOn };
  Result<size_t> add_host(const Machines& group, size_t from, Host host);
  Result<size_t> add_cores(const Machines& group, size_t from, Stage stage);
  Status add_fabric(Fabric& fabric, Stage stage);
  Status add_sources(Fabric& fabric);
  Rational exchange_work() const;
  bool exchanges() const;
  Status check_connected() const;
  std::string place_of(const std::string& group) const;

  const Installation& plan_;
  const Workload& load_;
  Path path_;
  std::map<std::string, size_t> local_;  // GPU group -> where samples of its own drives arrive
};

Result<size_t> Builder::add(size_t from, Resource resource) {
  const Rational free = resource.total() - resource.reserved;
  if (free <= 0)
    return make_error(Code::kInvalid, "{}: ingest and recovery alone need {}/s of the {}, which give {}/s",
                      load_.place, format_bytes(ceiling(resource.reserved)), resource.noun(),
                      format_bytes(ceiling(resource.total())))
        .with_hint("less of them at a time, or more parts");
  resource.capacity = free / resource.work;
  const size_t to = path_.network.add_node();
  resource.edge = path_.network.add_edge(from, to, resource.capacity);
  path_.resources.push_back(std::move(resource));
  return to;
}

Result<size_t> Builder::add_links(size_t from, Stage stage, const Machines& group, const Links& links,
                                  Rational work) {
  if (links.count == 0) return from;
  Resource resource{stage, group.name, links.part.name, group.machines * links.count,
                    Rational(links.part.rate)};
  resource.work = std::move(work);
  return add(from, std::move(resource));
}

bool Builder::exchanges() const {
  if (load_.shuffle == Shuffle::kLocal || (load_.shuffle == Shuffle::kPartial && load_.fraction == 0))
    return false;
  uint64_t machines = 0;
  bool partitioned = false;
  for (const Store& store : plan_.stores) {
    if (!store.at.empty()) machines += store.machines;
    partitioned = partitioned || (!store.at.empty() && !store.replicated);
  }
  return partitioned && machines > 1;
}

// Q·s·(1 − 1/M): what a sample costs on the wire where machines exchange their samples.
Rational Builder::exchange_work() const {
  uint64_t machines = 0;
  for (const Store& store : plan_.stores) machines += store.at.empty() ? 0 : store.machines;
  const Rational share = load_.shuffle == Shuffle::kPartial ? load_.fraction : Rational(1);
  return share * load_.sample * (1 - Rational(1, machines));
}

Result<size_t> Builder::add_drives(const Store& store) {
  uint64_t all = 0;
  for (const Store& one : plan_.stores) all += one.machines * one.drives;
  Resource resource{Stage::kDrives, store.name, store.drive.name, store.machines * store.drives,
                    drive_rate(load_, store.drive)};
  resource.work = drive_work(load_, store);
  resource.reserved = reserved_of_drives(load_, store.drive) * Rational(resource.count, all);
  return add(Network::kSource, std::move(resource));
}

Status Builder::add_sources(Fabric& fabric) {
  uint64_t machines = 0;
  for (const Store& store : plan_.stores) machines += store.at.empty() ? store.machines : 0;
  for (const Store& store : plan_.stores) {
    size_t node = MR_TRY(add_drives(store));
    if (!store.at.empty()) {
      if (!local_.contains(store.at)) local_[store.at] = path_.network.add_node();
      path_.network.add_edge(node, local_[store.at]);
      continue;
    }
    if (store.interface.count > 0) {
      Resource resource{Stage::kStoreOut, store.name, store.interface.part.name,
                        store.machines * store.interface.count, Rational(store.interface.part.rate)};
      resource.work = crossings(load_.redundancy) * load_.sample;
      resource.reserved = reserved_of_interfaces(load_) * Rational(store.machines, machines);
      node = MR_TRY(add(node, std::move(resource)));
    }
    fabric.add_source(node, store.switch_name);
  }
  return {};
}

Status Builder::add_fabric(Fabric& fabric, Stage stage) {
  for (FabricLink& link : fabric.connect(path_.network)) {
    if (link.rate == 0) {
      path_.network.add_edge(link.from, link.to);
      continue;
    }
    Resource resource{stage, link.group, link.part, link.count, link.rate};
    resource.work = link.work;
    resource.order = link.order;
    const size_t behind = MR_TRY(add(link.from, std::move(resource)));
    path_.network.add_edge(behind, link.to);
  }
  return {};
}

Result<size_t> Builder::add_host(const Machines& group, size_t from, Host host) {
  const bool decodes = host == Host::kDecodes;
  const Rational in(decodes ? load_.sample : load_.decoded), out(load_.decoded);
  const bool is_cpu = group.gpus == 0;
  // Over the bus a sample comes in and goes out; in memory it is written and read each time.
  const size_t behind =
      MR_TRY(add_links(from, is_cpu ? Stage::kCpuBus : Stage::kGpuBus, group, group.bus, in + out));
  if (group.memory_rate == 0) return behind;
  Resource resource{is_cpu ? Stage::kCpuMemory : Stage::kGpuMemory, group.name, "memory", group.machines,
                    Rational(group.memory_rate)};
  resource.work = decodes ? 2 * (in + out) : 2 * out;
  return add(behind, std::move(resource));
}

Result<size_t> Builder::add_cores(const Machines& group, size_t from, Stage stage) {
  if (!load_.is_decoded() || group.cores == 0) return from;
  Resource resource{stage, group.name, group.core.name, group.machines * group.cores};
  // Whichever of taking in and giving out is slower.
  const bool by_input =
      group.core.out == 0 ||
      (group.core.in > 0 && Rational(group.core.in, load_.sample) <= Rational(group.core.out, load_.decoded));
  resource.unit = by_input ? group.core.in : group.core.out;
  resource.work = by_input ? load_.sample : load_.decoded;
  return add(from, std::move(resource));
}

Status Builder::add_gpu(const Machines& group, size_t arrived) {
  const bool decodes = plan_.cpus.empty() && load_.is_decoded();
  size_t node = MR_TRY(add_host(group, arrived, decodes ? Host::kDecodes : Host::kPassesOn));
  if (decodes) node = MR_TRY(add_cores(group, node, Stage::kGpuCores));
  Links links = group.link;
  links.count *= group.gpus;
  node = MR_TRY(add_links(node, Stage::kGpuLinks, group, links, Rational(load_.decoded)));
  Resource resource{Stage::kGpus, group.name, group.gpu.name, group.machines * group.gpus};
  resource.in_samples = group.gpu.rate == 0;
  resource.unit = resource.in_samples ? group.gpu.samples_per_second : Rational(group.gpu.rate);
  resource.work = resource.in_samples ? 1 : load_.decoded;
  node = MR_TRY(add(node, std::move(resource)));
  path_.network.add_edge(node, Network::kSink);
  return {};
}

Status Builder::add_cpus(Fabric& first, Fabric& second) {
  for (const Machines& group : plan_.cpus) {
    const size_t port = path_.network.add_node();
    first.add_sink(port, group.switch_name);
    size_t node = MR_TRY(add_links(port, Stage::kCpuIn, group, group.interface, Rational(load_.sample)));
    node = MR_TRY(add_host(group, node, Host::kDecodes));
    node = MR_TRY(add_cores(group, node, Stage::kCpuCores));
    node = MR_TRY(add_links(node, Stage::kCpuOut, group, group.interface, Rational(load_.decoded)));
    second.add_source(node, group.switch_name);
  }
  return {};
}

std::string Builder::place_of(const std::string& group) const {
  for (const Store& store : plan_.stores) {
    if (store.name == group) return store.place;
  }
  for (const Machines& machines : plan_.gpus) {
    if (machines.name == group) return machines.place;
  }
  return plan_.name;
}

Status Builder::check_connected() const {
  for (const Resource& resource : path_.resources) {
    const size_t behind = path_.network.edges()[resource.edge].to;
    const size_t before = path_.network.edges()[resource.edge].from;
    if (resource.stage == Stage::kDrives && !leads(path_.network, behind, Network::kSink))
      return make_error(Code::kInvalid, "{}: nothing leads from the {} to any GPU", place_of(resource.group),
                        resource.noun())
          .with_hint("the switches must be joined: uplink_to");
    if (resource.stage == Stage::kGpus && !leads(path_.network, Network::kSource, before))
      return make_error(Code::kInvalid, "{}: nothing leads from any drive to the {}",
                        place_of(resource.group), resource.noun())
          .with_hint("the switches must be joined: uplink_to");
  }
  return {};
}

Result<Path> Builder::build() {
  const Rational over_wire =
      exchanges() ? exchange_work() : Rational(load_.sample) * crossings(load_.redundancy);
  Fabric first(plan_, over_wire), second(plan_, Rational(load_.decoded));
  MR_TRY(add_sources(first));
  MR_TRY(add_cpus(first, second));
  Fabric& last = plan_.cpus.empty() ? first : second;
  const bool over_network = exchanges() || std::any_of(plan_.stores.begin(), plan_.stores.end(),
                                                       [](const Store& store) { return store.at.empty(); });
  std::map<std::string, size_t> arrivals;
  for (const Machines& group : plan_.gpus) {
    const size_t port = path_.network.add_node();
    const bool has_drives = local_.contains(group.name);
    const Rational work =
        exchanges() ? exchange_work() : Rational(plan_.cpus.empty() ? load_.sample : load_.decoded);
    if (exchanges() && has_drives) {
      const size_t out =
          MR_TRY(add_links(local_[group.name], Stage::kExchangeOut, group, group.interface, work));
      last.add_source(out, group.switch_name);
    }
    arrivals[group.name] = port;
    if (over_network) {
      last.add_sink(port, group.switch_name);
      arrivals[group.name] = MR_TRY(add_links(port, Stage::kGpuIn, group, group.interface, work));
    }
    if (!exchanges() && has_drives) path_.network.add_edge(local_[group.name], arrivals[group.name]);
  }
  if (!plan_.cpus.empty()) share_links(first, second);
  MR_TRY(add_fabric(first, Stage::kFabric));
  if (!plan_.cpus.empty()) MR_TRY(add_fabric(second, Stage::kFabricAgain));
  for (const Machines& group : plan_.gpus) MR_TRY(add_gpu(group, arrivals[group.name]));
  std::sort(path_.resources.begin(), path_.resources.end(), [](const Resource& a, const Resource& b) {
    return std::tuple(a.stage, a.order, a.edge) < std::tuple(b.stage, b.order, b.edge);
  });
  MR_TRY(check_connected());
  return std::move(path_);
}

}  // namespace

std::string Resource::noun() const {
  switch (stage) {
    case Stage::kDrives:
      return "drives of " + group;
    case Stage::kFabric:
    case Stage::kFabricAgain:
      return group;
    case Stage::kCpuBus:
    case Stage::kGpuBus:
      return "buses of " + group;
    case Stage::kCpuMemory:
    case Stage::kGpuMemory:
      return "memory of " + group;
    case Stage::kCpuCores:
    case Stage::kGpuCores:
      return "cores of " + group;
    case Stage::kCpuIn:
      return "interfaces into " + group;
    case Stage::kCpuOut:
    case Stage::kExchangeOut:
      return "interfaces out of " + group;
    case Stage::kGpuLinks:
      return "links to the GPUs of " + group;
    case Stage::kGpus:
      return "GPUs of " + group;
    default:
      return "interfaces of " + group;
  }
}

Rational drive_rate(const Workload& workload, const Part& drive) {
  return workload.access == Access::kRandom && drive.random > 0 ? drive.random : drive.rate;
}

Rational drive_work(const Workload& workload, const Store& store) {
  Rational work(workload.sample);
  if (store.at.empty() || store.replicated || workload.shuffle != Shuffle::kPartial) return work;
  // What leaves is read once more, what arrives is written.
  return work * (1 + workload.fraction +
                 workload.fraction * drive_rate(workload, store.drive) / write_rate(store.drive));
}

Rational reserved_of_drives(const Workload& workload, const Part& drive) {
  const Rational writing = drive_rate(workload, drive) / write_rate(drive);
  return workload.ingest * workload.redundancy.overhead() * writing +
         Rational(workload.recovery) * (workload.redundancy.data + writing);
}

Rational reserved_of_interfaces(const Workload& workload) {
  const Redundancy& redundancy = workload.redundancy;
  // The machine that takes new data in passes on what it does not keep; the one that rebuilds gathers.
  return Rational(workload.ingest) * (redundancy.overhead() - Rational(1, redundancy.data)) +
         Rational(workload.recovery) * redundancy.data;
}

Result<Path> make_path(const Installation& plan) {
  return Builder(plan).build();
}

}  // namespace millrace::plan
