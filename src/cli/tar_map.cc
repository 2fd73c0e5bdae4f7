// millrace tar map: a command for every sample.
#include <signal.h>

#include <atomic>
#include <cstdlib>

#include "cli/common.h"
#include "shard/map.h"

namespace millrace::cli {

namespace {

struct MapFlags {
  InputFlags input;
  OutputFlags output;
  std::string shell_command;
  std::string on_error = "abort";
  bool many = false;
  unsigned jobs = default_jobs();
  uint64_t memory = uint64_t{1} << 30;
  std::string temporary_directory;
};

std::atomic<bool> interrupted = false;

// ^C stops after the samples under way, so that private directories are removed.
void stop_on_interrupt() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted.store(true); };
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

Result<shard::OnCommandError> parse_on_error(const std::string& text) {
  if (text == "abort") return shard::OnCommandError::kAbort;
  if (text == "skip") return shard::OnCommandError::kSkip;
  if (text == "keep") return shard::OnCommandError::kKeep;
  return make_error(Code::kInvalid, "--on-error {} is unknown", text).with_hint("use abort, skip or keep");
}

Status run(Shell& shell, const MapFlags& flags) {
  const Stopwatch watch;
  shard::MapOptions options;
  options.command = shell.trailing;
  if (!flags.shell_command.empty()) {
    if (!shell.trailing.empty()) return make_error(Code::kInvalid, "give the command with -c or after --, not both");
    options.command = {"/bin/sh", "-c", flags.shell_command};
  }
  if (options.command.empty()) {
    return make_error(Code::kInvalid, "there is no command to run").with_hint("millrace tar map in.tar -o out.tar -c 'convert sample.jpg sample.png; rm sample.jpg'");
  }
  options.on_error = MR_TRY(parse_on_error(flags.on_error));
  options.fanout = flags.many ? shard::Fanout::kMany : shard::Fanout::kOne;
  options.jobs = flags.jobs;
  options.memory = flags.memory;
  const char* temporary = std::getenv("TMPDIR");
  options.temporary_directory = temporary != nullptr ? temporary : "/tmp";
  if (!flags.temporary_directory.empty()) options.temporary_directory = flags.temporary_directory;
  options.interrupted = &interrupted;
  const shard::InputOptions input = MR_TRY(flags.input.options(shell));
  shard::InputStream samples(MR_TRY(flags.input.names(shell)), input);
  const shard::OutputName name = MR_TRY(flags.output.name(shell));
  const shard::OutputOptions output_options = MR_TRY(flags.output.options(flags.input));
  shard::ShardWriter writer(name, flags.output.limits(), output_options);
  stop_on_interrupt();
  shard::MapReport report;
  {
    const auto bar = shell.bar("mapping");
    report = MR_TRY(shard::map_samples(samples, options, [&](std::string_view key, std::span<const shard::NewField> fields) {
      return writer.add(key, fields);
    }));
  }
  const auto shards = MR_TRY(writer.finish());
  note_loose(shell, samples.loose_members());
  if (report.failed > 0) shell.log().warn("the command failed for some samples", "count", report.failed, "policy", flags.on_error);
  if (report.dropped > 0) shell.log().info("the command left no field of some samples", "count", report.dropped);
  report_shards(shell, shards, watch, {{"in", report.in}, {"failed", report.failed}, {"dropped", report.dropped}});
  return {};
}

}  // namespace

void add_tar_map(CLI::App& tar, Shell& shell) {
  CLI::App* verb = tar.add_subcommand("map", "Run a command for every sample, several at a time, order kept");
  verb->fallthrough();
  auto flags = std::make_shared<MapFlags>();
  flags->input.add_to(*verb);
  flags->output.add_to(*verb);
  verb->add_option("-c,--command", flags->shell_command, "A command line for /bin/sh; or give a program and its arguments, without a shell, behind --");
  verb->add_option("--on-error", flags->on_error, "Where the command fails: abort, skip the sample, or keep it as it was")->capture_default_str();
  verb->add_flag("--many", flags->many, "sample-A.*, sample-B.*, ... become samples KEY-A, KEY-B, ...");
  verb->add_option("-j,--jobs", flags->jobs, "Commands at a time (default: all cores)")->check(CLI::PositiveNumber);
  add_bytes(*verb, "--memory", flags->memory, "For samples in flight (default 1GiB)");
  verb->add_option("--tmpdir", flags->temporary_directory, "Where the private directories are (default: TMPDIR or /tmp)")->type_name("DIR");
  verb->footer(
      "The command runs in a directory with the sample's fields as files sample.jpg, sample.cls, ...; what is\n"
      "there under such names afterwards is the new sample. The key is in MILLRACE_KEY.\n\n"
      "Examples:\n"
      "  millrace tar map in.tar -o out.tar -c 'cwebp -quiet sample.jpg -o sample.webp && rm sample.jpg'\n"
      "  millrace tar map in.tar -o out.tar --on-error skip -- python3 /home/me/resize.py");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
