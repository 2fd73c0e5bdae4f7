// millrace pls ingest: shards or a directory of classes into the sample stores of ranks.
#include <filesystem>
#include <numeric>

#include "base/file.h"
#include "base/number.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/pls.h"
#include "exchange/ingest.h"
#include "exchange/mpi_group.h"
#include "shard/names.h"

namespace millrace::cli {

namespace {

struct IngestFlags {
  std::vector<std::string> sources;
  std::string root;
  uint32_t ranks = 1;
  std::string partition = "random";
  uint64_t seed = 0;
  std::string classes;
  exchange::IngestOptions options;
  const CLI::Option* label = nullptr;
};

Result<std::unique_ptr<exchange::IngestSource>> open_source(Shell& shell, const IngestFlags& flags,
                                                            std::vector<std::string> classes) {
  std::error_code ignored;
  if (flags.sources.size() == 1 && std::filesystem::is_directory(flags.sources.front(), ignored))
    return exchange::open_folder(flags.sources.front(), {std::move(classes), {}});
  transfer::Stores* stores = MR_TRY(shell.stores());
  return exchange::open_shards(MR_TRY(shard::expand_names(flags.sources, stores)), *stores, &shell.progress);
}

// What training takes in an epoch where every rank gives equally many: the least that one holds, of each.
struct Shares {
  uint64_t least = UINT64_MAX;
  uint64_t most = 0;
  uint64_t all = 0;
  uint64_t ranks = 0;

  void add(uint64_t held) {
    least = std::min(least, held);
    most = std::max(most, held);
    all += held;
    ++ranks;
  }
  uint64_t per_epoch() const { return least * ranks; }
  // An odd sample here and there is not worth a word.
  bool leaves_some_out() const { return all - per_epoch() >= ranks; }
};

Result<Shares> count_shares(exchange::Group& group, const std::vector<exchange::Manifest>& manifests,
                            const exchange::Patience& patient) {
  Shares shares;
  if (!exchange::started_by_mpirun()) {
    for (const exchange::Manifest& one : manifests) shares.add(one.records.size());
    return shares;
  }
  const std::string own = std::to_string(manifests.front().records.size());
  for (const std::string& said : MR_TRY(exchange::gather_all(group, own, patient)))
    shares.add(parse_number<uint64_t>(said).value_or(0));
  return shares;
}

void warn_of_unequal(Shell& shell, const Shares& shares) {
  shell.log().warn(fmt::format(
      "ranks hold {} to {} samples: an epoch takes {} of each, {} of {} in all; --partition random or "
      "contiguous gives all ranks equally many",
      format_count(shares.least), format_count(shares.most), format_count(shares.least),
      format_count(shares.per_epoch()), format_count(shares.all)));
}

// What the ranks of this process took in.
struct Taken {
  const Stopwatch watch;
  std::vector<exchange::Manifest> manifests;
  uint64_t passed_over = 0;
  uint64_t classes = 0;
  uint64_t samples = 0;
  uint64_t unlabelled = 0;
  uint64_t bytes = 0;

