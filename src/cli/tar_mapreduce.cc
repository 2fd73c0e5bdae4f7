// millrace tar mapreduce: shards to records, groups of records to samples, by one process on this machine.
#include <cstdlib>

#include "base/threads.h"
#include "cli/common.h"
#include "cli/together.h"
#include "exchange/mpi_group.h"
#include "exchange/rank_sort.h"
#include "shard/map.h"
#include "shard/mapreduce.h"
#include "shard/sort.h"

namespace millrace::cli {

namespace {

struct MapReduceFlags {
  InputFlags input;
  OutputFlags output;
  std::string mapper;
  std::string combiner;
  std::string reducer;
  unsigned jobs = default_jobs();
  uint64_t memory = uint64_t{256} << 20;
  std::string temporary_directory;
  double timeout_s = 600;
};

// What all tasks of a stage did; they run on several threads.
class Totals {
 public:
  Status add(const shard::MapReduceReport& one, const std::string& directory) {
    const MutexLock lock(mutex_);
    report_.records += one.records;
    report_.groups += one.groups;
    report_.samples += one.samples;
    report_.bytes_out += one.bytes_out;
    return shard::add_counters(directory + "/counters", counters_);
  }
  shard::MapReduceReport report() const {
    const MutexLock lock(mutex_);
    return report_;
  }
  shard::Counters counters() const {
    const MutexLock lock(mutex_);
    return counters_;
  }

 private:
  mutable Mutex mutex_;
  shard::MapReduceReport report_ MR_GUARDED_BY(mutex_);
  shard::Counters counters_ MR_GUARDED_BY(mutex_);
};

// The words of a command, with the file that it counts in.
std::vector<std::string> words_of(const std::string& command, const std::string& directory) {
  if (command.empty()) return {};
  return {"env", fmt::format("{}={}/counters", shard::kCountersVariable, directory), "/bin/sh", "-c",
          command};
}

class Run {
 public:
  // `together`: null without mpirun.
  Run(Shell& shell, const MapReduceFlags& flags, std::string directory, Together* together)
      : shell_(shell), flags_(flags), directory_(std::move(directory)), together_(together) {}

  Status run() {
    const Stopwatch watch;
    place_.input = MR_TRY(flags_.input.options(shell_));
    place_.output = MR_TRY(flags_.output.writer_options(shell_, flags_.input));
    place_.memory = flags_.memory;
    const std::vector<std::string> names = MR_TRY(flags_.input.names(shell_));
    if (together_ != nullptr) MR_TRY(check_together(names, flags_.output.output));
    const shard::OutputName output = MR_TRY(flags_.output.name(shell_));
    const auto bar = shell_.bar("mapping");
    MR_TRY(share(names.size(), "mapping", [&](size_t number) { return map(names[number], number); }));
    MR_TRY(sort(names.size()));
    MR_TRY(
        share(sorted_.size(), "reducing", [&](size_t number) { return reduce(number, output.at(number)); }));
    MR_TRY(add_up());
    if (together_ == nullptr || together_->is_first()) tell(watch);
    return {};
  }

 private:
  Status share(size_t count, std::string_view doing, const std::function<Status(size_t)>& work) {
    if (together_ != nullptr) return together_->share(count, flags_.jobs, doing, work);
    return run_each(count, flags_.jobs, work);
  }

  // What all ranks did.
  Status add_up() {
    report_ = reduced_.report();
    records_ = mapped_.report().records;
    counters_ = mapped_.counters();
    for (const auto& [name, value] : reduced_.counters()) counters_[name] += value;
    if (together_ == nullptr) return {};
    for (uint64_t* const sum :
         {&records_, &report_.records, &report_.groups, &report_.samples, &report_.bytes_out})
      *sum = MR_TRY(together_->sum(*sum));
    const std::string own = Json(counters_).dump(-1, ' ', false, Json::error_handler_t::replace);
    counters_.clear();
    for (const std::string& said :
         MR_TRY(gather_all(together_->group(), own, together_->patience("reporting")))) {
      const Json counters = Json::parse(said, nullptr, false);
      if (!counters.is_object()) continue;
      for (const auto& [name, value] : counters.items()) counters_[name] += value.get<int64_t>();
    }
    return {};
  }

  void tell(const Stopwatch& watch) const {
    if (shell_.json) {
      Shell::print({{"shards", sorted_.size()},
                    {"records", records_},
                    {"groups", report_.groups},
                    {"samples", report_.samples},
                    {"bytes_out", report_.bytes_out},
                    {"counters", counters_},
                    {"seconds", watch.seconds()}});
      return;
    }
    shell_.say(fmt::format("{} groups of {} records became {} samples in {} shards, in {:.1f} s",
                           report_.groups, report_.records, report_.samples, sorted_.size(),
                           watch.seconds()));
    for (const auto& [name, value] : counters_) shell_.say(fmt::format("  {}: {}", name, value));
  }

  std::string mapped_name(size_t number) const { return fmt::format("{}/map-{:07}.tar", directory_, number); }

