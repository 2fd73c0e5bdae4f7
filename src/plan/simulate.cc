// Turns a plan into stations, readers and windows, and runs the simulation.
#include "plan/simulate.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "base/random.h"
#include "base/units.h"
#include "plan/stations.h"
#include "plan/ways.h"

namespace millrace::plan {

namespace {

constexpr uint64_t kMostStations = 4'000'000;
constexpr uint64_t kMostReaders = 4'000'000;
constexpr uint64_t kMostInFlight = 8'000'000;  // windows, some 150 bytes each
constexpr double kWarmUp = 0.3;                // of the windows of a steady stretch are not counted

struct Reader {
  uint64_t shard = 0;
  uint64_t left = 0;         // windows of its shard not yet asked for
  uint64_t position = 0;     // the next of them
  uint32_t outstanding = 0;  // asked for and not yet here
  uint32_t way = 0;
  bool ready = true;  // stands in its machine's queue
};

struct Machine {
  uint32_t group = 0;    // of the plan's GPU groups
  uint32_t number = 0;   // in its group
  uint64_t credits = 0;  // windows it may still hold
  std::vector<Reader> readers;
  std::deque<uint32_t> ready;  // readers that may ask for more, in turn
};

class Run {
 public:
  Run(const Installation& plan, const SimulationOptions& options) : plan_(plan), options_(options) {}
  Result<Simulation> run();

 private:
  Status prepare();
  Status check_bounds() const;
  Status make_stations();
  void make_machines();
  bool open_shard(Machine& machine, Reader& reader);
  void ask(uint32_t machine);
  void arrive(uint32_t machine, uint32_t reader);
  void send(uint32_t machine, uint32_t reader);
  uint64_t drive_of(uint64_t shard, uint64_t position, uint64_t drives) const;
  void recover();
  void loop();
  void finish_window(uint32_t id);
  Simulation report() const;
  void explain(Simulation& result) const;
  uint64_t instances(const Resource& resource) const;
  const Store& store_of(const Resource& resource) const;