  void count() {
    for (const exchange::Manifest& one : manifests) {
      classes = std::max<uint64_t>(classes, one.classes);
      samples += one.records.size();
      unlabelled += static_cast<uint64_t>(
          std::ranges::count(one.records, exchange::kNoLabel, &exchange::Record::label));
      bytes += one.live_bytes();
    }
  }
};

Result<exchange::IngestOptions> options_of(const IngestFlags& flags, const exchange::Group& group) {
  const bool by_mpirun = exchange::started_by_mpirun();
  exchange::IngestOptions options = flags.options;
  options.deal.partition = MR_TRY(exchange::parse_partition(flags.partition));
  options.deal.ranks = by_mpirun ? group.size() : flags.ranks;
  options.deal.seed = flags.seed;
  if (!flags.classes.empty())
    options.classes = MR_TRY(exchange::read_classes(flags.classes, exchange::ClassOrder::kByLine));
  if (options.deal.ranks > exchange::kMaxRanks)
    return make_error(Code::kInvalid, "{} ranks are too many: at most {}", options.deal.ranks,
                      exchange::kMaxRanks);
  if (by_mpirun) {
    options.ranks = {group.rank()};
  } else {
    options.ranks.resize(options.deal.ranks);
    std::iota(options.ranks.begin(), options.ranks.end(), 0);
  }
  return options;
}

void report(Shell& shell, const IngestFlags& flags, uint32_t rank, size_t ranks, const Taken& taken) {
  const std::string who = exchange::started_by_mpirun() ? fmt::format("rank {}: ", rank) : "";
  shell.say(fmt::format("{}took in {} samples, {} for {} rank{} in {:.1f} s", who,
                        format_count(taken.samples), format_bytes(taken.bytes), ranks, ranks == 1 ? "" : "s",
                        taken.watch.seconds()));
  if (taken.unlabelled > 0)
    shell.log().info("samples without a label", "field", flags.options.label_field, "count",
                     taken.unlabelled);
  if (taken.passed_over > 0 && rank == 0)
    shell.log().info("passed over files that are no samples (hidden, links, names without an extension)",
                     "count", taken.passed_over);
}

// Who would get how many samples. One rank looks and tells.
Status foresee(Shell& shell, const IngestFlags& flags, const exchange::IngestOptions& options) {
  const auto source = MR_TRY(open_source(shell, flags, options.classes));
  std::vector<uint64_t> samples(options.deal.ranks);
  for (const uint32_t owner : exchange::deal_samples(options.deal, source->per_shard())) ++samples[owner];
  if (shell.json) {
    Shell::print({{"dry_run", true},
                  {"ranks", options.deal.ranks},
                  {"samples", source->samples()},
                  {"per_rank", samples},
                  {"passed_over", source->passed_over()}});
    return {};
  }
  const auto [least, most] = std::ranges::minmax(samples);
  shell.say(fmt::format("would take {} samples into the stores of {} ranks below {}: {} to {} each",
                        format_count(source->samples()), options.deal.ranks, flags.root, format_count(least),
                        format_count(most)));
  return {};
}

Status run(Shell& shell, const IngestFlags& flags) {
  Taken taken;
  const auto group = MR_TRY(exchange::open_group());
  const exchange::IngestOptions options = MR_TRY(options_of(flags, *group));
  if (shell.dry_run) {
    const Status told = group->rank() == 0 ? foresee(shell, flags, options) : Status();
    return exchange::vote(*group, told, {uint64_t{86'400'000}, "looking at the samples"});
  }
  const auto take_in = [&]() -> Status {
    const auto bar = group->rank() == 0 ? shell.bar("taking in") : nullptr;
    const auto source = MR_TRY(open_source(shell, flags, options.classes));
    taken.manifests = MR_TRY(exchange::ingest(*source, flags.root, options));
    taken.passed_over = source->passed_over();
    return {};
  };
  const exchange::Patience patient{uint64_t{86'400'000}, "taking in samples"};
  MR_TRY(exchange::vote(*group, take_in(), patient));
  taken.count();
  for (const std::string& said : MR_TRY(exchange::gather_all(*group, std::to_string(taken.classes), patient)))
    taken.classes = std::max(taken.classes, parse_number<uint64_t>(said).value_or(0));
  if (flags.label->count() > 0 && taken.classes == 0)
    return make_error(Code::kInvalid, "no sample has a field \"{}\"", flags.options.label_field)
        .with_hint("millrace tar ls shows the fields of a shard");
  const Shares shares = MR_TRY(count_shares(*group, taken.manifests, patient));
  MR_TRY(exchange::vote(
      *group,
      exchange::finish_ingest(flags.root, std::move(taken.manifests), static_cast<uint32_t>(taken.classes)),
      patient));
  if (shares.leaves_some_out() && group->rank() == 0) warn_of_unequal(shell, shares);
  if (!shell.json) {
    report(shell, flags, group->rank(), options.ranks.size(), taken);
    return {};
  }
  Shell::print({{"rank", group->rank()},
                {"ranks", options.deal.ranks},
                {"samples", taken.samples},
                {"per_epoch", shares.per_epoch()},
                {"bytes", taken.bytes},
                {"classes", taken.classes},
                {"unlabelled", taken.unlabelled},
                {"passed_over", taken.passed_over},
                {"seconds", taken.watch.seconds()}});
  return {};
}

}  // namespace

void add_pls_ingest(CLI::App& pls, Shell& shell) {
  CLI::App* verb = pls.add_subcommand(
      "ingest", "Take samples into the stores of ranks, from shards or a directory of classes");
  verb->fallthrough();
  auto flags = std::make_shared<IngestFlags>();
  verb->add_option("source", flags->sources,
                   "Shards: names, ranges, globs, addresses; or one directory with a directory per class")
      ->required()
      ->type_name("SOURCE");
  verb->add_option("-o,--output", flags->root, "Where the stores go: DIR/rank-00000 and so on")
      ->required()
      ->type_name("DIR");
  verb->add_option("--ranks", flags->ranks,
                   "How many ranks; under mpirun as many as it started, each taking its own part")
      ->check(at_least_one())
      ->capture_default_str();
  verb->add_option("--partition", flags->partition, "Who gets what: random, contiguous or by-shard")
      ->type_name("random|contiguous|by-shard")
      ->capture_default_str();
  verb->add_option("--seed", flags->seed, "Which random partition")->capture_default_str();
  verb->add_option(
          "--classes", flags->classes,
          "Names of all classes, one a line: the line is the label, or the number behind a tab or blank")
      ->type_name("FILE");
  flags->label = verb->add_option("--label", flags->options.label_field, "The field that is the label")
                     ->capture_default_str();
  add_dry_run(*verb, shell);
  add_bytes(*verb, "--segment", flags->options.segment_bytes, "Size of a segment (default 64MiB)");
  verb->footer(
      "Examples:\n"
      "  millrace pls ingest 'train-{000000..000127}.tar' -o /local/pls --ranks 8\n"
      "  mpirun millrace pls ingest http://store:9400/train/train-@000128.tar -o /local/pls --partition "
      "by-shard\n"
      "  millrace pls ingest imagenet/train -o /local/pls --ranks 4 --classes class_to_idx.txt");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
