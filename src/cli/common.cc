// Implements the flags that several verbs share.
#include "cli/common.h"

#include <cstdlib>
#include <thread>

#include "base/threads.h"
#include "base/units.h"
#include "net/url.h"
#include "shard/names.h"

namespace millrace::cli {

CLI::Option* add_bytes(CLI::App& verb, const std::string& name, uint64_t& bytes, const std::string& help) {
  return verb
      .add_option_function<std::string>(
          name,
          [&bytes](const std::string& text) {
            auto parsed = parse_bytes(text);
            if (!parsed) throw CLI::ValidationError(parsed.error().message(), parsed.error().hint());
            bytes = parsed.take();
          },
          help)
      ->type_name("SIZE");
}

CLI::Validator at_least_one() {
  return CLI::Validator(
      [](std::string& text) {
        return text.find_first_not_of("0123456789") == std::string::npos &&
                       text.find_first_not_of('0') != std::string::npos
                   ? std::string()
                   : "must be a whole number of at least 1";
      },
      "");
}

void InputFlags::add_to(CLI::App& verb) {
  verb.add_option(
          "shards", shards,
          "Shards: files or addresses, a-{000..123}.tar, a-@000124.tar, globs, or - for standard input")
      ->required()
      ->type_name("SHARD");
  verb.add_option("--key-rule", key_rule, "How names split into key and field: first-dot or last-dot")
      ->type_name("first-dot|last-dot")
      ->capture_default_str();
  verb.add_flag("--concatenated", concatenated, "Read archives written one behind the other");
  add_bytes(verb, "--max-sample", max_sample, "The largest sample to hold in memory (default 2GiB)");
}

Result<shard::InputOptions> InputFlags::options(Shell& shell) const {
  shard::InputOptions options;
  options.read.archives = concatenated ? tar::Archives::kConcatenated : tar::Archives::kOne;
  options.read.group.key_rule = MR_TRY(tar::parse_key_rule(key_rule));
  options.max_sample = max_sample;
  options.progress = &shell.progress;
  options.stores = MR_TRY(shell.stores());
  return options;
}

Result<std::vector<std::string>> InputFlags::names(Shell& shell) const {
  transfer::Stores* stores = MR_TRY(shell.stores());
  std::vector<std::string> names = MR_TRY(shard::expand_names(shards, stores));
  uint64_t bytes = 0;
  for (const std::string& name : names) {
    // To ask a store for every size would cost a request per shard.
    if (name == shard::kStandardStream || net::is_url(name) || shard::is_pipe(name)) return names;
    bytes += MR_TRY(file_size(name));
  }
  shell.progress.expect(bytes);
  return names;
}

void OutputFlags::add_to(CLI::App& verb, Shell& shell) {
  verb.add_option("-o,--output", output,
                  "Where to write: out-%06d.tar for many shards, one name for one, mr://bucket/out-%06d.tar "
                  "for a store, - for "
                  "standard output")
      ->required()
      ->type_name("OUTPUT");
  add_bytes(verb, "--max-bytes", max_bytes,
            "Begin another shard before one gets larger than this (default 1GB)");
  verb.add_option("--max-samples", max_samples, "Begin another shard after this many samples")
      ->type_name("N")
      ->check(at_least_one());
  verb.add_option("--compress", compress,
                  "none, gzip or zstd (default: by the name, .tar .tgz .tar.gz .tar.zst)")
      ->type_name("none|gzip|zstd");
  verb.add_flag("--no-index", no_index, "Do not put an index beside each shard");
  add_dry_run(verb, shell);
}

Result<shard::OutputName> OutputFlags::name(const Shell& shell) const {
  if (shell.json && output == shard::kStandardStream) {
    return make_error(Code::kInvalid, "--json and -o - both want standard output");
  }
  return shard::OutputName::parse(output);
}

Result<shard::OutputOptions> OutputFlags::options(Shell& shell, const InputFlags& input) const {
  shard::OutputOptions options;
  options.stores = MR_TRY(shell.stores());
  if (!compress.empty()) options.compression = MR_TRY(tar::parse_output_compression(compress));
  options.index = no_index ? shard::IndexPolicy::kNone : shard::IndexPolicy::kBeside;
  options.key_rule = MR_TRY(tar::parse_key_rule(input.key_rule));
  options.dry_run = shell.dry_run;
  return options;
}

Result<shard::OutputOptions> OutputFlags::writer_options(Shell& shell, const InputFlags& input) const {
  const shard::OutputName output_name = MR_TRY(name(shell));
  const bool limited = max_bytes != OutputFlags().max_bytes || max_samples != OutputFlags().max_samples;
  if (limited && !output_name.numbered()) {
    return make_error(Code::kInvalid,
                      "--max-bytes and --max-samples need a numbered output, and \"{}\" has no %06d", output);
  }
  shard::OutputOptions output_options = MR_TRY(options(shell, input));
  const std::vector<std::string> inputs = MR_TRY(shard::expand_names(input.shards, output_options.stores));
  for (const std::string& one : inputs) {
    if (net::is_url(one)) output_options.input_names.push_back(one);
    if (const auto identity = find_identity(one)) output_options.inputs.push_back(*identity);
  }
  return output_options;
}

Result<std::unique_ptr<shard::ShardWriter>> OutputFlags::writer(Shell& shell, const InputFlags& input) const {
  const shard::OutputName output_name = MR_TRY(name(shell));
  return std::make_unique<shard::ShardWriter>(output_name, limits(), MR_TRY(writer_options(shell, input)));
}

std::string OutputFlags::temporary_directory() const {
  if (output != shard::kStandardStream && !net::is_url(output)) return directory_of(output);
  const char* chosen = std::getenv("TMPDIR");
  return chosen != nullptr ? chosen : "/tmp";
}

namespace {

void warn_of_surprises(Shell& shell, const OutputFlags& output,
                       const std::vector<shard::ShardSummary>& shards) {
  uint64_t repeated = 0;
  for (const shard::ShardSummary& one : shards) repeated += one.repeated_keys;
  if (repeated > 0) {
    shell.log().warn(
        "samples share a key with an earlier one of their shard and will not read back as they were; "
        "give the inputs different keys first, with millrace tar cat --rekey",
        "count", repeated);
  }
  const auto name = shard::OutputName::parse(output.output);
  if (!name || !name->numbered()) return;
  const std::string next = name->at(shards.size());
  if (file_exists(next))
    shell.log().warn("an older shard follows the new ones; remove it if it is not wanted", "path", next);
}

}  // namespace

void report_shards(Shell& shell, const OutputFlags& output, const std::vector<shard::ShardSummary>& shards,
                   const Stopwatch& watch, Json more) {
  warn_of_surprises(shell, output, shards);
  uint64_t samples = 0;
  uint64_t bytes = 0;
  Json list = Json::array();
  for (const shard::ShardSummary& one : shards) {
    samples += one.samples;
    bytes += one.stored_bytes;
    list.push_back({{"path", one.path}, {"samples", one.samples}, {"bytes", one.stored_bytes}});
  }
  const double seconds = watch.seconds();
  if (shell.json) {
    if (shell.dry_run) more["dry_run"] = true;
    more["samples"] = samples;
    more["bytes"] = bytes;
    more["seconds"] = seconds;
    more["shards"] = std::move(list);
    Shell::print(more);
    return;
  }
  shell.say(fmt::format(
      "{} {} shard{}, {} samples, {} in {:.1f} s ({}/s)", shell.dry_run ? "would write" : "wrote",
      format_count(shards.size()), shards.size() == 1 ? "" : "s", format_count(samples), format_bytes(bytes),
      seconds, format_bytes(static_cast<uint64_t>(static_cast<double>(bytes) / std::max(seconds, 1e-6)))));
}

shard::GatherOptions gather_options(const OutputFlags& output, uint64_t memory,
                                    shard::GatherOptions::When when) {
  shard::GatherOptions options;
  options.when = when;
  options.memory = memory;
  options.temporary_directory = output.temporary_directory();
  return options;
}

void add_gather(CLI::App& verb, bool& gather, uint64_t& memory) {
  CLI::Option* flag = verb.add_flag("--gather", gather, "Bring together samples whose members are scattered");
  add_bytes(verb, "--memory", memory, "For --gather: memory to use (default 1GiB)")->needs(flag);
}

void note_gathered(Shell& shell, const shard::GatherStream::Report& report) {
  if (report.pieces > report.gathered) {
    shell.log().info("gathered samples whose members were scattered; tar --sort=name keeps them together",
                     "samples", report.gathered, "pieces", report.pieces, "through_temporary_files",
                     format_bytes(report.spilled_bytes));
  } else if (report.spilled_bytes > 0) {
    shell.log().info(
        "held samples back because they might have been incomplete; --in-order writes them as they come",
        "samples", report.gathered, "through_temporary_files", format_bytes(report.spilled_bytes));
  }
}

void note_loose(Shell& shell, uint64_t members) {
  if (members > 0)
    shell.log().info("left out members that belong to no sample (directories, links, names without a field)",
                     "count", members);
}

Status check_memory(uint64_t bytes) {
  constexpr uint64_t kLeast = 4 << 20;
  if (bytes >= kLeast) return {};
  return make_error(Code::kInvalid, "--memory {} is too little: at least {}", format_bytes(bytes),
                    format_bytes(kLeast));
}

void add_jobs(CLI::App& verb, unsigned& jobs, const std::string& help) {
  verb.add_option("-j,--jobs", jobs, help + " (default: all cores)")
      ->check(CLI::Range(1U, kMaxThreads))
      ->type_name("N");
}

void add_dry_run(CLI::App& verb, Shell& shell) {
  verb.add_flag("-n,--dry-run", shell.dry_run, "Only say what would be done");
}

unsigned default_jobs() {
  return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace millrace::cli
