// Reads the tables of a plan into structs and refuses impossible values.
#include "plan/installation.h"

#include <algorithm>
#include <set>

#include "base/number.h"
#include "base/settings.h"

namespace millrace::plan {

namespace {

constexpr uint64_t kMostMachines = 1'000'000;
constexpr uint64_t kMostInMachine = 10'000;
constexpr uint64_t kMostGroups = 64;
constexpr uint64_t kMostSampleBytes = 1'000'000'000'000;

class Reader {
 public:
  Reader(const TomlDocument& document, Catalogue catalogue)
      : document_(document), catalogue_(std::move(catalogue)) {}

  Result<Workload> read_workload(const TomlValue& table);
  Result<Store> read_store(const TomlValue& table);
  Result<Switch> read_switch(const TomlValue& table);
  Result<Machines> read_machines(const TomlValue& table, std::string_view tier);
  Result<Simulated> read_simulated(const TomlValue& table);

 private:
  Part part(TomlFields& fields, Kind kind, std::string_view key);
  Links links(TomlFields& fields, std::string_view key, std::string_view count_key);
  uint64_t at_most(TomlFields& fields, std::string_view key, uint64_t fallback, uint64_t most);
  std::string name(TomlFields& fields, std::string_view tier);
  void read_dataset(TomlFields& fields, Workload& workload);