  Status map(const std::string& name, size_t number) {
    const auto own = MR_TRY(shard::PrivateDirectory::make(directory_));
    shard::MapRecords task;
    task.mapper = words_of(flags_.mapper, own.path());
    task.combiner = words_of(flags_.combiner, own.path());
    task.input = name;
    task.output = mapped_name(number);
    task.number = number;
    shard::MapReducePlace place = place_;
    place.output = {};
    place.directory = own.path();
    return mapped_.add(MR_TRY(shard::map_records(task, place)), own.path());
  }

  Status sort(size_t inputs) {
    std::vector<std::string> names;
    for (size_t number = 0; number < inputs; ++number) names.push_back(mapped_name(number));
    shard::SortOptions options;
    options.by = shard::SortBy::kText;
    options.field = shard::kGroupField;
    options.memory = flags_.memory;
    options.temporary_directory = directory_;
    options.jobs = flags_.jobs;
    const auto pattern = MR_TRY(shard::OutputName::parse(directory_ + "/sorted-%07d.tar"));
    if (together_ != nullptr) {
      exchange::RankSortOptions over_ranks;
      over_ranks.sort = options;
      over_ranks.name = pattern;
      over_ranks.limits = flags_.output.limits();
      over_ranks.timeout_ms = together_->timeout_ms();
      for (const auto& one : MR_TRY(sort_over_ranks(together_->group(), names, over_ranks)).shards)
        sorted_.push_back(one.path);
      return {};
    }
    shard::ShardWriter writer(pattern, flags_.output.limits(), {});
    MR_TRY(
        shard::sort_samples(names, options, [&](const tar::Sample& sample) { return writer.add(sample); }));
    for (const shard::ShardSummary& one : MR_TRY(writer.finish())) sorted_.push_back(one.path);
    return {};
  }

  Status reduce(size_t number, const std::string& output) {
    const auto own = MR_TRY(shard::PrivateDirectory::make(directory_));
    shard::ReduceGroups task;
    task.reducer = words_of(flags_.reducer, own.path());
    task.sorted = sorted_;
    task.at = number;
    task.output = output;
    shard::MapReducePlace place = place_;
    place.directory = own.path();
    return reduced_.add(MR_TRY(shard::reduce_groups(task, place)), own.path());
  }

  Shell& shell_;
  const MapReduceFlags& flags_;
  const std::string directory_;
  Together* const together_;
  shard::MapReducePlace place_;
  std::vector<std::string> sorted_;
  Totals mapped_;
  Totals reduced_;
  shard::MapReduceReport report_;  // of all reducers
  uint64_t records_ = 0;
  shard::Counters counters_;
};

Status run(Shell& shell, const MapReduceFlags& flags) {
  MR_TRY(check_memory(flags.memory));
  if (!MR_TRY(flags.output.name(shell)).numbered())
    return make_error(Code::kInvalid, "{}: the output needs a number in its name", flags.output.output)
        .with_hint("for example part-%06d.tar");
  const char* const temporary = std::getenv("TMPDIR");
  const std::string parent = flags.temporary_directory.empty() ? (temporary != nullptr ? temporary : "/tmp")
                                                               : flags.temporary_directory;
  if (exchange::started_by_mpirun()) {
    const auto together = MR_TRY(Together::begin(parent, flags.timeout_s));
    return Run(shell, flags, together->directory(), together.get()).run();
  }
  const auto directory = MR_TRY(shard::PrivateDirectory::make(parent));
  return Run(shell, flags, directory.path(), nullptr).run();
}

}  // namespace

void add_tar_mapreduce(CLI::App& tar, Shell& shell) {
  CLI::App* verb = tar.add_subcommand(
      "mapreduce", "Turn shards into records, and groups of records with one key into samples");
  verb->fallthrough();
  auto flags = std::make_shared<MapReduceFlags>();
  flags->input.add_to(*verb);
  flags->output.add_to(*verb, shell);
  verb->add_option("--map", flags->mapper, "A command line that reads a shard and writes records, both tar")
      ->required();
  verb->add_option("--combine", flags->combiner, "A command line like that of --reduce, behind each mapper");
  verb->add_option("--reduce", flags->reducer,
                   "A command line that reads groups of records by key and writes samples, both tar")
      ->required();
  add_jobs(*verb, flags->jobs, "Commands at a time");
  add_bytes(*verb, "--memory", flags->memory, "For sorting, and for a record (default 256MiB)");
  verb->add_option("--tmpdir", flags->temporary_directory,
                   "Where records are kept between the commands (default: TMPDIR or /tmp)")
      ->type_name("DIR");
  verb->add_option("--timeout", flags->timeout_s,
                   "Under mpirun: seconds without progress after which ranks give up")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->footer(
      "A mapper may use a key as often as it likes: adjacent members with one key are a record. A reducer\n"
      "finds the records of a key as KEY/000000000.FIELD, KEY/000000001.FIELD, ..., keys in order. Lines\n"
      "\"NAME NUMBER\" that commands append to $MILLRACE_COUNTERS are summed up.\n\n"
      "Example:\n"
      "  millrace tar mapreduce 'train-*.tar' -o counts-%06d.tar --map 'python3 classes.py map' \\\n"
      "    --reduce 'python3 classes.py reduce'\n"
      "  mpirun -n 8 millrace tar mapreduce 'train-*.tar' -o counts-%06d.tar --tmpdir /shared/tmp --map ... "
      "--reduce ...");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
