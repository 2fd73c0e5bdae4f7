// millrace tar index: makes or refreshes the indexes of existing shards.

#include "base/threads.h"
#include "base/units.h"
#include "cli/copying.h"
#include "shard/index_file.h"

namespace millrace::cli {

namespace {

struct IndexFlags {
  InputFlags input;
  bool missing_only = false;
  unsigned jobs = default_jobs();
};

struct Outcome {
  std::string shard;
  shard::IndexReport report;
  bool kept = false;
  std::optional<Error> failure;
};

Outcome index_one(const std::string& name, const IndexFlags& flags, const shard::InputOptions& options) {
  Outcome outcome;
  outcome.shard = name;
  if (flags.missing_only) {
    auto index = shard::load_index(name);
    if (index) {
      outcome.kept = true;
      outcome.report = {index->samples(), index->shard().stored_bytes, index->bytes().size()};
      return outcome;
    }
  }
  auto report = shard::make_index(name, options);
  if (report) {
    outcome.report = report.take();
  } else {
    outcome.failure = report.take_error();
  }
  return outcome;
}

Status run(Shell& shell, const IndexFlags& flags) {
  const Stopwatch watch;
  const shard::InputOptions options = MR_TRY(flags.input.options(shell));
  const std::vector<std::string> names = MR_TRY(flags.input.names(shell));
  if (shell.dry_run) {
    for (const std::string& name : names) {
      if (!flags.missing_only || !shard::load_index(name)) say_step(shell, "write", shard::index_path(name));
    }
    return {};
  }
  std::vector<Outcome> outcomes(names.size());
  {
    const auto bar = shell.bar("indexing");
    MR_TRY(run_each(names.size(), flags.jobs, [&](size_t i) -> Status {
      outcomes[i] = index_one(names[i], flags, options);
      return {};
    }));
  }
  uint64_t samples = 0;
  uint64_t shard_bytes = 0;
  uint64_t index_bytes = 0;
  uint64_t kept = 0;
  Json list = Json::array();
  std::optional<Error> first;
  for (Outcome& outcome : outcomes) {
    if (outcome.failure) {
      fmt::print(stderr, "millrace: {}\n", outcome.failure->message());
      if (!first) first = std::move(*outcome.failure);
      continue;
    }
    samples += outcome.report.samples;
    shard_bytes += outcome.report.shard_bytes;
    index_bytes += outcome.report.index_bytes;
    kept += outcome.kept ? 1 : 0;
    list.push_back({{"path", outcome.shard},
                    {"samples", outcome.report.samples},
                    {"index_bytes", outcome.report.index_bytes},
                    {"kept", outcome.kept}});
  }
  if (shell.json) {
    Shell::print({{"samples", samples},
                  {"bytes", shard_bytes},
                  {"index_bytes", index_bytes},
                  {"seconds", watch.seconds()},
                  {"shards", list}});
  } else {
    shell.say(
        fmt::format("indexed {} shards ({} were up to date), {} samples, {} of index for {} in {:.1f} s",
                    format_count(list.size()), format_count(kept), format_count(samples),
                    format_bytes(index_bytes), format_bytes(shard_bytes), watch.seconds()));
  }
  if (!first) return {};
  return make_error(first->code(), "{} of {} shards could not be indexed", names.size() - list.size(),
                    names.size())
      .with_hint("millrace tar verify says what is wrong with them");
}

}  // namespace

void add_tar_index(CLI::App& tar, Shell& shell) {
  CLI::App* verb = tar.add_subcommand("index", "Put an index beside each shard");
  verb->fallthrough();
  auto flags = std::make_shared<IndexFlags>();
  flags->input.add_to(*verb);
  verb->add_flag("--missing", flags->missing_only, "Keep indexes that are whole and have the shard's length");
  add_jobs(*verb, flags->jobs, "Shards at a time");
  add_dry_run(*verb, shell);
  verb->footer(
      "Examples:\n  millrace tar index 'train-*.tar'\n  millrace tar index --missing 'train-@001282.tar'");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
