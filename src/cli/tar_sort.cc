// millrace tar sort, shuffle and reshard: any number of samples in bounded memory, by one process or, under
// mpirun, by all ranks together.
#include "base/text.h"
#include "base/units.h"
#include "cli/pls.h"
#include "cli/together.h"
#include "exchange/mpi_group.h"
#include "exchange/rank_sort.h"
#include "shard/sort.h"

namespace millrace::cli {

namespace {

struct SortFlags {
  InputFlags input;
  OutputFlags output;
  std::string field;
  bool number = false;
  bool reverse = false;
  uint64_t seed = 0;
  uint64_t memory = uint64_t{1} << 30;
  std::string temporary_directory;
  std::string reread = "auto";
  unsigned jobs = default_jobs();
  double timeout_s = 600;
};

void add_flags(CLI::App& verb, Shell& shell, SortFlags& flags) {
  flags.input.add_to(verb);
  flags.output.add_to(verb, shell);
  add_bytes(verb, "--memory", flags.memory,
            "Memory to use (default 1GiB); what does not fit goes to temporary files");
  verb.add_option("--tmpdir", flags.temporary_directory,
                  "Where temporary files go (default: beside the output)")
      ->type_name("DIR");
  verb.add_option(
          "--reread", flags.reread,
          "Sort where samples lie and read them again when they are written: auto (where the inputs are "
          "files that fit into memory), always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}).description(""))
      ->type_name("auto|always|never")
      ->capture_default_str();
  add_jobs(verb, flags.jobs, "Threads that read, without mpirun");
  verb.add_option("--timeout", flags.timeout_s,
                  "Under mpirun: seconds without progress after which ranks give up")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

std::string_view doing(shard::SortBy by) {
  if (by == shard::SortBy::kRandom) return "shuffling";
  return by == shard::SortBy::kPlace ? "copying" : "sorting";
}

Result<shard::SortOptions> sort_options(Shell& shell, const SortFlags& flags, shard::SortBy by) {
  shard::SortOptions options;
  options.by = by;
  options.field = lower_case(flags.field);
  options.seed = flags.seed;
  options.reverse = flags.reverse;
  options.memory = flags.memory;
  options.jobs = flags.jobs;
  options.reread = flags.reread == "auto"     ? shard::Reread::kAuto
                   : flags.reread == "always" ? shard::Reread::kAlways
                                              : shard::Reread::kNever;
  options.input = MR_TRY(flags.input.options(shell));
  options.temporary_directory =
      flags.temporary_directory.empty() ? flags.output.temporary_directory() : flags.temporary_directory;
  return options;
}

void tell(Shell& shell, const SortFlags& flags, const exchange::RankSortReport& done,
          const Stopwatch& watch) {
  note_loose(shell, done.sort.loose_members);
  shell.log().debug("sorted", "samples", done.sort.samples, "runs", done.sort.runs, "spilled_bytes",
                    done.sort.spilled_bytes);
  report_shards(shell, flags.output, done.shards, watch,
                {{"runs", done.sort.runs}, {"spilled_bytes", done.sort.spilled_bytes}});
}

// Under mpirun: every rank does its part, rank 0 tells.
Status run_together(Shell& shell, const SortFlags& flags, shard::SortBy by) {
  const Stopwatch watch;
  const auto group = MR_TRY(exchange::open_mpi_group());
  exchange::RankSortOptions options;
  options.sort = MR_TRY(sort_options(shell, flags, by));
  const std::vector<std::string> names = MR_TRY(flags.input.names(shell));
  MR_TRY(check_together(names, flags.output.output));
  options.name = MR_TRY(flags.output.name(shell));
  options.limits = flags.output.limits();
  options.output = MR_TRY(flags.output.writer_options(shell, flags.input));
  options.timeout_ms = static_cast<uint64_t>(flags.timeout_s * 1000);
  auto bar = group->rank() == 0 ? shell.bar(std::string(doing(by))) : nullptr;
  auto done = exchange::sort_over_ranks(*group, names, options);
  bar.reset();
  if (!done && done.error().code() == Code::kUnavailable) {
    fmt::print(stderr, "millrace: rank {}: {}\n", group->rank(), done.error().message());
    exchange::abort_mpi(1);
  }
  const exchange::RankSortReport report = MR_TRY(std::move(done));
  if (group->rank() == 0) tell(shell, flags, report, watch);
  return {};
}

Status run(Shell& shell, const SortFlags& flags, shard::SortBy by) {
  if (exchange::started_by_mpirun()) return run_together(shell, flags, by);
  const Stopwatch watch;
  const shard::SortOptions options = MR_TRY(sort_options(shell, flags, by));
  const std::vector<std::string> names = MR_TRY(flags.input.names(shell));
  const auto writer = MR_TRY(flags.output.writer(shell, flags.input));
  exchange::RankSortReport report;
  {
    const auto bar = shell.bar(std::string(doing(by)));
    report.sort = MR_TRY(
        shard::sort_samples(names, options, [&](const tar::Sample& sample) { return writer->add(sample); }));
  }
  report.shards = MR_TRY(writer->finish());
  tell(shell, flags, report, watch);
  return {};
}

}  // namespace

void add_tar_sort(CLI::App& tar, Shell& shell) {
  CLI::App* verb =
      tar.add_subcommand("sort", "Order samples by key or by a field; equal ones keep their order");
  verb->fallthrough();
  auto flags = std::make_shared<SortFlags>();
  add_flags(*verb, shell, *flags);
  CLI::Option* field =
      verb->add_option("--by", flags->field, "Order by this field instead of the key")->type_name("FIELD");
  verb->add_flag("--number", flags->number, "The field is a number")->needs(field);
  verb->add_flag("--reverse", flags->reverse, "Largest first");
  verb->footer(
      "Examples:\n"
      "  millrace tar sort 'train-*.tar' -o sorted-%06d.tar\n"
      "  millrace tar sort --by cls --number --memory 256MiB 'train-*.tar' -o by-class-%06d.tar\n"
      "  mpirun -n 8 millrace tar sort 'mr://train/*.tar' -o mr://sorted/s-%06d.tar");
  verb->callback([&shell, flags] {
    const auto by = flags->field.empty() ? shard::SortBy::kKey
                    : flags->number      ? shard::SortBy::kNumber
                                         : shard::SortBy::kText;
    shell.action = [&shell, flags, by] { return run(shell, *flags, by); };
  });
}

void add_tar_shuffle(CLI::App& tar, Shell& shell) {
  CLI::App* verb = tar.add_subcommand("shuffle", "Put all samples of all shards in random order");
  verb->fallthrough();
  auto flags = std::make_shared<SortFlags>();
  add_flags(*verb, shell, *flags);
  verb->add_option("--seed", flags->seed, "Which random order; the same seed gives the same bytes")
      ->capture_default_str();
  verb->footer(
      "Examples:\n"
      "  millrace tar shuffle --seed 7 --memory 256MiB 'train-*.tar' -o shuffled-%06d.tar\n"
      "  mpirun -n 4 millrace tar shuffle --seed 7 'train-*.tar' -o shuffled-%06d.tar    (the same bytes)");
  verb->callback([&shell, flags] {
    shell.action = [&shell, flags] { return run(shell, *flags, shard::SortBy::kRandom); };
  });
}

void add_tar_reshard(CLI::App& tar, Shell& shell) {
  CLI::App* verb = tar.add_subcommand("reshard", "Cut samples into shards anew, in the order they stand in");
  verb->fallthrough();
  auto flags = std::make_shared<SortFlags>();
  add_flags(*verb, shell, *flags);
  verb->footer(
      "Examples:\n"
      "  millrace tar reshard --max-bytes 500MB 'train-*.tar' -o even-%06d.tar\n"
      "  mpirun -n 8 millrace tar reshard --max-samples 10000 'mr://train/*.tar' -o mr://even/s-%06d.tar");
  verb->callback([&shell, flags] {
    shell.action = [&shell, flags] { return run(shell, *flags, shard::SortBy::kPlace); };
  });
}

}  // namespace millrace::cli
