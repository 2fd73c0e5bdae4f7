// millrace load: runs a loader without Python, and reports how fast batches come, what limits them, and how
// busy a simulated accelerator would be.
#include <thread>

#include "base/file.h"
#include "base/units.h"
#include "cli/common.h"
#include "loader/loader.h"
#include "loader/report.h"
#include "loader/spec.h"
#include "loader/trace.h"
#include "plan/accelerators.h"

namespace millrace::cli {

namespace {

using plan::Accelerator;

struct LoadFlags {
  std::vector<std::string> shards;
  std::string fields = "key";
  std::string end = "exact";
  std::string on_error = "fail";
  std::string accelerator;
  std::string trace;
  std::string key_rule = "first-dot";
  bool stream = false;
  uint64_t epochs = 1;
  uint64_t batches = 0;
  loader::Start start;
  loader::Recipe recipe;
};

Result<const Accelerator*> find_accelerator(const std::string& name) {
  std::string known;
  for (const Accelerator& one : plan::accelerators()) {
    if (one.name == name) return &one;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", one.name);
  }
  return make_error(Code::kInvalid, "{} is not a known accelerator", name).with_hint("one of: " + known);
}

struct Ran {
  uint64_t batches = 0;
  double compute_seconds = 0;
  double overslept_seconds = 0;  // what computing took longer than it should
  double total_seconds = 0;      // from the first batch on
};

// A computer too busy to wake in time simulates no accelerator.
constexpr double kMostOverslept = 0.05;

// An accelerator that computes while the next batch is made; its first batch is its start.
Result<Ran> run_batches(Shell& shell, loader::Loader& batches, const Accelerator* accelerator,
                        uint64_t most) {
  Ran ran;
  std::optional<Stopwatch> watch;
  while (most == 0 || ran.batches < most) {
    const std::shared_ptr<loader::Batch> batch = MR_TRY(batches.next());
    if (!batch) break;
    const auto begun = std::chrono::steady_clock::now();
    if (!watch) watch.emplace();
    ++ran.batches;
    shell.progress.add(0, batch->size);
    if (accelerator == nullptr) continue;
    const double share = static_cast<double>(batch->size) / static_cast<double>(accelerator->batch);
    const auto step = std::chrono::duration<double>(accelerator->seconds * share);
    const auto end = begun + std::chrono::duration_cast<std::chrono::steady_clock::duration>(step);
    std::this_thread::sleep_until(end);
    ran.compute_seconds += step.count();
    ran.overslept_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - end).count();
  }
  if (watch) ran.total_seconds = watch->seconds();
  return ran;
}

Status tell(Shell& shell, const loader::Loader& batches, const Ran& ran, const Accelerator* accelerator) {
  const loader::Report report = loader::make_report(batches);
  const double busy = ran.total_seconds > 0 ? ran.compute_seconds / ran.total_seconds : 0;
  const double overslept = ran.compute_seconds > 0 ? ran.overslept_seconds / ran.compute_seconds : 0;
  if (shell.json) {
    Json line = Json::parse(loader::format_report_json(report));
    if (accelerator != nullptr) {
      line["accelerator"] = accelerator->name;
      line["accelerator_utilisation"] = busy;
      line["accelerator_overslept"] = overslept;
    }
    Shell::print(line);
  } else {
    fmt::print("{}", loader::format_report(report));
    if (accelerator != nullptr)
      fmt::print("accelerator utilisation: {:.3f} ({}, {} samples a step)\n", busy, accelerator->name,
                 accelerator->batch);
    for (const loader::Fault& fault : batches.faults()) shell.say("left out: " + fault.what);
  }
  if (overslept <= kMostOverslept) return {};
  return make_error(Code::kUnavailable,
                    "the simulated accelerator overslept by {:.0f} %: its utilisation does not count",
                    100 * overslept)
      .with_hint("this computer is too busy; at most 5 % are accepted");
}

Status run(Shell& shell, LoadFlags& flags) {
  const Accelerator* accelerator = nullptr;
  loader::Recipe recipe = flags.recipe;
  if (!flags.accelerator.empty()) {
    accelerator = MR_TRY(find_accelerator(flags.accelerator));
    if (recipe.batch == 0) recipe.batch = accelerator->batch;
  }
  if (recipe.batch == 0) recipe.batch = 64;
  recipe.fields = MR_TRY(loader::parse_fields(flags.fields));
  recipe.end = MR_TRY(loader::parse_epoch_end(flags.end));
  recipe.on_error = MR_TRY(loader::parse_on_error(flags.on_error));
  MR_TRY(check_memory(recipe.memory));
  transfer::Stores* stores = MR_TRY(shell.stores());
  loader::CatalogueOptions options;
  options.names = MR_TRY(shard::expand_names(flags.shards, stores));
  options.indexed = !flags.stream;
  options.key_rule = MR_TRY(tar::parse_key_rule(flags.key_rule));
  std::shared_ptr<const loader::Catalogue> catalogue;
  {
    const auto bar = shell.bar("opening");
    options.progress = &shell.progress;
    catalogue = MR_TRY(loader::Catalogue::open(*stores, std::move(options)));
  }
  if (!flags.stream) {
    shell.say(fmt::format("{} shards, {} samples, {}", format_count(catalogue->shards().size()),
                          format_count(catalogue->samples()), format_bytes(catalogue->bytes())));
  }
  loader::Start start = flags.start;
  start.epochs = flags.epochs;
  const auto trace = flags.trace.empty() ? nullptr : std::make_shared<loader::Trace>();
  const auto batches = MR_TRY(loader::Loader::open(catalogue, recipe, start, {nullptr, trace}));
  Ran ran;
  {
    const auto bar = shell.bar("loading");
    ran = MR_TRY(run_batches(shell, *batches, accelerator, flags.batches));
  }
  if (trace) {
    MR_TRY(write_file_atomically(flags.trace, trace->json()));
    shell.say(fmt::format("the timeline is in {}: open it in a browser's tracing view", flags.trace));
  }
  if (ran.batches == 0 && recipe.end == loader::EpochEnd::kDrop) {
    shell.log().warn(
        "there was no batch: --end drop leaves out the last one where it is not full; a smaller --batch or "
        "--end exact gives what there is",
        "batch", recipe.batch, "world", start.world);
  }
  return tell(shell, *batches, ran, accelerator);
}

}  // namespace

