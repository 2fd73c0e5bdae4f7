// millrace pls plan and simulate: what an exchange will do, before a byte is moved.
#include <optional>

#include "base/units.h"
#include "cli/pls.h"
#include "exchange/mixing.h"
#include "exchange/simulate.h"

namespace millrace::cli {

namespace {

struct SimulateFlags {
  PlsPlanFlags plan;
  std::string root;  // stores instead of numbers
  uint64_t samples = 60'000;
  uint32_t ranks = 64;
  uint32_t classes = 10;
  std::string partition = "contiguous";
  uint64_t epochs = 15;
  uint64_t sample_bytes = 110'000;
  double gigabytes_per_s = 1;
  bool quality = false;
  uint64_t batch = 32;
  int64_t rank = -1;
};

void add_flags(CLI::App& verb, SimulateFlags& flags) {
  verb.add_option("stores", flags.root, "Stores to plan for; without them --samples and --ranks count")
      ->type_name("DIR");
  flags.plan.add_to(verb);
  verb.add_option("--samples", flags.samples, "Samples of the whole set")
      ->check(at_least_one())
      ->capture_default_str();
  verb.add_option("--ranks", flags.ranks, "How many ranks")->check(at_least_one())->capture_default_str();
  verb.add_option("--classes", flags.classes, "Classes of equal size, in order")
      ->check(at_least_one())
      ->capture_default_str();
  verb.add_option("--partition", flags.partition, "How samples are dealt at first: contiguous or random")
      ->type_name("contiguous|random")
      ->capture_default_str();
}

Result<exchange::Ranks> make_ranks(const SimulateFlags& flags) {
  exchange::Ranks ranks;
  if (!flags.root.empty()) return read_residents(flags.root);
  if (flags.ranks > exchange::kMaxRanks || flags.ranks > flags.samples)
    return make_error(Code::kInvalid, "{} samples cannot be dealt to {} ranks", flags.samples, flags.ranks);
  exchange::Deal deal;
  deal.partition = MR_TRY(exchange::parse_partition(flags.partition));
  deal.ranks = flags.ranks;
  deal.seed = flags.plan.seed;
  const std::vector<uint32_t> owners = exchange::deal_samples(deal, {flags.samples});
  ranks.resize(flags.ranks);
  for (uint64_t id = 0; id < flags.samples; ++id)
    ranks[owners[id]].push_back({id, static_cast<uint32_t>(id * flags.classes / flags.samples), 0});
  return ranks;
}

Json json_of(const exchange::EpochFigures& figures) {
  return {{"epoch", figures.epoch},
          {"fraction", figures.fraction},
          {"moved", figures.moved},
          {"messages", figures.messages},
          {"most_sent", figures.most_sent},
          {"most_held", figures.most_held},
          {"home_share", figures.home_share},
          {"home_theory", figures.home_theory},
          {"label_distance", figures.balance.distance},
          {"label_floor", figures.balance.floor},
          {"owner_hash", hex(figures.owner_hash)}};
}

void tell_quality(const Shell& shell, const exchange::MixingFigures& figures) {
  struct Line {
    const char* name;
    const char* title;
    std::optional<loader::Measure> measure;
  };
  const Line lines[] = {
      {"label_entropy", "labels in a rank's batch, bits", figures.label_entropy},
      {"global_label_entropy", "labels in a global batch, bits", figures.global_label_entropy},
      {"pairs_in_batches", "spread of how often pairs share a global batch", figures.pairs_in_batches},
      {"pairs_on_ranks", "spread of how often pairs share a rank", figures.pairs_on_ranks},
      {"order_correlation", "places in successive epochs, correlation", figures.order_correlation},
      {"neighbours_kept", "share followed by the same sample as before", figures.neighbours_kept},
      {"neighbour_entropy", "distance of neighbours, bits", figures.neighbour_entropy},
      {"ranks_seen", "ranks that a sample has been at", figures.ranks_seen}};
  Json json = Json::object();
  if (!shell.json)
    fmt::print("\n{:<50} {:>10} {:>18}\n", "mixing over all epochs", "found", "global shuffle");
  for (const Line& line : lines) {
    if (!line.measure) continue;
    json[line.name] = {{"value", line.measure->value}, {"ideal", line.measure->ideal}};
    if (!shell.json)
      fmt::print("{:<50} {:10.4f} {:18.4f}\n", line.title, line.measure->value, line.measure->ideal);
  }
  if (shell.json) Shell::print({{"quality", json}});
}

Status simulate(Shell& shell, const SimulateFlags& flags) {
  const exchange::ExchangeOptions options = MR_TRY(flags.plan.options());
  exchange::Simulation simulation(options.plan, options.fraction, MR_TRY(make_ranks(flags)));
  std::optional<exchange::MixingMeter> meter;
  if (flags.quality) meter.emplace(simulation.ranks(), exchange::MixingOptions{flags.plan.seed, flags.batch});
  if (!shell.json)
    fmt::print(
        "epoch     q     moved  messages  held most  at home (random: theory)  label distance (floor)  sent "
        "by one      time\n");
  for (uint64_t epoch = 0; epoch < flags.epochs; ++epoch) {
    if (meter) meter->add_epoch(simulation.ranks(), epoch);
    const exchange::EpochFigures figures = MR_TRY(simulation.step());
    const uint64_t bytes = figures.most_sent * flags.sample_bytes;
    const double seconds = static_cast<double>(bytes) / (flags.gigabytes_per_s * 1e9);
    if (shell.json) {
      Json line = json_of(figures);
      line["bytes_sent_by_one"] = bytes;
      line["seconds"] = seconds;
      Shell::print(line);
      continue;
    }
    fmt::print("{:5} {:5.3f} {:9} {:9} {:10} {:8.4f} ({:.4f}) {:14.4f} ({:.4f}) {:>19} {:7.3f} s\n",
               figures.epoch, figures.fraction, figures.moved, figures.messages, figures.most_held,
               figures.home_share, figures.home_theory, figures.balance.distance, figures.balance.floor,
               format_bytes(bytes), seconds);
  }
  if (meter && flags.epochs > 0) tell_quality(shell, meter->figures());
  return {};
}

Status plan(Shell& shell, const SimulateFlags& flags) {
  const exchange::ExchangeOptions options = MR_TRY(flags.plan.options());
  const exchange::Ranks ranks = MR_TRY(make_ranks(flags));
  const auto [view, exchanges] = MR_TRY(view_next(ranks, flags.root, options));
  const exchange::Planner planner(options.plan, view);
  const auto first = static_cast<uint32_t>(std::max<int64_t>(flags.rank, 0));
  const auto last = flags.rank < 0 ? static_cast<uint32_t>(ranks.size()) : first + 1;
  if (last > ranks.size())
    return make_error(Code::kInvalid, "there is no rank {}: there are {}", flags.rank, ranks.size());
  for (uint32_t rank = first; rank < last; ++rank) {
    const exchange::RankPlan found = MR_TRY(planner.plan(rank, ranks[rank]));
    if (shell.json) {
      Json line = {
          {"epoch", exchanges}, {"rank", rank}, {"sends", Json::array()}, {"receives", Json::array()}};
      for (const auto& send : found.sends) {
        std::vector<uint64_t> ids;
        for (const uint32_t slot : send.slots) ids.push_back(ranks[rank][slot].id);
        line["sends"].push_back({{"to", send.to}, {"ids", ids}});
      }
      for (const auto& receive : found.receives)
        line["receives"].push_back({{"from", receive.from}, {"count", receive.slots.size()}});
      Shell::print(line);
      continue;
    }
    std::string text;
    for (const auto& send : found.sends) text += fmt::format(" {}×{}", send.to, send.slots.size());
    fmt::print("rank {} holds {}, sends {} (rank×samples):{}\n", rank, ranks[rank].size(), found.sent(),
               text);
  }
  return {};
}

}  // namespace

void add_pls_simulate(CLI::App& pls, Shell& shell) {
  CLI::App* verb =
      pls.add_subcommand("simulate", "What exchanges will do, for any number of ranks, without data");
  verb->fallthrough();
  auto flags = std::make_shared<SimulateFlags>();
  add_flags(*verb, *flags);
  verb->add_option("--epochs", flags->epochs, "How many")->capture_default_str();
  add_bytes(*verb, "--sample-bytes", flags->sample_bytes, "Size of a sample (default 110kB)");
  verb->add_option("--link", flags->gigabytes_per_s, "What a rank sends, in GB/s")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->add_flag("--quality", flags->quality,
                 "How well samples mix over the epochs, beside a global shuffle");
  verb->add_option("--batch", flags->batch, "With --quality: samples in a rank's batch")
      ->check(at_least_one())
      ->capture_default_str();
  verb->footer(
      "Examples:\n"
      "  millrace pls simulate --quality --q 0.1 --select random --epochs 30\n"
      "  millrace pls simulate --samples 1281167 --ranks 2048 --classes 1000 --q 0.1 --epochs 20\n"
      "  millrace pls simulate /local/pls --q auto --select label-aware");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return simulate(shell, *flags); }; });
}

void add_pls_plan(CLI::App& pls, Shell& shell) {
  CLI::App* verb = pls.add_subcommand("plan", "Who will send what to whom in the next exchange");
  verb->fallthrough();
  auto flags = std::make_shared<SimulateFlags>();
  add_flags(*verb, *flags);
  verb->add_option("--rank", flags->rank, "Only this rank's part");
  verb->footer(
      "Examples:\n  millrace pls plan /local/pls --q 0.1\n  millrace --json pls plan --samples 1000 --ranks "
      "8 --rank 3");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return plan(shell, *flags); }; });
}

}  // namespace millrace::cli
