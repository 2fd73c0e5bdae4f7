// Computes the bottleneck of a plan, the ladder behind it and the cost.
#include "plan/check.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/assert.h"
#include "base/units.h"

namespace millrace::plan {

namespace {

constexpr size_t kMostRungs = 16;

std::string join(const std::vector<std::string>& words) {
  constexpr size_t kMostNamed = 4;
  const size_t named = words.size() > kMostNamed ? kMostNamed - 1 : words.size();
  std::string out;
  for (size_t i = 0; i < named; ++i) out += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return named == words.size() ? out : fmt::format("{} and {} more", out, words.size() - named);
}

bool is_gpus(const Check& check, const Rung& rung) {
  return std::all_of(rung.resources.begin(), rung.resources.end(),
                     [&](size_t at) { return check.path.resources[at].stage == Stage::kGpus; });
}

std::string describe(const Resource& resource) {
  return fmt::format("{} x {} at {}", format_count(resource.count), resource.part,
                     format_rate(resource, resource.unit));
}

std::string first_sentence(const Check& check, const Rung& rung) {
  std::vector<std::string> nouns, parts;
  for (const size_t at : rung.resources) {
    nouns.push_back(check.path.resources[at].noun());
    parts.push_back(describe(check.path.resources[at]));
  }
  if (is_gpus(check, rung)) return fmt::format("The {} are 100 % busy: nothing holds them up.", join(nouns));
  return fmt::format("The {} limit: {}; the GPUs are {} busy.", join(nouns), join(parts),
                     format_percent(check.gpu_utilisation()));
}

std::string later_sentence(const Check& check, const Rung& rung) {
  std::vector<std::string> nouns;
  for (const size_t at : rung.resources) nouns.push_back(check.path.resources[at].noun());
  const Rational share = rung.samples_per_second / check.demand;
  return fmt::format("then the {}, at {} samples/s ({} of what the GPUs take)", join(nouns),
                     format_count(static_cast<uint64_t>(to_double(rung.samples_per_second))),
                     format_percent(share));
}

// Widens cut after cut until nothing is left that limits.
Status climb(Check& check) {
  Network network = check.path.network;
  Flow flow = check.flow;
  while (!flow.unlimited && check.ladder.size() < kMostRungs) {
    Rung rung;
    rung.samples_per_second = flow.value;
    for (size_t at = 0; at < check.path.resources.size(); ++at) {
      const size_t edge = check.path.resources[at].edge;
      if (std::find(flow.cut.begin(), flow.cut.end(), edge) == flow.cut.end()) continue;
      rung.resources.push_back(at);
      network.set_capacity(edge, std::nullopt);
    }
    rung.sentence = check.ladder.empty() ? first_sentence(check, rung) : later_sentence(check, rung);
    check.ladder.push_back(std::move(rung));
    flow = MR_TRY(max_flow(network));
  }
  return {};
}

// Of all flows that are as large the one that asks least of the busiest part of a stage: data is spread over
// all drives, and GPUs keep step. The share that all of them must give is raised, cut by cut, until the flow
// is whole.
Result<Flow> even_out(Network& network, const std::vector<Resource>& resources, Stage stage,
                      const Rational& value) {
  Rational all = 0;
  for (const Resource& one : resources) all += one.stage == stage ? one.capacity : Rational(0);
  Rational share = value / all;
  while (true) {
    for (const Resource& one : resources) {
      if (one.stage == stage) network.set_capacity(one.edge, one.capacity * share);
    }
    Flow flow = MR_TRY(max_flow(network));
    if (flow.value == value) return flow;
    Rational of_stage = 0, others = 0;
    for (const size_t edge : flow.cut) {
      const auto resource = std::find_if(resources.begin(), resources.end(),
                                         [edge](const Resource& one) { return one.edge == edge; });
      const bool is_scaled = resource != resources.end() && resource->stage == stage;
      (is_scaled ? of_stage : others) += is_scaled ? resource->capacity : *network.edges()[edge].capacity;
    }
    MR_ASSERT(of_stage > 0);
    share = (value - others) / of_stage;
  }
}

class Bill {
 public:
  void add(const Part& part, Rational count) { add(part.name, part.price, std::move(count)); }
  void add(const std::string& name, const Rational& price, Rational count) {
    if (count == 0) return;
    cost_.dollars += price * count;
    if (price == 0) unpriced_.insert(name);
  }
  Cost take() {
    cost_.unpriced.assign(unpriced_.begin(), unpriced_.end());
    return std::move(cost_);
  }