  const Installation& plan_;
  const SimulationOptions options_;
  Check check_;
  std::vector<Resource> quiet_;  // the resources without recovery, which is simulated
  std::vector<Way> ways_;
  std::vector<std::vector<uint32_t>> ways_of_;  // by GPU group
  std::vector<uint32_t> base_;                  // by resource: its first station
  std::vector<Machine> machines_;
  Stations stations_;
  uint64_t window_ = 0;  // bytes
  double samples_ = 0;   // in a window
  uint64_t shards_ = 0;
  uint64_t shard_windows_ = 0;
  uint64_t total_ = 0;  // windows to simulate
  uint64_t next_shard_ = 0;
  uint64_t done_ = 0;
  uint64_t counted_from_ = 0;  // windows done when counting began
  uint64_t start_ = 0;         // and the time
  uint64_t first_ = 0;
  uint64_t recovered_at_ = 0;
  uint64_t recoveries_ = 0;
};

const Store& Run::store_of(const Resource& resource) const {
  return *std::find_if(plan_.stores.begin(), plan_.stores.end(),
                       [&resource](const Store& store) { return store.name == resource.group; });
}

uint64_t Run::instances(const Resource& resource) const {
  if (resource.stage == Stage::kDrives) return resource.count;
  if (resource.stage == Stage::kFabric || resource.stage == Stage::kFabricAgain) return 1;
  if (resource.stage == Stage::kStoreOut) return store_of(resource).machines;
  for (const auto* tier : {&plan_.cpus, &plan_.gpus}) {
    for (const Machines& group : *tier) {
      if (group.name == resource.group) return group.machines;
    }
  }
  return 1;
}

Status Run::prepare() {
  const Workload& load = plan_.workload;
  check_ = MR_TRY(check(plan_));
  Installation quiet = plan_;
  quiet.workload.recovery = 0;
  quiet_ = MR_TRY(make_path(quiet)).resources;
  ways_ = find_ways(check_);
  for (const Way& way : ways_) {
    if (way.resources.size() > kMostStops)
      return make_error(Code::kUnsupported, "a way through more than {} parts is too long to simulate",
                        kMostStops);
  }
  window_ = std::max(plan_.simulated.window, load.sample);
  samples_ = static_cast<double>(window_) / static_cast<double>(load.sample);
  shard_windows_ = std::max<uint64_t>(1, (load.shard + window_ / 2) / window_);
  shards_ = std::max<uint64_t>(1, ceiling(load.dataset() / load.shard));
  total_ = options_.most_windows;
  if (options_.extent == Extent::kEpoch) {
    if (shards_ > options_.most_windows / shard_windows_)
      return make_error(Code::kTooLarge, "an epoch has {} windows, more than {}",
                        format_count(shards_) + " x " + format_count(shard_windows_), options_.most_windows)
          .with_hint("a larger [simulate] window, a smaller dataset, or a steady stretch");
    total_ = shards_ * shard_windows_;
  }
  if (options_.progress != nullptr) options_.progress->expect(total_ * window_);
  MR_TRY(check_bounds());
  MR_TRY(make_stations());
  make_machines();
  return {};
}

Status Run::check_bounds() const {
  const Simulated& how = plan_.simulated;
  uint64_t stations = 0, machines = 0;
  for (const Resource& one : quiet_) stations += instances(one);
  for (const Machines& group : plan_.gpus) machines += group.machines;
  const uint64_t held = std::min(std::max<uint64_t>(1, how.buffer / window_), how.readers * how.ahead);
  if (stations <= kMostStations && machines <= kMostReaders / how.readers && machines <= kMostInFlight / held)
    return {};
  return make_error(
             Code::kTooLarge,
             "{} drives and machines with {} readers and {} windows in flight each are too many to simulate",
             format_count(stations), format_count(how.readers), format_count(held))
      .with_hint("fewer [simulate] readers, a smaller buffer, or a part of the installation");
}

Status Run::make_stations() {
  for (const Resource& one : quiet_) {
    const uint64_t count = instances(one);
    const bool is_pool = one.stage == Stage::kCpuCores || one.stage == Stage::kGpuCores ||
                         one.stage == Stage::kGpuLinks || one.stage == Stage::kGpus;
    const uint64_t servers = is_pool ? one.count / count : 1;
    const double rate = to_double((one.total() - one.reserved) / (count * servers));
    const double seconds = samples_ * to_double(one.work) / rate;
    if (!(seconds * kPicoseconds * static_cast<double>(total_) < 1.7e19))
      return make_error(Code::kUnsupported, "a window takes {:.3g} s at the {}: too long to simulate",
                        seconds, one.noun())
          .with_hint("a smaller [simulate] window");
    base_.push_back(0);
    for (uint64_t at = 0; at < count; ++at) {
      const bool slow = one.stage == Stage::kDrives && at < plan_.simulated.slow_drives;
      const uint32_t id = stations_.add(slow ? seconds / to_double(plan_.simulated.slow_to) : seconds,
                                        static_cast<uint32_t>(servers));
      if (at == 0) base_.back() = id;
    }
  }
  return {};
}

void Run::make_machines() {
  ways_of_.resize(plan_.gpus.size());
  for (uint32_t group = 0; group < plan_.gpus.size(); ++group) {
    for (uint32_t way = 0; way < ways_.size(); ++way) {
      if (quiet_[ways_[way].resources.back()].group == plan_.gpus[group].name) ways_of_[group].push_back(way);
    }
    if (ways_of_[group].empty()) continue;  // the flow does not need it
    for (uint32_t number = 0; number < plan_.gpus[group].machines; ++number) {
      Machine machine;
      machine.group = group;
      machine.number = number;
      machine.credits = std::max<uint64_t>(1, plan_.simulated.buffer / window_);
      machine.readers.resize(plan_.simulated.readers);
      for (uint32_t reader = 0; reader < machine.readers.size(); ++reader) machine.ready.push_back(reader);
      machines_.push_back(std::move(machine));
    }
  }
}

bool Run::open_shard(Machine& machine, Reader& reader) {
  if (options_.extent == Extent::kEpoch && next_shard_ >= shards_) return false;
  // An order of its own for every epoch; what counts here is only that neighbours are not neighbours.
  const uint64_t turn = next_shard_++;
  reader.shard = turn % shards_;
  reader.left = shard_windows_;
  reader.position = 0;
  const uint64_t key = mix(plan_.simulated.seed ^ mix(turn));
  const std::vector<uint32_t>& ways = ways_of_[machine.group];
  double sum = 0;
  for (const uint32_t way : ways) sum += ways_[way].share;
  double drawn = static_cast<double>(key >> 11) * 0x1p-53 * sum;
  reader.way = ways.back();
  for (const uint32_t way : ways) {
    drawn -= ways_[way].share;
    if (drawn < 0) {
      reader.way = way;
      break;
    }
  }
  return true;
}

// Which of the drives of its group a window lies on: a shard's own, or one of its slices', or any at random
// access.
uint64_t Run::drive_of(uint64_t shard, uint64_t position, uint64_t drives) const {
  const Redundancy& redundancy = plan_.workload.redundancy;
  uint64_t part = redundancy.is_coded() ? position % redundancy.data : 0;
  if (plan_.workload.access == Access::kRandom) part = position;
  const uint64_t key = mix(mix(plan_.simulated.seed + 1) ^ mix(shard * 1'000'003 + part));
  // While something is rebuilt the first drive is gone.
  const uint64_t gone = plan_.workload.recovery > 0 && drives > 1 ? 1 : 0;
  return gone + key % (drives - gone);
}

void Run::send(uint32_t machine, uint32_t reader_number) {
  Machine& owner = machines_[machine];
  Reader& reader = owner.readers[reader_number];
  const Way& way = ways_[reader.way];
  const uint32_t id = stations_.make_job();
  Job& job = stations_.job(id);
  job.owner = machine;
  job.reader = reader_number;
  job.arrival = static_cast<uint32_t>(way.arrival);
  const Resource& drives = quiet_[way.resources[0]];
  const Store& store = store_of(drives);
  const bool own_drives =
      !store.at.empty() && (store.replicated || plan_.workload.shuffle != Shuffle::kGlobal);
  uint64_t drive = drive_of(reader.shard, reader.position, own_drives ? store.drives : drives.count);
  if (own_drives) drive += owner.number * store.drives;
  const uint64_t key = mix(reader.shard * 31 + reader.position);
  for (const size_t resource : way.resources) {
    const Resource& one = quiet_[resource];
    uint64_t instance = 0;
    if (one.stage == Stage::kDrives) {
      instance = drive;
    } else if (one.stage == Stage::kStoreOut || one.stage == Stage::kExchangeOut) {
      instance = drive / store.drives;
    } else if (one.stage >= Stage::kGpuIn) {
      instance = owner.number;
    } else if (one.stage != Stage::kFabric && one.stage != Stage::kFabricAgain) {
      instance = key % instances(one);
    }
    job.stops[job.length++] = base_[resource] + static_cast<uint32_t>(instance);
  }
  --owner.credits;
  --reader.left;
  ++reader.position;
  ++reader.outstanding;
  stations_.enter(id);
}

void Run::ask(uint32_t number) {
  Machine& machine = machines_[number];
  while (machine.credits > 0 && !machine.ready.empty()) {
    const uint32_t turn = machine.ready.front();
    machine.ready.pop_front();
    Reader& reader = machine.readers[turn];
    reader.ready = false;
    // A reader opens its next shard when all of the last is here.
    if (reader.left == 0 && (reader.outstanding > 0 || !open_shard(machine, reader))) continue;
    send(number, turn);
    if (reader.left == 0 || reader.outstanding >= plan_.simulated.ahead) continue;
    reader.ready = true;
    machine.ready.push_back(turn);
  }
}

void Run::arrive(uint32_t owner, uint32_t reader_number) {
  Reader& reader = machines_[owner].readers[reader_number];
  --reader.outstanding;
  if (reader.ready) return;
  reader.ready = true;
  machines_[owner].ready.push_back(reader_number);
}

// One window rebuilt: its slices or copy read somewhere, the result written somewhere else.
void Run::recover() {
  const uint64_t reads = plan_.workload.redundancy.data;
  for (uint64_t slice = 0; slice <= reads; ++slice) {
    const Way& way = ways_[recoveries_ % ways_.size()];
    const Resource& drives = quiet_[way.resources[0]];
    const uint64_t key = mix(recoveries_ * 128 + slice);
    const uint64_t any = drives.count > 1 ? 1 + key % (drives.count - 1) : 0;
    const uint32_t id = stations_.make_job();
    Job& job = stations_.job(id);
    job.owner = UINT32_MAX;
    job.stops[job.length++] = base_[way.resources[0]] + static_cast<uint32_t>(any);
    if (slice < reads && way.resources.size() > 1 && quiet_[way.resources[1]].stage == Stage::kStoreOut)
      job.stops[job.length++] =
          base_[way.resources[1]] + static_cast<uint32_t>(any / store_of(drives).drives);
    stations_.enter(id);
  }
  ++recoveries_;
  recovered_at_ += static_cast<uint64_t>(static_cast<double>(window_) /
                                         static_cast<double>(plan_.workload.recovery) * kPicoseconds);
}

void Run::finish_window(uint32_t id) {
  const uint32_t owner = stations_.job(id).owner;
  stations_.free_job(id);
  ++machines_[owner].credits;
  if (done_++ == 0) first_ = stations_.now();
  if (options_.progress != nullptr && done_ % 4096 == 0) options_.progress->add(4096 * window_, 0);
  if (options_.extent == Extent::kSteady &&
      done_ == static_cast<uint64_t>(kWarmUp * static_cast<double>(total_))) {
    counted_from_ = done_;
    start_ = stations_.now();
    stations_.forget_busy();
  }
}

void Run::loop() {
  for (uint32_t number = 0; number < machines_.size(); ++number) ask(number);
  while (done_ < total_) {
    const auto time = stations_.next_time();
    if (!time) break;
    if (plan_.workload.recovery > 0 && recovered_at_ <= *time) {
      stations_.set_now(recovered_at_);
      recover();
      continue;
    }
    const uint32_t id = *stations_.next();
    Job& job = stations_.job(id);
    ++job.at;
    if (job.owner == UINT32_MAX) {
      if (job.at == job.length) {
        stations_.free_job(id);
      } else {
        stations_.enter(id);
      }
      continue;
    }
    const uint32_t owner = job.owner;
    const bool arrived = job.at == job.arrival;
    if (arrived) arrive(owner, job.reader);
    const bool ended = job.at == job.length;
    if (ended) {
      finish_window(id);
    } else {
      stations_.enter(id);
    }
    if (arrived || ended) ask(owner);
  }
}

void Run::explain(Simulation& result) const {
  const Simulated& how = plan_.simulated;
  uint64_t drives = 0;
  for (const Resource& one : quiet_) drives += one.stage == Stage::kDrives ? one.count : 0;
  const uint64_t open = machines_.size() * how.readers;
  const auto note = [&result](std::string sentence) { result.notes.push_back(std::move(sentence)); };
  if (shards_ < 4 * drives && plan_.workload.access == Access::kSequential &&
      !plan_.workload.redundancy.is_coded())
    note(fmt::format("{} shards on {} drives: some drives have much more to do than others",
                     format_count(shards_), format_count(drives)));
  if (how.slow_drives > 0)
    note(fmt::format("{} of {} drives at {} of their rate: whoever reads from them waits", how.slow_drives,
                     format_count(drives), format_percent(how.slow_to)));
  if (plan_.workload.recovery > 0)
    note(fmt::format("{}/s are rebuilt: {} bytes are read for every byte",
                     format_bytes(plan_.workload.recovery), plan_.workload.redundancy.data));
  if (result.share() > 0.97) return;
  if (open < 32 * drives)
    note(fmt::format(
        "{} readers for {} drives: where several read from one drive others rest; more readers, or an "
        "erasure code, which spreads a shard over several drives",
        format_count(open), format_count(drives)));
  if (how.buffer / window_ < 2 * how.readers)
    note(fmt::format("a buffer of {} holds {} windows for {} readers: a larger buffer",
                     format_bytes(how.buffer), std::max<uint64_t>(1, how.buffer / window_), how.readers));
  const double start = result.first_seconds / result.seconds;
  if (options_.extent == Extent::kEpoch && start > 0.02)
    note(fmt::format("the start takes {:.0f} % of it: {:.2f} s until the first samples are in a GPU",
                     start * 100, result.first_seconds));
}

Simulation Run::report() const {
  Simulation result;
  const double time = static_cast<double>(stations_.now() - start_) / kPicoseconds;
  result.samples_per_second = static_cast<double>(done_ - counted_from_) * samples_ / time;
  result.expected = to_double(check_.samples_per_second);
  result.seconds = static_cast<double>(stations_.now()) / kPicoseconds;
  result.first_seconds = static_cast<double>(first_) / kPicoseconds;
  result.windows = done_;
  result.events = stations_.events();
  result.gpu_utilisation = result.samples_per_second / to_double(check_.demand);
  for (size_t at = 0; at < quiet_.size(); ++at) {
    Busy busy{quiet_[at].noun(), 0, 0};
    const uint64_t count = instances(quiet_[at]);
    for (uint64_t number = 0; number < count; ++number) {
      const double one = stations_.utilisation(base_[at] + static_cast<uint32_t>(number), start_);
      busy.mean += one / static_cast<double>(count);
      busy.most = std::max(busy.most, one);
    }
    result.busy.push_back(std::move(busy));
  }
  explain(result);
  return result;
}

Result<Simulation> Run::run() {
  MR_TRY(prepare());
  loop();
  return report();
}

}  // namespace

Result<Simulation> simulate(const Installation& plan, const SimulationOptions& options) {
  return Run(plan, options).run();
}

}  // namespace millrace::plan