void add_load(CLI::App& app, Shell& shell) {
  CLI::App* verb = app.add_subcommand("load", "Batches from shards, and which stage limits them");
  auto flags = std::make_shared<LoadFlags>();
  flags->recipe.batch = 0;
  verb->fallthrough();
  verb->add_option("shards", flags->shards, "Shards: names, ranges, globs, addresses")
      ->required()
      ->type_name("SHARD");
  verb->add_option("--spec", flags->fields, "Fields to make of each sample: kind:fields:options …")
      ->type_name("SPEC")
      ->capture_default_str();
  verb->add_option("--batch", flags->recipe.batch,
                   "Samples in a batch, over all ranks (64, or the accelerator's)")
      ->check(at_least_one());
  verb->add_option("--shuffle", flags->recipe.window, "Samples in the shuffle window; 0: in order")
      ->capture_default_str();
  verb->add_option("--seed", flags->recipe.seed, "Which random order")->capture_default_str();
  verb->add_option("--epoch", flags->start.epoch, "The first epoch")->capture_default_str();
  verb->add_option("--epochs", flags->epochs, "How many")->check(at_least_one())->capture_default_str();
  verb->add_option("--start", flags->start.batch, "The first batch")->capture_default_str();
  verb->add_option("--batches", flags->batches, "Stop after so many; 0: at the end")->capture_default_str();
  verb->add_option("--rank", flags->start.rank, "Whose part")->capture_default_str();
  verb->add_option("--world", flags->start.world, "Of how many")
      ->check(at_least_one())
      ->capture_default_str();
  verb->add_option("--end", flags->end, "The last batch: exact, drop or pad")
      ->type_name("exact|drop|pad")
      ->capture_default_str();
  verb->add_option("--on-error", flags->on_error, "A bad sample: fail, skip or substitute")
      ->type_name("fail|skip|substitute")
      ->capture_default_str();
  add_bytes(*verb, "--memory", flags->recipe.memory, "Most memory for all that is held ahead");
  add_jobs(*verb, flags->recipe.threads, "Threads that decode");
  verb->add_option("--cache", flags->recipe.cache, "Keep blocks of remote shards in this directory")
      ->type_name("DIR");
  verb->add_option("--key-rule", flags->key_rule, "How names split into key and field: first-dot or last-dot")
      ->type_name("first-dot|last-dot")
      ->capture_default_str();
  verb->add_flag("--stream", flags->stream,
                 "Read shards once, forwards, without an index: also - and pipe: commands");
  verb->add_option("--au", flags->accelerator,
                   "Take batches as this accelerator would, and say how busy it is")
      ->type_name("NAME");
  verb->add_option("--trace", flags->trace, "Write a timeline for a browser's tracing view")
      ->type_name("FILE");
  verb->footer(
      "Examples:\n"
      "  millrace load 'train-{000000..000127}.tar' --spec 'image:jpg:size=224,crop=random_resized "
      "label:cls'\n"
      "  millrace load http://store:9400/train/train-@000128.tar --spec bytes:jpg --au resnet50-h100\n"
      "  millrace load 'mr://train/*.tar' --shuffle 20000 --rank 3 --world 8 --trace timeline.json\n"
      "  tar -cf - data | millrace load - --stream --spec 'image:jpg:size=224'");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
