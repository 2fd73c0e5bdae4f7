// millrace shard: a tar stream, directories or a manifest to shards. Also the command tarshards.
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "base/random.h"
#include "cli/common.h"
#include "net/url.h"
#include "shard/manifest.h"
#include "shard/recipe.h"
#include "shard/sort.h"
#include "shard/stream.h"

namespace millrace::cli {

namespace {

struct ShardFlags {
  InputFlags input;
  OutputFlags output;
  bool shuffle = false;
  uint64_t seed = 0;
  bool in_order = false;
  bool gather = false;
  unsigned jobs = default_jobs();
  uint64_t memory = uint64_t{1} << 30;
  std::string classes;
  std::string root;
  std::string key_column;
  std::string file_column;
};

bool is_directory(const std::string& path) {
  struct stat facts = {};
  return ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

std::optional<shard::ManifestSyntax> manifest_syntax(const std::string& path) {
  if (path.ends_with(".tsv")) return shard::ManifestSyntax::kTsv;
  if (path.ends_with(".jsonl")) return shard::ManifestSyntax::kJsonLines;
  if (path.ends_with(".json")) return shard::ManifestSyntax::kJson;
  return std::nullopt;
}

Result<shard::RecipeBook> read_manifest(const ShardFlags& flags, const std::string& path,
                                        shard::ManifestSyntax syntax) {
  shard::ManifestColumns columns;
  // A document is never of our own making: COCO's names are what others use too.
  if (syntax == shard::ManifestSyntax::kJson) columns = {"id", "file_name"};
  if (!flags.key_column.empty()) columns.key = flags.key_column;
  if (!flags.file_column.empty()) columns.file = flags.file_column;
  if (syntax == shard::ManifestSyntax::kTsv && (!flags.key_column.empty() || !flags.file_column.empty()))
    return make_error(Code::kInvalid, "--key and --file are for JSON; the first line of {} names its columns",
                      path)
        .with_hint("__key__ for the key, @jpg for paths of files");
  const std::string text = MR_TRY(read_file(path, shard::kMaxManifestBytes));
  shard::RecipeBook book;
  book.root = flags.root.empty() ? directory_of(path) : flags.root;
  book.samples = MR_TRY(shard::parse_manifest(text, syntax, columns).within(path));
  return book;
}

Status number_classes(const Shell& shell, shard::RecipeBook& book, const std::string& path) {
  std::vector<std::string> classes;
  const bool known = file_exists(path);
  if (known) {
    std::istringstream lines(MR_TRY(read_file(path, 1 << 30)));
    for (std::string line; std::getline(lines, line);) {
      if (line.ends_with('\r')) line.pop_back();
      classes.push_back(line);
    }
    if (classes.empty())
      return make_error(Code::kInvalid, "{} lists no class", path)
          .with_hint("remove it to number the classes anew");
  }
  MR_TRY(shard::add_classes(book, classes));
  return known || shell.dry_run ? Status()
                                : write_file_atomically(path, fmt::format("{}\n", fmt::join(classes, "\n")));
}

Status from_recipes(Shell& shell, const ShardFlags& flags, shard::RecipeBook book) {
  const Stopwatch watch;
  shard::BuildOptions options{MR_TRY(flags.output.name(shell)), flags.output.limits(),
                              MR_TRY(flags.output.options(shell, flags.input)), flags.jobs, &shell.progress};
  if (!flags.classes.empty()) MR_TRY(number_classes(shell, book, flags.classes));
  MR_TRY(shard::measure_files(book));
  if (book.samples.empty()) {
    return make_error(Code::kNotFound, "{} has no file that is part of a sample", book.root)
        .with_hint("samples are files named KEY.FIELD, for example 0001.jpg");
  }
  if (flags.shuffle) Random(flags.seed).shuffle(std::span(book.samples));
  uint64_t bytes = 0;
  for (const auto& sample : book.samples) {
    for (const auto& field : sample.fields) bytes += field.size;
  }
  shell.progress.expect(bytes);
  std::vector<shard::ShardSummary> shards;
  {
    const auto bar = shell.bar("sharding");
    shards = MR_TRY(shard::build_shards(book, options));
  }
  note_loose(shell, book.loose_files);
  report_shards(shell, flags.output, shards, watch);
  return {};
}

Status from_tars(Shell& shell, const ShardFlags& flags) {
  const Stopwatch watch;
  const shard::InputOptions input = MR_TRY(flags.input.options(shell));
  const std::vector<std::string> names = MR_TRY(flags.input.names(shell));
  const auto writer = MR_TRY(flags.output.writer(shell, flags.input));
  uint64_t loose = 0;
  const auto bar = shell.bar("sharding");
  const bool is_stream = std::ranges::find(names, shard::kStandardStream) != names.end();
  if (!flags.in_order && (!flags.shuffle || is_stream || flags.gather)) {
    MR_TRY(check_memory(flags.memory));
    using When = shard::GatherOptions::When;
    auto options = gather_options(flags.output, flags.memory, flags.gather ? When::kAlways : When::kNeeded);
    if (flags.shuffle) options.shuffle_seed = flags.seed;
    shard::GatherStream samples(names, input, options);
    while (true) {
      const tar::Sample* sample = MR_TRY(samples.next());
      if (sample == nullptr) break;
      MR_TRY(writer->add(*sample));
    }
    loose = samples.loose_members();
    note_gathered(shell, samples.report());
  } else if (flags.shuffle) {
    shard::SortOptions order;
    order.by = shard::SortBy::kRandom;
    order.seed = flags.seed;
    order.memory = flags.memory;
    order.temporary_directory = flags.output.temporary_directory();
    order.jobs = flags.jobs;
    order.input = input;
    const auto report = MR_TRY(
        shard::sort_samples(names, order, [&](const tar::Sample& sample) { return writer->add(sample); }));
    loose = report.loose_members;
  } else {
    shard::InputStream samples(names, input);
    while (true) {
      const tar::Sample* sample = MR_TRY(samples.next());
      if (sample == nullptr) break;
      MR_TRY(writer->add(*sample));
    }
    loose = samples.loose_members();
  }
  const auto shards = MR_TRY(writer->finish());
  note_loose(shell, loose);
  report_shards(shell, flags.output, shards, watch);
  return {};
}

// "tar -c data | millrace shard train-%06d.tar": a numbered name alone is the output of a stream.
Status take_output(ShardFlags& flags) {
  if (!flags.output.output.empty()) return {};
  const auto name = shard::OutputName::parse(flags.input.shards.front());
  if (flags.input.shards.size() > 1 || !name || !name->numbered()) {
    return make_error(Code::kInvalid, "--output says where the shards go")
        .with_hint("for example -o train-%06d.tar");
  }
  flags.output.output = flags.input.shards.front();
  flags.input.shards = {std::string(shard::kStandardStream)};
  return {};
}

Status run(Shell& shell, ShardFlags flags) {
  MR_TRY(take_output(flags));
  const std::string& first = flags.input.shards.front();
  const auto manifest = manifest_syntax(first);
  if (!manifest && (!flags.key_column.empty() || !flags.file_column.empty()))
    return make_error(Code::kInvalid, "--key and --file need a manifest, and {} is none", first)
        .with_hint("manifests end in .json or .jsonl");
  if (!manifest && !is_directory(first)) {
    if (!flags.classes.empty())
      return make_error(Code::kInvalid, "--classes needs a directory with one directory per class");
    return from_tars(shell, flags);
  }
  if (flags.input.shards.size() > 1) {
    return make_error(Code::kInvalid, "shard takes one directory or one manifest at a time, not {}",
                      flags.input.shards.size());
  }
  if (manifest && net::is_url(first))
    return make_error(Code::kInvalid, "{}: a manifest must be a local file", first)
        .with_hint("fetch it with millrace get");
  if (manifest) return from_recipes(shell, flags, MR_TRY(read_manifest(flags, first, *manifest)));
  const tar::KeyRule rule = MR_TRY(tar::parse_key_rule(flags.input.key_rule));
  return from_recipes(shell, flags, MR_TRY(shard::recipes_of_directory(first, rule)));
}

void add_flags(CLI::App& verb, ShardFlags& flags) {
  verb.add_flag("--shuffle", flags.shuffle, "Put the samples in random order");
  verb.add_option("--seed", flags.seed, "Which random order; the same seed gives the same bytes")
      ->capture_default_str();
  CLI::Option* gather =
      verb.add_flag("--gather", flags.gather,
                    "Look at all members of tars before writing the first sample: samples whose members "
                    "are scattered are gathered in any case, from the first one on that is met in time");
  verb.add_flag("--in-order", flags.in_order,
                "Write samples of tars as they come; scattered members are an error")
      ->excludes(gather);
  add_jobs(verb, flags.jobs, "Threads");
  add_bytes(verb, "--memory", flags.memory,
            "For shuffling and gathering samples of tars: memory to use (default 1GiB)");
}

}  // namespace

void add_shard(CLI::App& app, Shell& shell) {
  CLI::App* verb = app.add_subcommand("shard", "Make shards of a tar stream, a directory or a manifest");
  verb->fallthrough();
  auto flags = std::make_shared<ShardFlags>();
  flags->input.add_to(*verb);
  verb->get_option("shards")->description(
      "A directory, a manifest (.tsv, .jsonl, .json), tar files, or - for a tar stream");
  flags->output.add_to(*verb, shell);
  verb->get_option("--output")->required(false);
  add_flags(*verb, *flags);
  verb->add_option("--classes", flags->classes,
                   "Each top directory is a class: add its number as field cls; FILE lists the classes (read "
                   "if it exists, written if not)")
      ->type_name("FILE");
  verb->add_option("--root", flags->root,
                   "Directory that a manifest's files are in (default: the manifest's own)")
      ->type_name("DIR");
  verb->add_option(
          "--key", flags->key_column,
          "Of a JSON manifest: which value is the key, text or a whole number (default __key__; id for "
          ".json)")
      ->type_name("COLUMN");
  verb->add_option("--file", flags->file_column,
                   "Of a JSON manifest: which value names the file; the record with its annotations becomes "
                   "the field json (default for .json: file_name)")
      ->type_name("COLUMN");
  verb->footer(
      "Examples:\n"
      "  tar -cf - photos | millrace shard train-%06d.tar\n"
      "  tar -cf - photos | millrace shard http://store:9400/train/photos-%06d.tar\n"
      "  millrace shard photos --classes classes.txt --shuffle -o train-%06d.tar\n"
      "  millrace shard train.jsonl --max-samples 10000 -o train-%06d.tar.zst\n"
      "  millrace shard instances.json --key id --file file_name --root images -o coco-%06d.tar");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

void add_tarshards(CLI::App& app, Shell& shell) {
  auto flags = std::make_shared<ShardFlags>();
  flags->input.shards = {std::string(shard::kStandardStream)};
  app.add_option("output", flags->output.output, "Where to write, for example train-%06d.tar")
      ->type_name("OUTPUT")
      ->required();
  add_bytes(app, "-s,--max-bytes", flags->output.max_bytes,
            "Begin another shard before one gets larger than this (default 1GB)");
  app.add_option("-c,--max-samples", flags->output.max_samples, "Begin another shard after this many samples")
      ->check(at_least_one());
  app.add_option("--key-rule", flags->input.key_rule, "first-dot or last-dot")
      ->type_name("first-dot|last-dot")
      ->capture_default_str();
  app.add_option("--compress", flags->output.compress, "none, gzip or zstd (default: by the name)")
      ->type_name("none|gzip|zstd");
  add_flags(app, *flags);
  app.footer("Example:\n  tar -cf - dataset | tarshards out-%06d.tar");
  app.callback([&shell, flags] { shell.action = [&shell, flags] { return from_tars(shell, *flags); }; });
}

}  // namespace millrace::cli
