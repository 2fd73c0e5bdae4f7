// Wiring of the verbs, and what counts for the options of all of them.
#include "cli/program.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "cli/common.h"

namespace millrace::cli {

namespace {

void add_verbs(CLI::App& app, Shell& shell) {
  app.require_subcommand(1);
  add_up(app, shell);
  add_alias(app, shell);
  add_config(app, shell);
  add_keys(app, shell);
  add_bucket(app, shell);
  add_drives(app, shell);
  add_cluster(app, shell);
  add_job(app, shell);
  add_fsck(app, shell);
  add_put(app, shell);
  add_get(app, shell);
  add_load(app, shell);
  add_plan(app, shell);
  add_pls(app, shell);
  add_prefetch(app, shell);
  add_transform(app, shell);
  add_ls(app, shell);
  add_cat(app, shell);
  add_stat(app, shell);
  add_du(app, shell);
  add_cp(app, shell);
  add_sync(app, shell);
  add_rm(app, shell);
  add_share(app, shell);
  add_mb(app, shell);
  add_rb(app, shell);
  add_bench(app, shell);
  add_shard(app, shell);
  CLI::App* tar = app.add_subcommand("tar", "Look at, change, check and take apart tar shards");
  tar->require_subcommand(1);
  tar->fallthrough();
  add_tar_ls(*tar, shell);
  add_tar_stat(*tar, shell);
  add_tar_cat(*tar, shell);
  add_tar_split(*tar, shell);
  add_tar_merge(*tar, shell);
  add_tar_sort(*tar, shell);
  add_tar_shuffle(*tar, shell);
  add_tar_reshard(*tar, shell);
  add_tar_map(*tar, shell);
  add_tar_mapreduce(*tar, shell);
  add_tar_index(*tar, shell);
  add_tar_verify(*tar, shell);
  add_tar_extract(*tar, shell);
  add_completion(app, shell);
  add_manual(app, shell);
}

// The parser of options takes -1 for the largest number there is.
void refuse_negative_counts(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_type_name().starts_with("UINT")) option->check(CLI::NonNegativeNumber);
  }
  for (CLI::App* verb : app.get_subcommands([](CLI::App*) { return true; })) refuse_negative_counts(*verb);
}

// Words that may be addresses may begin with an alias. Which options take such words is told by the name of
// their type: URL where only addresses are taken, the others also take files.
void resolve_aliases(CLI::App& app, Shell& shell) {
  constexpr std::string_view kAlsoFiles[] = {"SHARD", "SOURCE... DEST", "FROM TO", "OUTPUT"};
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    const bool also_files = std::ranges::find(kAlsoFiles, type) != std::end(kAlsoFiles);
    if (type != "URL" && !also_files) continue;
    const auto names = also_files ? Shell::Names::kAlsoFiles : Shell::Names::kAddresses;
    option->transform([&shell, names](const std::string& word) {
      auto resolved = shell.resolve(word, names);
      if (!resolved)
        throw CLI::ValidationError(
            fmt::format("{}\n  try: {}", resolved.error().message(), resolved.error().hint()));
      return resolved.take();
    });
  }
  for (CLI::App* verb : app.get_subcommands([](CLI::App*) { return true; })) resolve_aliases(*verb, shell);
}

void add_common_flags(CLI::App& app, Shell& shell) {
  app.set_version_flag("--version", fmt::format("millrace {}", program_version()));
  app.add_flag("--json", shell.json, "Results as JSON on standard output");
  app.add_flag("-q,--quiet", shell.quiet, "Say nothing but errors and warnings");
  app.add_flag("-v,--verbose", shell.verbose, "Say more of what is done");
  app.add_option("--ca-file", shell.ca_file, "Certificates to trust, PEM (default: the system's)")
      ->type_name("FILE");
  app.add_flag("--insecure-tls", shell.insecure,
               "Trust any certificate: for a self-signed server of your own");
}

}  // namespace

std::unique_ptr<CLI::App> make_program(Program program, Shell& shell) {
  std::unique_ptr<CLI::App> app;
  if (program == Program::kTarshards) {
    app = std::make_unique<CLI::App>("Cut a tar stream into shards", "tarshards");
    add_common_flags(*app, shell);
    add_tarshards(*app, shell);
  } else {
    app = std::make_unique<CLI::App>("Millrace: training data from drives to batches", "millrace");
    add_common_flags(*app, shell);
    add_verbs(*app, shell);
  }
  refuse_negative_counts(*app);
  resolve_aliases(*app, shell);
  return app;
}

std::string_view program_version() {
  return MILLRACE_VERSION;
}

}  // namespace millrace::cli
