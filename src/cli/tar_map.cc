// millrace tar map: a command for every sample.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "cli/common.h"
#include "cli/together.h"
#include "exchange/mpi_group.h"
#include "exchange/rank_sort.h"
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
  double timeout_s = 600;
};

// ^C and kill end the program at once, wherever it waits, but first remove the private directories. Shards
// under way have no name yet and need no removing.
class CleanExit {
 public:
  explicit CleanExit(std::string directory) : directory_(std::move(directory)) {
    sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR2}) sigaddset(&signals_, signal);
    // Threads that start later inherit this: the signals reach only the one that waits for them.
    ::pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    waiting_ = std::thread([this] { wait(); });
  }
  ~CleanExit() {
    ::pthread_kill(waiting_.native_handle(), SIGUSR2);
    waiting_.join();
  }

 private:
  void wait() {
    int signal = 0;
    ::sigwait(&signals_, &signal);
    if (signal == SIGUSR2) return;
    // Commands may still be writing there: what comes back is removed again.
    for (int attempt = 0; attempt < 10 && file_exists(directory_); ++attempt) {
      std::error_code ignored;
      std::filesystem::remove_all(directory_, ignored);
    }
    fmt::print(stderr, "millrace: interrupted\n");
    ::_exit(128 + signal);
  }

  const std::string directory_;
  sigset_t signals_;
  std::thread waiting_;
};

Result<shard::OnCommandError> parse_on_error(const std::string& text) {
  if (text == "abort") return shard::OnCommandError::kAbort;
  if (text == "skip") return shard::OnCommandError::kSkip;
  if (text == "keep") return shard::OnCommandError::kKeep;
  return make_error(Code::kInvalid, "--on-error {} is unknown", text).with_hint("use abort, skip or keep");
}

Result<shard::MapOptions> map_options(const Shell& shell, const MapFlags& flags) {
  shard::MapOptions options;
  options.command = shell.trailing;
  if (!flags.shell_command.empty()) {
    if (!shell.trailing.empty())
      return make_error(Code::kInvalid, "give the command with -c or after --, not both");
    options.command = {"/bin/sh", "-c", flags.shell_command};
  }
  if (options.command.empty()) {
    return make_error(Code::kInvalid, "there is no command to run")
        .with_hint("millrace tar map in.tar -o out.tar -c 'convert sample.jpg sample.png; rm sample.jpg'");
  }
  options.on_error = MR_TRY(parse_on_error(flags.on_error));
  options.fanout = flags.many ? shard::Fanout::kMany : shard::Fanout::kOne;
  options.jobs = flags.jobs;
  options.memory = flags.memory;
  MR_TRY(check_memory(flags.memory));
  options.key_rule = MR_TRY(tar::parse_key_rule(flags.input.key_rule));
  return options;
}

void tell_failures(Shell& shell, const MapFlags& flags, const shard::MapReport& report) {
  if (report.failed > 0)
    shell.log().warn("the command failed for some samples", "count", report.failed, "policy", flags.on_error);
  if (report.dropped > 0)
    shell.log().info("the command left no field of some samples", "count", report.dropped);
}

// Under mpirun: every rank maps its share of the shards; then all cut what came out into the shards that one
// process would have written.
Status run_together(Shell& shell, const MapFlags& flags, const std::string& parent) {
  const Stopwatch watch;
  const auto together = MR_TRY(Together::begin(parent, flags.timeout_s));
  shard::MapOptions options = MR_TRY(map_options(shell, flags));
  const shard::InputOptions input = MR_TRY(flags.input.options(shell));
  const std::vector<std::string> names = MR_TRY(flags.input.names(shell));
  MR_TRY(check_together(names, flags.output.output));
  exchange::RankSortOptions cut;
  cut.sort.by = shard::SortBy::kPlace;
  cut.sort.memory = flags.memory;
  cut.sort.temporary_directory = together->directory();
  cut.sort.input.read = input.read;
  cut.name = MR_TRY(flags.output.name(shell));
  cut.limits = flags.output.limits();
  cut.output = MR_TRY(flags.output.writer_options(shell, flags.input));
  cut.timeout_ms = together->timeout_ms();
  const auto mapped = [&](size_t number) {
    return fmt::format("{}/map-{:07}.tar", together->directory(), number);
  };
  shard::MapReport report;
  uint64_t loose = 0;
  MR_TRY(together->share(names.size(), 1, "mapping", [&](size_t number) -> Status {
    const auto directory = MR_TRY(shard::PrivateDirectory::make(together->directory()));
    options.directory = directory.path();
    shard::OutputOptions plain;
    plain.key_rule = options.key_rule;
    const auto file = MR_TRY(shard::ShardFile::create(mapped(number), plain));
    shard::InputStream samples({names[number]}, input);
    const shard::MapCalls calls = {
        [&](std::string_view key, std::span<const shard::NewField> fields) { return file->add(key, fields); },
        [&](const tar::Sample& sample) { return file->add(sample); }};
    const shard::MapReport one = MR_TRY(shard::map_samples(samples, options, calls));
    report.in += one.in;
    report.failed += one.failed;
    report.dropped += one.dropped;
    loose += samples.loose_members();
    MR_TRY(file->finish());
    return {};
  }));
  std::vector<std::string> between;
  for (size_t number = 0; number < names.size(); ++number) between.push_back(mapped(number));
  const auto written = MR_TRY(sort_over_ranks(together->group(), between, cut)).shards;
  for (uint64_t* const sum : {&report.in, &report.failed, &report.dropped, &loose})
    *sum = MR_TRY(together->sum(*sum));
  if (!together->is_first()) return {};
  note_loose(shell, loose);
  tell_failures(shell, flags, report);
  report_shards(shell, flags.output, written, watch,
                {{"in", report.in}, {"failed", report.failed}, {"dropped", report.dropped}});
  return {};
}

