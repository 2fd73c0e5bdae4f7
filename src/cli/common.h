// Flags that several verbs share, their final reports, and the functions that add the verbs.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/shell.h"
#include "shard/gather.h"
#include "shard/input.h"
#include "shard/output.h"
#include "shard/writer.h"

namespace millrace::cli {

// A size such as 256MiB.
CLI::Option* add_bytes(CLI::App& verb, const std::string& name, uint64_t& bytes, const std::string& help);

CLI::Validator at_least_one();

struct InputFlags {
  std::vector<std::string> shards;
  std::string key_rule = "first-dot";
  bool concatenated = false;
  uint64_t max_sample = tar::StreamWindow::kDefaultMostBytes;

  void add_to(CLI::App& verb);
  Result<shard::InputOptions> options(Shell& shell) const;
  // Brace ranges, counts and globs expanded; the sizes announced to the progress bar.
  Result<std::vector<std::string>> names(Shell& shell) const;
};

struct OutputFlags {
  std::string output;
  uint64_t max_bytes = shard::ShardLimits().max_bytes;
  uint64_t max_samples = shard::ShardLimits().max_samples;
  std::string compress;
  bool no_index = false;

  void add_to(CLI::App& verb, Shell& shell);
  Result<shard::OutputName> name(const Shell& shell) const;
  shard::ShardLimits limits() const { return {max_bytes, max_samples}; }
  Result<shard::OutputOptions> options(Shell& shell, const InputFlags& input) const;
  // The same, with the inputs that no output may replace; an error where limits need a numbered name.
  Result<shard::OutputOptions> writer_options(Shell& shell, const InputFlags& input) const;
  Result<std::unique_ptr<shard::ShardWriter>> writer(Shell& shell, const InputFlags& input) const;
  // Where temporary files go by default: beside the output, whose drive must hold it all anyway.
  std::string temporary_directory() const;
};

// How scattered samples are gathered.
shard::GatherOptions gather_options(const OutputFlags& output, uint64_t memory,
                                    shard::GatherOptions::When when);
void add_gather(CLI::App& verb, bool& gather, uint64_t& memory);
// Says how much was gathered, and how that can be avoided.
void note_gathered(Shell& shell, const shard::GatherStream::Report& report);

// "wrote 12 shards, 60 000 samples, 1.2 GB in 3.1 s (390 MB/s)", or the same as JSON. Warns of keys that
// repeat inside a shard, and of an older shard that a glob would take for one of these.
void report_shards(Shell& shell, const OutputFlags& output, const std::vector<shard::ShardSummary>& shards,
                   const Stopwatch& watch, Json more = Json::object());

void note_loose(Shell& shell, uint64_t members);

// Less than this is a slip of the pen, and would quietly do nothing.
Status check_memory(uint64_t bytes);
void add_jobs(CLI::App& verb, unsigned& jobs, const std::string& help);
unsigned default_jobs();

// -n, --dry-run: the verb only says what it would do.
void add_dry_run(CLI::App& verb, Shell& shell);

// One per verb, called by main.
void add_alias(CLI::App& app, Shell& shell);
void add_bucket(CLI::App& app, Shell& shell);
void add_cluster(CLI::App& app, Shell& shell);
// Of millrace cluster.
void add_cluster_verify(CLI::App& cluster, Shell& shell);
void add_completion(CLI::App& app, Shell& shell);
void add_config(CLI::App& app, Shell& shell);
void add_drives(CLI::App& app, Shell& shell);
void add_fsck(CLI::App& app, Shell& shell);
void add_job(CLI::App& app, Shell& shell);
void add_keys(CLI::App& app, Shell& shell);
void add_bench(CLI::App& app, Shell& shell);
void add_cat(CLI::App& app, Shell& shell);
void add_cp(CLI::App& app, Shell& shell);
void add_du(CLI::App& app, Shell& shell);
void add_get(CLI::App& app, Shell& shell);
void add_load(CLI::App& app, Shell& shell);
void add_ls(CLI::App& app, Shell& shell);
void add_manual(CLI::App& app, Shell& shell);
void add_mb(CLI::App& app, Shell& shell);
void add_plan(CLI::App& app, Shell& shell);
void add_pls(CLI::App& app, Shell& shell);
void add_prefetch(CLI::App& app, Shell& shell);
void add_put(CLI::App& app, Shell& shell);
void add_rb(CLI::App& app, Shell& shell);
void add_rm(CLI::App& app, Shell& shell);
void add_stat(CLI::App& app, Shell& shell);
void add_sync(CLI::App& app, Shell& shell);
void add_share(CLI::App& app, Shell& shell);
void add_shard(CLI::App& app, Shell& shell);
void add_tar_cat(CLI::App& tar, Shell& shell);
void add_tar_extract(CLI::App& tar, Shell& shell);
void add_tar_index(CLI::App& tar, Shell& shell);
void add_tar_ls(CLI::App& tar, Shell& shell);
void add_tar_map(CLI::App& tar, Shell& shell);
void add_tar_mapreduce(CLI::App& tar, Shell& shell);
void add_tar_merge(CLI::App& tar, Shell& shell);
void add_tar_reshard(CLI::App& tar, Shell& shell);
void add_tar_shuffle(CLI::App& tar, Shell& shell);
void add_tar_sort(CLI::App& tar, Shell& shell);
void add_tar_split(CLI::App& tar, Shell& shell);
void add_tar_stat(CLI::App& tar, Shell& shell);
void add_tar_verify(CLI::App& tar, Shell& shell);

void add_transform(CLI::App& app, Shell& shell);
void add_up(CLI::App& app, Shell& shell);
// `tar -cf - dataset | tarshards out-%06d.tar`
void add_tarshards(CLI::App& app, Shell& shell);

}  // namespace millrace::cli
