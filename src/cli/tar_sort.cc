// millrace tar sort and shuffle: any number of samples in bounded memory.
#include "base/text.h"
#include "base/units.h"
#include "cli/common.h"
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
  unsigned jobs = default_jobs();
};

void add_flags(CLI::App& verb, SortFlags& flags) {
  flags.input.add_to(verb);
  flags.output.add_to(verb);
  add_bytes(verb, "--memory", flags.memory,
            "Memory to use (default 1GiB); what does not fit goes to temporary files");
  verb.add_option("--tmpdir", flags.temporary_directory,
                  "Where temporary files go (default: beside the output)")
      ->type_name("DIR");
  add_jobs(verb, flags.jobs, "Threads that read");
}

Status run(Shell& shell, const SortFlags& flags, shard::SortBy by) {
  const Stopwatch watch;
  shard::SortOptions options;
  options.by = by;
  options.field = lower_case(flags.field);
  options.seed = flags.seed;
  options.reverse = flags.reverse;
  options.memory = flags.memory;
  options.jobs = flags.jobs;
  options.input = MR_TRY(flags.input.options(shell));
  options.temporary_directory =
      flags.temporary_directory.empty() ? flags.output.temporary_directory() : flags.temporary_directory;
  const std::vector<std::string> names = MR_TRY(flags.input.names(shell));
  const auto writer = MR_TRY(flags.output.writer(shell, flags.input));
  shard::SortReport report;
  {
    const auto bar = shell.bar(by == shard::SortBy::kRandom ? "shuffling" : "sorting");
    report = MR_TRY(
        shard::sort_samples(names, options, [&](const tar::Sample& sample) { return writer->add(sample); }));
  }
  const auto shards = MR_TRY(writer->finish());
  note_loose(shell, report.loose_members);
  shell.log().debug("sorted", "samples", report.samples, "runs", report.runs, "spilled_bytes",
                    report.spilled_bytes);
  report_shards(shell, flags.output, shards, watch,
                {{"runs", report.runs}, {"spilled_bytes", report.spilled_bytes}});
  return {};
}

}  // namespace

void add_tar_sort(CLI::App& tar, Shell& shell) {
  CLI::App* verb =
      tar.add_subcommand("sort", "Order samples by key or by a field; equal ones keep their order");
  verb->fallthrough();
  auto flags = std::make_shared<SortFlags>();
  add_flags(*verb, *flags);
  CLI::Option* field =
      verb->add_option("--by", flags->field, "Order by this field instead of the key")->type_name("FIELD");
  verb->add_flag("--number", flags->number, "The field is a number")->needs(field);
  verb->add_flag("--reverse", flags->reverse, "Largest first");
  verb->footer(
      "Examples:\n"
      "  millrace tar sort 'train-*.tar' -o sorted-%06d.tar\n"
      "  millrace tar sort --by cls --number --memory 256MiB 'train-*.tar' -o by-class-%06d.tar");
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
  add_flags(*verb, *flags);
  verb->add_option("--seed", flags->seed, "Which random order; the same seed gives the same bytes")
      ->capture_default_str();
  verb->footer(
      "Example:\n  millrace tar shuffle --seed 7 --memory 256MiB 'train-*.tar' -o shuffled-%06d.tar");
  verb->callback([&shell, flags] {
    shell.action = [&shell, flags] { return run(shell, *flags, shard::SortBy::kRandom); };
  });
}

}  // namespace millrace::cli