 private:
  Cost cost_;
  std::set<std::string> unpriced_;
};

Cost cost_of(const Installation& plan) {
  Bill bill;
  for (const Store& store : plan.stores) {
    bill.add(store.drive, Rational(store.machines) * store.drives);
    bill.add(store.interface.part, Rational(store.machines) * store.interface.count);
    if (store.at.empty()) bill.add("machines of " + store.name, store.price, Rational(store.machines));
  }
  for (const Switch& one : plan.switches) bill.add("switch " + one.name, one.price, 1);
  for (const auto* tier : {&plan.cpus, &plan.gpus}) {
    for (const Machines& group : *tier) {
      bill.add("machines of " + group.name, group.price, Rational(group.machines));
      bill.add(group.interface.part, Rational(group.machines) * group.interface.count);
      bill.add(group.gpu, Rational(group.machines) * group.gpus);
    }
  }
  return bill.take();
}

Room room_of(const Installation& plan) {
  Room room;
  room.needed = plan.workload.dataset() * plan.workload.redundancy.overhead();
  // What arrives must be there before what leaves is gone.
  if (plan.workload.shuffle == Shuffle::kPartial) room.needed *= 1 + plan.workload.fraction;
  for (const Store& store : plan.stores) {
    if (store.drive.capacity == 0) return {room.needed, 0};
    room.available += Rational(store.replicated ? 1 : store.machines) * store.drives * store.drive.capacity;
  }
  return room;
}

}  // namespace

Rational Check::used(const Resource& resource) const {
  return flow.on_edge[resource.edge] * resource.work + resource.reserved;
}

bool Check::limits(size_t resource) const {
  const std::vector<size_t>& first = ladder[0].resources;
  return std::find(first.begin(), first.end(), resource) != first.end();
}

uint64_t Check::needed(const Resource& resource) const {
  // Groups that stand side by side keep their shares of the stage.
  Rational stage = 0;
  for (const Resource& other : path.resources) {
    if (other.stage == resource.stage) stage += other.capacity;
  }
  const Rational share = resource.stage == Stage::kFabric || resource.stage == Stage::kFabricAgain
                             ? Rational(1)
                             : resource.capacity / stage;
  return ceiling((demand * share * resource.work + resource.reserved) / resource.unit);
}

Result<Check> check(const Installation& plan) {
  Check result;
  result.path = MR_TRY(make_path(plan));
  result.flow = MR_TRY(max_flow(result.path.network));
  result.samples_per_second = result.flow.value;
  result.demand = 0;
  for (const Resource& resource : result.path.resources) {
    if (resource.stage == Stage::kGpus) result.demand += resource.capacity;
  }
  result.delivered = result.samples_per_second * plan.workload.decoded;
  result.read = result.samples_per_second * plan.workload.sample;
  result.epoch_seconds = Rational(plan.workload.samples) / result.samples_per_second;
  MR_TRY(climb(result));
  Network network = result.path.network;
  for (const Stage stage : {Stage::kDrives, Stage::kGpus})
    result.flow = MR_TRY(even_out(network, result.path.resources, stage, result.samples_per_second));
  result.cost = cost_of(plan);
  result.room = room_of(plan);
  return result;
}

std::string format_rate(const Rational& bytes) {
  return format_bytes(static_cast<uint64_t>(std::llround(std::min(to_double(bytes), 9e18)))) + "/s";
}

std::string format_rate(const Resource& resource, const Rational& amount) {
  if (!resource.in_samples) return format_rate(amount);
  const double samples = to_double(amount);
  return samples < 100 ? fmt::format("{:.1f} samples/s", samples)
                       : format_count(static_cast<uint64_t>(std::llround(samples))) + " samples/s";
}

std::string format_used(const Resource& resource, const Rational& used) {
  std::string first = format_rate(resource, used);
  if (resource.in_samples) first.resize(first.find(" samples/s"));
  return first + " of " + format_rate(resource, resource.total());
}

std::string format_percent(const Rational& share) {
  const double percent = to_double(share) * 100;
  // Almost all is not all.
  if (share < 1 && percent > 99.9) return "99.9 %";
  return percent < 9.95 ? fmt::format("{:.1f} %", percent) : fmt::format("{:.0f} %", percent);
}

std::string format_seconds(const Rational& seconds) {
  const double value = to_double(seconds);
  if (value < 120) return fmt::format("{:.1f} seconds", value);
  if (value < 7200) return fmt::format("{:.1f} minutes", value / 60);
  if (value < 172800) return fmt::format("{:.1f} hours", value / 3600);
  return fmt::format("{:.1f} days", value / 86400);
}

std::string format_dollars(const Rational& dollars) {
  return "$" + format_count(static_cast<uint64_t>(std::llround(std::min(to_double(dollars), 9e18))));
}

std::string format_duration(const Rational& seconds) {
  constexpr double kDay = 86400, kWeek = 7 * kDay;
  const double value = to_double(seconds);
  const auto whole = [](double amount, const char* unit) {
    const auto rounded = static_cast<uint64_t>(std::llround(amount));
    return fmt::format("{} {}{}", rounded, unit, rounded == 1 ? "" : "s");
  };
  if (value < kDay) return whole(value / 3600, "hour");
  if (value < kWeek) return whole(value / kDay, "day");
  return whole(value / kWeek, "week");
}

}  // namespace millrace::plan
