// millrace sync: makes one tree like another, copying only what differs.
#include "base/text.h"
#include "base/units.h"
#include "cli/copying.h"

namespace millrace::cli {

namespace {

struct SyncFlags {
  CopyFlags copy;
  bool remove = false;
  bool by_content = false;
  bool dry_run = false;
};

Status run(Shell& shell, const SyncFlags& flags) {
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
  if (flags.dry_run) {
    for (const std::string& name : plan.copy) fmt::print("copy {}\n", printable(name));
    for (const std::string& name : plan.remove) {
      if (flags.remove) fmt::print("remove {}\n", printable(name));
    }
    return {};
  }
  std::vector<transfer::Copy> copies;
  for (const std::string& name : plan.copy)
    copies.push_back({transfer::place_below(from, name), transfer::place_below(to, name), 0});
  shell.progress.expect(plan.bytes);
  const transfer::TransferOptions options = MR_TRY(flags.copy.options(shell));
  transfer::CopyReport report;
  {
    const auto bar = shell.bar("copying");
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
  verb->add_flag("-n,--dry-run", flags->dry_run, "Only say what would be done");
  verb->footer(
      "Same means: same size, and not older at the destination (or the same entity tag).\n"
      "Examples:\n"
      "  millrace sync shards mr://imagenet/shards\n"
      "  millrace sync --delete s3://bucket/train mr://imagenet/train\n"
      "  millrace sync mr://imagenet/val val");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