  const TomlDocument& document_;
  const Catalogue catalogue_;
  std::set<std::string> names_;  // of all groups: each once
};

Part Reader::part(TomlFields& fields, Kind kind, std::string_view key) {
  const std::string wanted = fields.text(key);
  if (wanted.empty()) {
    fields.fail(fields.wrong(key, "is missing").with_hint("millrace plan parts lists what there is"));
    return {};
  }
  auto found = catalogue_.get(kind, wanted);
  if (found) return found.take();
  Error error = found.take_error();
  const std::string hint = error.hint();
  fields.fail(fields.wrong(key, error.message()).with_hint(hint));
  return {};
}

uint64_t Reader::at_most(TomlFields& fields, std::string_view key, uint64_t fallback, uint64_t most) {
  const uint64_t value = fields.count(key, fallback);
  if (value >= 1 && value <= most) return value;
  fields.fail(fields.wrong(key, fmt::format("is {}, not a number from 1 to {}", value, most)));
  return 1;
}

Links Reader::links(TomlFields& fields, std::string_view key, std::string_view count_key) {
  const bool counted = !count_key.empty() && fields.has(count_key);
  if (!fields.has(key)) {
    if (counted) fields.fail(fields.wrong(count_key, fmt::format("counts nothing: {} is missing", key)));
    return {};
  }
  Links links;
  links.part = part(fields, Kind::kLink, key);
  links.count = count_key.empty() ? 1 : at_most(fields, count_key, 1, kMostInMachine);
  return links;
}

std::string Reader::name(TomlFields& fields, std::string_view tier) {
  const std::string name = fields.text("name", std::string(tier));
  if (name.find('.') != std::string::npos) fields.fail(fields.wrong("name", "must not have a dot"));
  if (!names_.insert(name).second)
    fields.fail(fields.wrong(
        "name", fmt::format("\"{}\" is there already: every group has a name of its own", name)));
  return name;
}

void Reader::read_dataset(TomlFields& fields, Workload& workload) {
  workload.sample = fields.bytes("sample");
  if (workload.sample == 0 || workload.sample > kMostSampleBytes)
    return fields.fail(fields.wrong("sample", "must be the stored bytes of a sample, from 1B to 1TB"));
  workload.decoded = fields.bytes("decoded", workload.sample);
  if (fields.has("compression")) {
    const Rational ratio = to_rational(fields.real("compression", 1));
    if (fields.has("decoded"))
      fields.fail(fields.wrong("compression", "and decoded say the same thing: give one"));
    const Rational bytes = ratio * workload.sample;
    workload.decoded = bytes > kMostSampleBytes ? kMostSampleBytes + 1 : ceiling(bytes);
  }
  if (workload.decoded == 0 || workload.decoded > kMostSampleBytes)
    fields.fail(fields.wrong("decoded", "must be the bytes of a sample as the GPU gets it, from 1B to 1TB"));
  const uint64_t dataset = fields.bytes("dataset");
  workload.samples = fields.count("samples", 0);
  if ((dataset > 0) == (workload.samples > 0))
    return fields.fail(fields.wrong("samples", "or dataset must say how much data there is, one of them"));
  if (workload.samples == 0) workload.samples = std::max<uint64_t>(1, dataset / workload.sample);
  workload.shard = fields.bytes("shard", uint64_t{1'000'000'000});
  if (workload.shard < workload.sample) workload.shard = workload.sample;
}

Result<Workload> Reader::read_workload(const TomlValue& table) {
  TomlFields fields(document_, table, "[workload]");
  Workload workload;
  workload.place = document_.place(table.at);
  read_dataset(fields, workload);
  workload.epochs = at_most(fields, "epochs", 1, 1'000'000);
  workload.access =
      fields.word("access", {"sequential", "random"}) == "random" ? Access::kRandom : Access::kSequential;
  const std::string shuffle = fields.word("shuffle", {"global", "local", "partial"});
  workload.shuffle = shuffle == "local"     ? Shuffle::kLocal
                     : shuffle == "partial" ? Shuffle::kPartial
                                            : Shuffle::kGlobal;
  const double fraction = fields.real("fraction", 0);
  if ((shuffle == "partial") != fields.has("fraction"))
    fields.fail(fields.wrong("fraction", "and shuffle = \"partial\" go together"));
  if (fraction > 1)
    fields.fail(fields.wrong("fraction", "is above 1: more than all samples cannot be exchanged"));
  workload.fraction = to_rational(fraction);
  auto redundancy = parse_redundancy(fields.text("redundancy", "none"));
  if (!redundancy)
    fields.fail(
        fields.wrong("redundancy", redundancy.error().message()).with_hint(redundancy.error().hint()));
  else
    workload.redundancy = redundancy.take();
  workload.ingest = fields.rate("ingest");
  workload.recovery = fields.rate("recovery");
  if (workload.recovery > 0 && workload.redundancy.parity == 0)
    fields.fail(fields.wrong("recovery", "needs redundancy: without it there is nothing to recover from"));
  MR_TRY(fields.finish());
  return workload;
}

Result<Store> Reader::read_store(const TomlValue& table) {
  Store store;
  store.place = document_.place(table.at);
  TomlFields fields(document_, table, "[[store]]");
  store.name = name(fields, "store");
  store.machines = at_most(fields, "count", 1, kMostMachines);
  store.drive = part(fields, Kind::kDrive, "drive");
  store.drives = at_most(fields, "drives", 1, kMostInMachine);
  store.interface = links(fields, "interface", "interfaces");
  store.switch_name = fields.text("switch");
  store.at = fields.text("at");
  store.replicated = fields.word("layout", {"partitioned", "replicated"}) == "replicated";
  store.price = to_rational(fields.real("price"));
  if (!store.at.empty() && (store.interface.count > 0 || !store.switch_name.empty() || fields.has("count")))
    fields.fail(fields.wrong(
        "at", "says that the drives are in GPU machines: count, interface and switch are theirs"));
  if (store.at.empty() && fields.has("layout"))
    fields.fail(fields.wrong("layout", "is for drives in the GPU machines (at = …)"));
  MR_TRY(fields.finish());
  return store;
}

Result<Switch> Reader::read_switch(const TomlValue& table) {
  Switch one;
  one.place = document_.place(table.at);
  TomlFields fields(document_, table, "[[switch]]");
  one.name = name(fields, "switch");
  one.rate = fields.rate("rate");
  one.uplink_to = fields.text("uplink_to");
  one.uplink = links(fields, "uplink", "uplinks");
  if (fields.has("oversubscription")) one.oversubscription = to_rational(fields.real("oversubscription"));
  one.price = to_rational(fields.real("price"));
  if (fields.has("oversubscription") && one.oversubscription == 0)
    fields.fail(
        fields.wrong("oversubscription", "must be above 0: 3 means that a third of what is below leads up"));
  const bool says_how = one.uplink.count > 0 || one.oversubscription > 0;
  if (one.uplink_to.empty() && says_how)
    fields.fail(fields.wrong("uplink_to", "is missing: where the way up leads"));
  if (one.uplink.count > 0 && one.oversubscription > 0)
    fields.fail(fields.wrong("oversubscription", "and uplinks say the same thing: give one"));
  MR_TRY(fields.finish());
  return one;
}

Result<Machines> Reader::read_machines(const TomlValue& table, std::string_view tier) {
  Machines group;
  group.place = document_.place(table.at);
  TomlFields fields(document_, table, fmt::format("[[{}]]", tier));
  group.name = name(fields, tier);
  group.machines = at_most(fields, "count", 1, kMostMachines);
  if (fields.has("cores")) {
    group.cores = at_most(fields, "cores", 1, kMostInMachine);
    group.core = part(fields, Kind::kCore, "core");
  } else if (fields.has("core")) {
    fields.fail(fields.wrong("cores", "is missing: how many"));
  }
  group.interface = links(fields, "interface", "interfaces");
  group.switch_name = fields.text("switch");
  group.memory_rate = fields.rate("memory");
  group.ram = fields.bytes("ram");
  group.bus = links(fields, "bus", "");
  group.price = to_rational(fields.real("price"));
  if (tier == "gpu") {
    group.gpus = at_most(fields, "gpus", 1, kMostInMachine);
    group.gpu = part(fields, Kind::kGpu, "gpu");
    group.link = links(fields, "link", "");
  }
  MR_TRY(fields.finish());
  return group;
}

Result<Simulated> Reader::read_simulated(const TomlValue& table) {
  TomlFields fields(document_, table, "[simulate]");
  Simulated simulated;
  simulated.readers = at_most(fields, "readers", simulated.readers, kMostInMachine);
  simulated.ahead = at_most(fields, "ahead", simulated.ahead, 1000);
  simulated.window = fields.bytes("window", simulated.window);
  simulated.buffer = fields.bytes("buffer", simulated.buffer);
  simulated.slow_drives = fields.count("slow_drives", 0);
  simulated.slow_to = to_rational(fields.real("slow_to", 0.1));
  simulated.seed = fields.count("seed", simulated.seed);
  if (simulated.window == 0) fields.fail(fields.wrong("window", "must be above 0"));
  if (simulated.slow_to == 0 || simulated.slow_to > 1)
    fields.fail(fields.wrong("slow_to",
                             "must be above 0 and at most 1: the part of its rate that a slow drive keeps"));
  MR_TRY(fields.finish());
  return simulated;
}

Result<std::vector<const TomlValue*>> tables_of(const TomlDocument& document, std::string_view key) {
  std::vector<const TomlValue*> tables;
  const TomlValue* list = document.root.find(key);
  if (list == nullptr) return tables;
  const bool is_list = list->kind == TomlValue::Kind::kList && list->items.size() <= kMostGroups;
  for (const TomlValue& item : list->items) {
    if (is_list && item.kind == TomlValue::Kind::kTable) tables.push_back(&item);
  }
  if (!is_list || tables.size() != list->items.size())
    return make_error(Code::kInvalid, "{}: {} must be at most {} tables, each headed [[{}]]",
                      document.place(list->at), key, kMostGroups, key);
  return tables;
}

Status check_root(const TomlDocument& document) {
  TomlFields fields(document, document.root, "the plan");
  fields.text("name");
  for (const char* key : {"workload", "part", "store", "switch", "cpu", "gpu", "simulate"}) fields.has(key);
  MR_TRY(fields.finish());
  for (const char* key : {"workload", "store", "gpu"}) {
    if (document.root.find(key) != nullptr) continue;
    const bool is_list = std::string_view(key) != "workload";
    return make_error(Code::kInvalid, "{}: there is no {}{}{}", document.name, is_list ? "[[" : "[", key,
                      is_list ? "]]" : "]")
        .with_hint("millrace plan size -o FILE writes a plan to start from");
  }
  for (const char* key : {"workload", "simulate"}) {
    const TomlValue* table = document.root.find(key);
    if (table != nullptr && table->kind != TomlValue::Kind::kTable)
      return make_error(Code::kInvalid, "{}: {} must be one table, headed [{}]", document.place(table->at),
                        key, key);
  }
  return {};
}

Result<std::string> find_switch(const Installation& plan, const std::string& wanted,
                                const std::string& place) {
  if (wanted.empty() && plan.switches.empty()) return std::string();
  if (wanted.empty() && plan.switches.size() == 1) return plan.switches[0].name;
  std::vector<std::string> names;
  for (const Switch& one : plan.switches) {
    if (one.name == wanted) return wanted;
    names.push_back(one.name);
  }
  const std::string near = nearest_word(wanted, names);
  return make_error(Code::kInvalid, "{}: switch \"{}\" is not there", place, wanted)
      .with_hint(near.empty() ? "name one of the [[switch]] tables"
                              : fmt::format("did you mean \"{}\"?", near));
}

// Names resolved; every way up ends.
Status connect(Installation& plan) {
  for (Switch& one : plan.switches) {
    if (!one.uplink_to.empty()) one.uplink_to = MR_TRY(find_switch(plan, one.uplink_to, one.place));
  }
  for (const Switch& one : plan.switches) {
    const Switch* at = &one;
    for (size_t steps = 0; !at->uplink_to.empty(); ++steps) {
      if (steps > plan.switches.size())
        return make_error(Code::kInvalid, "{}: the ways up from switch {} go round in a circle", one.place,
                          one.name);
      at = &*std::find_if(plan.switches.begin(), plan.switches.end(),
                          [at](const Switch& other) { return other.name == at->uplink_to; });
    }
  }
  for (Machines& group : plan.cpus)
    group.switch_name = MR_TRY(find_switch(plan, group.switch_name, group.place));
  for (Machines& group : plan.gpus)
    group.switch_name = MR_TRY(find_switch(plan, group.switch_name, group.place));
  for (Store& store : plan.stores) {
    if (store.at.empty()) {
      store.switch_name = MR_TRY(find_switch(plan, store.switch_name, store.place));
      continue;
    }
    const auto where = std::find_if(plan.gpus.begin(), plan.gpus.end(),
                                    [&store](const Machines& group) { return group.name == store.at; });
    if (where == plan.gpus.end())
      return make_error(Code::kInvalid, "{}: store {} is at \"{}\", but no [[gpu]] has that name",
                        store.place, store.name, store.at);
    store.machines = where->machines;
  }
  return {};
}

Status check_whole(const Installation& plan) {
  bool local = false, remote = false;
  for (const Store& store : plan.stores) (store.at.empty() ? remote : local) = true;
  const std::string& place = plan.stores[0].place;
  if (local && !plan.cpus.empty())
    return make_error(Code::kInvalid, "{}: drives in the GPU machines cannot feed a [[cpu]] tier", place)
        .with_hint("give the [[gpu]] machines cores and leave out [[cpu]]");
  if (local && remote && plan.workload.shuffle != Shuffle::kLocal)
    return make_error(Code::kInvalid,
                      "{}: drives in the GPU machines beside a store need shuffle = \"local\"", place)
        .with_hint("plan them one at a time");
  if (plan.workload.shuffle == Shuffle::kPartial && !local)
    return make_error(Code::kInvalid,
                      "{}: partial shuffling exchanges samples between drives in the GPU machines", place)
        .with_hint("put at = \"" + plan.gpus[0].name + "\" into the [[store]], or shuffle = \"global\"");
  // Each machine trains on its own drives: two kinds of them are two flows that do not mix.
  if (plan.workload.shuffle == Shuffle::kPartial && plan.gpus.size() > 1)
    return make_error(Code::kInvalid, "{}: partial shuffling over several [[gpu]] groups is not planned",
                      plan.gpus[1].place)
        .with_hint("plan each group alone, with its part of the data");
  for (const Machines& group : plan.gpus) {
    if (!plan.cpus.empty() && group.cores > 0)
      return make_error(Code::kInvalid,
                        "{}: [[gpu]] {} has cores, and there is a [[cpu]] tier: which decodes?", group.place,
                        group.name)
          .with_hint("leave out one of them");
    if (plan.cpus.empty() && plan.workload.is_decoded() && group.cores == 0)
      return make_error(Code::kInvalid, "{}: samples of {} bytes become {} bytes, but nothing decodes them",
                        group.place, plan.workload.sample, plan.workload.decoded)
          .with_hint("give [[gpu]] " + group.name + " cores and a core, or add a [[cpu]] tier");
  }
  for (const Machines& group : plan.cpus) {
    if (group.cores == 0)
      return make_error(Code::kInvalid, "{}: [[cpu]] {} has no cores", group.place, group.name);
  }
  return {};
}

}  // namespace

Result<Redundancy> parse_redundancy(std::string_view text) {
  constexpr uint64_t kMost = 64;
  const auto wrong = [text] {
    return make_error(Code::kInvalid, "\"{}\" is not a redundancy", text)
        .with_hint("none, copies=2, or ec=8+2 for 8 slices of data and 2 of parity");
  };
  const auto number = [](std::string_view digits) -> uint64_t {
    const uint64_t value = parse_number<uint64_t>(digits).value_or(0);
    return value <= kMost ? value : 0;
  };
  Redundancy redundancy;
  if (text == "none") return redundancy;
  if (text.starts_with("copies=")) {
    const uint64_t copies = number(text.substr(7));
    if (copies == 0) return wrong();
    redundancy.parity = copies - 1;
    return redundancy;
  }
  const size_t plus = text.find('+');
  if (!text.starts_with("ec=") || plus == std::string_view::npos) return wrong();
  redundancy.data = number(text.substr(3, plus - 3));
  redundancy.parity = number(text.substr(plus + 1));
  if (redundancy.data < 2 || redundancy.parity == 0) return wrong();
  return redundancy;
}

uint64_t Installation::gpu_count() const {
  uint64_t count = 0;
  for (const Machines& group : gpus) count += group.machines * group.gpus;
  return count;
}

Result<Installation> read_installation(const TomlDocument& document) {
  MR_TRY(check_root(document));
  Catalogue catalogue = MR_TRY(Catalogue::standard());
  MR_TRY(catalogue.add(document));
  Reader reader(document, std::move(catalogue));
  Installation plan;
  TomlFields root(document, document.root, "the plan");
  plan.name = root.text("name", document.name);
  plan.workload = MR_TRY(reader.read_workload(*document.root.find("workload")));
  for (const TomlValue* table : MR_TRY(tables_of(document, "store")))
    plan.stores.push_back(MR_TRY(reader.read_store(*table)));
  for (const TomlValue* table : MR_TRY(tables_of(document, "switch")))
    plan.switches.push_back(MR_TRY(reader.read_switch(*table)));
  for (const TomlValue* table : MR_TRY(tables_of(document, "cpu")))
    plan.cpus.push_back(MR_TRY(reader.read_machines(*table, "cpu")));
  for (const TomlValue* table : MR_TRY(tables_of(document, "gpu")))
    plan.gpus.push_back(MR_TRY(reader.read_machines(*table, "gpu")));
  if (const TomlValue* table = document.root.find("simulate"))
    plan.simulated = MR_TRY(reader.read_simulated(*table));
  if (plan.stores.empty() || plan.gpus.empty())
    return make_error(Code::kInvalid, "{}: a plan needs at least one [[store]] and one [[gpu]]",
                      document.name);
  MR_TRY(connect(plan));
  MR_TRY(check_whole(plan));
  return plan;
}

}  // namespace millrace::plan
