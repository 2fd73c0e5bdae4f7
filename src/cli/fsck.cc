// millrace fsck: checks the drives of a stopped node, and rebuilds a lost index.
#include "store/fsck.h"

#include "base/text.h"
#include "base/units.h"
#include "cli/common.h"

namespace millrace::cli {

namespace {

struct FsckFlags {
  std::vector<std::string> drives;
  store::FsckOptions options;
};

Json report_json(const std::string& drive, const store::FsckReport& report) {
  Json damages = Json::array();
  for (const store::Damage& damage : report.damages) {
    damages.push_back(
        {{"bucket", damage.bucket}, {"key", damage.key}, {"block", damage.block}, {"what", damage.what}});
  }
  return {{"drive", drive},
          {"clean", report.is_clean()},
          {"objects", report.objects},
          {"inline_objects", report.inline_objects},
          {"uploads", report.uploads},
          {"files", report.files},
          {"bytes", report.bytes},
          {"orphans", report.orphans},
          {"damages", damages},
          {"index_repaired", report.index_repaired},
          {"index_rebuilt", report.index_rebuilt},
          {"restored_objects", report.restored_objects},
          {"restored_uploads", report.restored_uploads},
          {"lost", report.lost}};
}

void tell(Shell& shell, const std::string& drive, const store::FsckReport& report) {
  if (shell.json) {
    Shell::print(report_json(drive, report));
    return;
  }
  for (const std::string& orphan : report.orphans) fmt::print("{}: no record names {}\n", drive, orphan);
  for (const store::Damage& damage : report.damages) {
    fmt::print("{}: {}/{}: block {}: {}\n", drive, damage.bucket, printable(damage.key), damage.block,
               damage.what);
  }
  for (const std::string& lost : report.lost) fmt::print("{}: lost: {}\n", drive, printable(lost));
  if (report.index_repaired) shell.say(fmt::format("{}: the index was repaired", drive));
  if (report.index_rebuilt) {
    shell.say(fmt::format("{}: the index was rebuilt from the files: {} objects, {} uploads", drive,
                          format_count(report.restored_objects), format_count(report.restored_uploads)));
  }
  shell.say(fmt::format("{}: {}: {} objects ({} in the index), {} uploads, {} files, {}", drive,
                        report.is_clean() ? "clean" : "NOT CLEAN", format_count(report.objects),
                        format_count(report.inline_objects), format_count(report.uploads),
                        format_count(report.files), format_bytes(report.bytes)));
}

Status run(Shell& shell, const FsckFlags& flags) {
  size_t unclean = 0;
  for (const std::string& drive : flags.drives) {
    const store::FsckReport report = MR_TRY(store::fsck(drive, flags.options).within("drive " + drive));
    tell(shell, drive, report);
    if (!report.is_clean()) ++unclean;
  }
  if (unclean == 0) return {};
  return make_error(Code::kCorrupt, "{} of {} drives are not clean", unclean, flags.drives.size())
      .with_hint("files without a record are swept when the node starts; damaged objects must be put again");
}

}  // namespace

void add_fsck(CLI::App& app, Shell& shell) {
  CLI::App* verb = app.add_subcommand("fsck", "Check the drives of a stopped node; rebuild a lost index");
  verb->fallthrough();
  auto flags = std::make_shared<FsckFlags>();
  verb->add_option("drives", flags->drives, "Directories of drives")->type_name("DIR")->required();
  verb->add_flag("--deep", flags->options.deep, "Compare the checksum of every block, too");
  verb->add_flag("--rebuild", flags->options.rebuild,
                 "Where the index is broken or missing, make it anew from the files");
  verb->footer(
      "Examples:\n  millrace fsck millrace-data/drive\n  millrace fsck --deep /mnt/a /mnt/b\n  millrace fsck "
      "--rebuild /mnt/a");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
