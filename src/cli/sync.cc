// millrace sync: makes one tree like another, copying only what differs.
#include <chrono>
#include <cstdio>
#include <thread>

#include "base/text.h"
#include "base/units.h"
#include "cli/copying.h"

namespace millrace::cli {

namespace {

struct SyncFlags {
  CopyFlags copy;
  bool remove = false;
  bool by_content = false;
  bool watch = false;
  double interval_s = 5;
};

enum class Quiet { kNo, kWhereNothingChanged };

// One pass over both trees.
Status pass(Shell& shell, const SyncFlags& flags, Quiet quiet) {
  const Stopwatch watch;
  const transfer::Place from = MR_TRY(find_place(shell, flags.copy.words[0]));
  const transfer::Place to = MR_TRY(find_place(shell, flags.copy.words[1]));
  if (!from.object && !to.object)
    return make_error(Code::kInvalid, "neither {} nor {} is in a store", from.path, to.path)
        .with_hint("use rsync");
  if (!from.object && !file_exists(from.path))
    return make_error(Code::kNotFound, "{} does not exist", from.path);
  const auto compare = flags.by_content ? transfer::Compare::kContent : transfer::Compare::kTime;
  const transfer::SyncPlan plan = MR_TRY(transfer::plan_sync(from, to, compare));
  if (shell.dry_run) {
    for (const std::string& name : plan.copy) say_step(shell, "copy", name);
    for (const std::string& name : plan.remove) {
      if (flags.remove) say_step(shell, "remove", name);
    }
    return {};
  }
  const bool changes = !plan.copy.empty() || !plan.unusable.empty() || (flags.remove && !plan.remove.empty());
  if (quiet == Quiet::kWhereNothingChanged && !changes) return {};
  std::vector<transfer::Copy> copies;
  for (const std::string& name : plan.copy)
    copies.push_back({transfer::place_below(from, name), transfer::place_below(to, name), 0});
  shell.progress.expect(plan.bytes);
  const transfer::TransferOptions options = MR_TRY(flags.copy.options(shell));
  transfer::CopyReport report;
  {
    const auto bar = shell.bar("copying", "objects");
    report = MR_TRY(transfer::copy_all(copies, options));
  }
  for (const std::string& name : plan.unusable) {
    auto reason = transfer::check_relative(name);
    report.failures.push_back(reason.take_error());
  }
  Json more = {{"same", plan.same}};
  if (flags.remove && report.failures.empty()) {
    MR_TRY(transfer::remove_all(to, plan.remove));
    more["removed"] = plan.remove.size();
    if (!plan.remove.empty() && !shell.json)
      shell.say(fmt::format("removed {} that are not in {}", format_count(plan.remove.size()), from.text()));
  }
  if (!shell.json && plan.same > 0)
    shell.say(fmt::format("{} were the same already", format_count(plan.same)));
  return report_copies(shell, report, watch, std::move(more));
}

// Until somebody ends it. A store that is away for a while, or a file that went while it was read, is told of
// and tried again; a pass that is cut off leaves nothing half written.
Status run(Shell& shell, const SyncFlags& flags) {
  MR_TRY(pass(shell, flags, Quiet::kNo));
  while (flags.watch && !shell.dry_run) {
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::duration<double>(flags.interval_s));
    auto done = pass(shell, flags, Quiet::kWhereNothingChanged);
    if (!done)
      shell.log().warn("this pass failed; the next one tries again", "error", done.error().message());
  }
  return {};
}

}  // namespace

void add_sync(CLI::App& app, Shell& shell) {
  CLI::App* verb =
      app.add_subcommand("sync", "Make a directory or prefix like another, copying what differs");
  verb->fallthrough();
  auto flags = std::make_shared<SyncFlags>();
  verb->add_option("trees", flags->copy.words, "From where, to where")
      ->required()
      ->expected(2)
      ->type_name("FROM TO");
  verb->add_option("-j,--jobs", flags->copy.jobs, "Requests at a time")
      ->check(CLI::Range(1U, 256U))
      ->type_name("N")
      ->capture_default_str();
  verb->add_flag("--delete", flags->remove, "Remove at the destination what the source does not have");
  verb->add_flag("--checksum", flags->by_content,
                 "Compare content (MD5) rather than times, where the store knows it");
  CLI::Option* watching =
      verb->add_flag("--watch", flags->watch, "Go on looking for changes until interrupted (Ctrl-C)");
  verb->add_option("--interval", flags->interval_s, "For --watch: seconds between two looks")
      ->needs(watching)
      ->check(CLI::Range(0.1, 86400.0))
      ->type_name("SECONDS")
      ->capture_default_str();
  add_dry_run(*verb, shell);
  verb->footer(
      "Same means: same size, and not older at the destination (or the same entity tag).\n"
      "Examples:\n"
      "  millrace sync shards mr://imagenet/shards\n"
      "  millrace sync --delete s3://bucket/train mr://imagenet/train\n"
      "  millrace sync --watch --interval 30 checkpoints mr://runs/checkpoints\n"
      "  millrace sync mr://imagenet/val val");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
