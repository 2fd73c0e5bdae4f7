// millrace tar extract: files into a directory that they cannot leave.
#include "base/text.h"
#include "base/units.h"
#include "cli/common.h"
#include "shard/extract.h"

namespace millrace::cli {

namespace {

struct ExtractFlags {
  InputFlags input;
  std::string directory;
  std::string fields;
  bool overwrite = false;
};

Status run(Shell& shell, const ExtractFlags& flags) {
  const Stopwatch watch;
  shard::ExtractOptions options;
  options.input = MR_TRY(flags.input.options(shell));
  options.fields = split_words(lower_case(flags.fields));
  options.existing = flags.overwrite ? shard::Existing::kReplace : shard::Existing::kRefuse;
  options.dry_run = shell.dry_run;
  const std::vector<std::string> names = MR_TRY(flags.input.names(shell));
  shard::ExtractReport total;
  {
    const auto bar = shell.bar("extracting");
    for (const std::string& name : names) {
      const shard::ExtractReport report = MR_TRY(shard::extract_shard(name, flags.directory, options));
      total.files += report.files;
      total.bytes += report.bytes;
      total.passed_over += report.passed_over;
    }
  }
  if (total.passed_over > 0) shell.log().warn("passed over links and devices", "count", total.passed_over);
  if (shell.json) {
    Shell::print({{"directory", flags.directory},
                  {"files", total.files},
                  {"bytes", total.bytes},
                  {"passed_over", total.passed_over}});
  } else {
    shell.say(fmt::format("{} {} files, {} in {:.1f} s", shell.dry_run ? "would extract" : "extracted",
                          format_count(total.files), format_bytes(total.bytes), watch.seconds()));
  }
  return {};
}

}  // namespace

void add_tar_extract(CLI::App& tar, Shell& shell) {
  CLI::App* verb = tar.add_subcommand("extract", "Take files out, safely");
  verb->fallthrough();
  auto flags = std::make_shared<ExtractFlags>();
  flags->input.add_to(*verb);
  verb->add_option("-d,--directory", flags->directory, "Where to; created if it is not there")
      ->required()
      ->type_name("DIR");
  verb->add_option("-f,--fields", flags->fields, "Only these fields, for example jpg,cls");
  add_dry_run(*verb, shell);
  verb->add_flag("--overwrite", flags->overwrite, "Replace files that exist");
  verb->footer(
      "Examples:\n  millrace tar extract train-000000.tar -d photos\n  millrace tar extract -f txt "
      "'train-*.tar' -d captions");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
