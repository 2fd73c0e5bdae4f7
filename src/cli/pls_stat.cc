// millrace pls stat and verify: what ranks hold, and whether it is all there.
#include "base/units.h"
#include "cli/pls.h"
#include "exchange/local_ranks.h"
#include "exchange/simulate.h"

namespace millrace::cli {

namespace {

struct RankFigures {
  uint64_t samples = 0;
  uint64_t bytes = 0;
  uint64_t disk_bytes = 0;
  uint64_t at_home = 0;
  uint64_t epoch = 0;
  size_t segments = 0;
};

Status stat(Shell& shell, const std::string& root) {
  const uint32_t ranks = exchange::count_stores(root);
  if (ranks == 0)
    return make_error(Code::kNotFound, "{}: there are no sample stores", root)
        .with_hint("make them with millrace pls ingest");
  std::vector<RankFigures> found;
  std::vector<exchange::LabelCounts> labels;
  exchange::Ranks residents;
  uint64_t contents = 0;
  uint32_t classes = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const auto store = MR_TRY(exchange::SampleStore::open(exchange::rank_directory(root, rank)));
    const exchange::Manifest& manifest = store->manifest();
    RankFigures one{manifest.records.size(), manifest.live_bytes(),   store->disk_bytes(), 0,
                    manifest.exchanges(),    manifest.segments.size()};
    for (const exchange::Record& record : manifest.records) one.at_home += record.home == rank ? 1 : 0;
    found.push_back(one);
    residents.push_back(manifest.residents());
    contents += exchange::content_share(manifest.records);
    classes = std::max(classes, manifest.classes);
  }
  RankFigures sum;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    labels.push_back(exchange::count_labels(residents[rank], classes));
    sum.samples += found[rank].samples;
    sum.bytes += found[rank].bytes;
    sum.disk_bytes += found[rank].disk_bytes;
    sum.at_home += found[rank].at_home;
    sum.epoch = std::max(sum.epoch, found[rank].epoch);
  }
  const exchange::LabelBalance balance = exchange::measure_balance(labels);
  const double home =
      static_cast<double>(sum.at_home) / static_cast<double>(std::max<uint64_t>(sum.samples, 1));
  if (shell.json) {
    Json line = {{"ranks", ranks},
                 {"epoch", sum.epoch},
                 {"samples", sum.samples},
                 {"bytes", sum.bytes},
                 {"disk_bytes", sum.disk_bytes},
                 {"home_share", home},
                 {"classes", classes},
                 {"label_distance", balance.distance},
                 {"label_floor", balance.floor},
                 {"owner_hash", hex(exchange::owner_hash(residents))},
                 {"content_hash", hex(contents)},
                 {"per_rank", Json::array()}};
    for (const RankFigures& one : found)
      line["per_rank"].push_back({{"samples", one.samples},
                                  {"bytes", one.bytes},
                                  {"disk_bytes", one.disk_bytes},
                                  {"segments", one.segments}});
    Shell::print(line);
    return {};
  }
  fmt::print("{} ranks at epoch {}: {} samples, {} ({} on the drive)\n", ranks, sum.epoch,
             format_count(sum.samples), format_bytes(sum.bytes), format_bytes(sum.disk_bytes));
  fmt::print("at the rank that took it in: {:.4f} of the samples (ideal {:.4f})\n", home, 1.0 / ranks);
  fmt::print("label distance: {:.4f} (of ranks that drew at random: {:.4f})\n", balance.distance,
             balance.floor);
  for (uint32_t rank = 0; rank < ranks && ranks <= 64; ++rank) {
    fmt::print("  rank {}: {} samples, {} in {} segments, {} on the drive\n", rank,
               format_count(found[rank].samples), format_bytes(found[rank].bytes), found[rank].segments,
               format_bytes(found[rank].disk_bytes));
  }
  return {};
}

Status verify(Shell& shell, const std::string& root) {
  exchange::VerifyReport report;
  {
    const auto bar = shell.bar("checking");
    report = MR_TRY(exchange::verify_stores(root, &shell.progress));
  }
  if (shell.json) {
    Shell::print({{"ranks", report.ranks},
                  {"epoch", report.epoch},
                  {"samples", report.samples},
                  {"bytes", report.bytes},
                  {"faults", report.faults}});
  } else {
    for (const std::string& fault : report.faults) fmt::print("{}\n", fault);
  }
  if (!report.faults.empty()) return make_error(Code::kCorrupt, "{}: {} faults", root, report.faults.size());
  shell.say(fmt::format("{} ranks at epoch {}: {} samples, {}: each is held once and is what it was",
                        report.ranks, report.epoch, format_count(report.samples),
                        format_bytes(report.bytes)));
  return {};
}

using Work = Status (*)(Shell&, const std::string&);

void add(CLI::App* verb, Shell& shell, Work work) {
  verb->fallthrough();
  auto root = std::make_shared<std::string>();
  verb->add_option("stores", *root, "Where the stores are")->required()->type_name("DIR");
  verb->callback(
      [&shell, root, work] { shell.action = [&shell, root, work] { return work(shell, *root); }; });
}

}  // namespace

void add_pls_stat(CLI::App& pls, Shell& shell) {
  CLI::App* verb = pls.add_subcommand("stat", "What ranks hold and how well it is mixed");
  add(verb, shell, stat);
  verb->footer("Example:\n  millrace pls stat /local/pls");
}

void add_pls_verify(CLI::App& pls, Shell& shell) {
  CLI::App* verb = pls.add_subcommand("verify", "Check that every sample is held once and is what it was");
  add(verb, shell, verify);
  verb->footer("Example:\n  millrace pls verify /local/pls");
}

}  // namespace millrace::cli