Status run(Shell& shell, const MapFlags& flags) {
  const Stopwatch watch;
  const char* temporary = std::getenv("TMPDIR");
  const std::string parent = flags.temporary_directory.empty() ? (temporary != nullptr ? temporary : "/tmp")
                                                               : flags.temporary_directory;
  if (exchange::started_by_mpirun()) return run_together(shell, flags, parent);
  shard::MapOptions options = MR_TRY(map_options(shell, flags));
  const shard::InputOptions input = MR_TRY(flags.input.options(shell));
  const std::vector<std::string> names = MR_TRY(flags.input.names(shell));
  const shard::PrivateDirectory directory = MR_TRY(shard::PrivateDirectory::make(parent));
  const CleanExit clean_exit(directory.path());
  options.directory = directory.path();
  shard::InputStream samples(names, input);
  const auto writer = MR_TRY(flags.output.writer(shell, flags.input));
  const shard::MapCalls calls = {
      [&](std::string_view key, std::span<const shard::NewField> fields) { return writer->add(key, fields); },
      [&](const tar::Sample& sample) { return writer->add(sample); }};
  shard::MapReport report;
  {
    const auto bar = shell.bar("mapping");
    report = MR_TRY(shard::map_samples(samples, options, calls));
  }
  const auto shards = MR_TRY(writer->finish());
  note_loose(shell, samples.loose_members());
  tell_failures(shell, flags, report);
  report_shards(shell, flags.output, shards, watch,
                {{"in", report.in}, {"failed", report.failed}, {"dropped", report.dropped}});
  return {};
}

}  // namespace

void add_tar_map(CLI::App& tar, Shell& shell) {
  CLI::App* verb = tar.add_subcommand("map", "Run a command for every sample, several at a time, order kept");
  verb->fallthrough();
  auto flags = std::make_shared<MapFlags>();
  flags->input.add_to(*verb);
  flags->output.add_to(*verb, shell);
  verb->add_option(
      "-c,--command", flags->shell_command,
      "A command line for /bin/sh; or give a program and its arguments, without a shell, behind --");
  verb->add_option("--on-error", flags->on_error,
                   "Where the command fails: abort, skip the sample, or keep it as it was")
      ->type_name("abort|skip|keep")
      ->capture_default_str();
  verb->add_flag("--many", flags->many, "sample-A.*, sample-B.*, ... become samples KEY-A, KEY-B, ...");
  add_jobs(*verb, flags->jobs, "Commands at a time");
  add_bytes(*verb, "--memory", flags->memory, "For samples in flight (default 1GiB)");
  verb->add_option("--tmpdir", flags->temporary_directory,
                   "Where the private directories are (default: TMPDIR or /tmp)")
      ->type_name("DIR");
  verb->add_option("--timeout", flags->timeout_s,
                   "Under mpirun: seconds without progress after which ranks give up")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->footer(
      "The command runs in a directory with the sample's fields as files sample.jpg, sample.cls, ...; what "
      "is\n"
      "there under such names afterwards is the new sample. The key is in MILLRACE_KEY.\n\n"
      "Examples:\n"
      "  millrace tar map in.tar -o out.tar -c 'cwebp -quiet sample.jpg -o sample.webp && rm sample.jpg'\n"
      "  millrace tar map in.tar -o out.tar --on-error skip -- python3 /home/me/resize.py\n"
      "  mpirun -n 8 millrace tar map 'train-*.tar' -o small-%06d.tar --tmpdir /shared/tmp -c '...'");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
