// millrace pls exchange and redeal: exchanges samples without a trainer, and redistributes them to another
// number of ranks.
#include "base/units.h"
#include "cli/pls.h"
#include "exchange/local_ranks.h"
#include "exchange/mpi_group.h"

namespace millrace::cli {

namespace {

struct ExchangeFlags {
  PlsPlanFlags plan;
  std::string root;
  uint64_t epochs = 1;
  uint32_t ranks = 1;
  bool redeal = false;
};

// What one epoch added to the counts of those before it.
exchange::ExchangeStats added(const exchange::ExchangeStats& before, exchange::ExchangeStats now) {
  now.samples_sent -= before.samples_sent;
  now.bytes_sent -= before.bytes_sent;
  now.messages -= before.messages;
  now.transfer_seconds -= before.transfer_seconds;
  now.prepare_seconds -= before.prepare_seconds;
  return now;
}

struct EpochFigures {
  exchange::ExchangeStats stats;
  exchange::Exchange::Digest digest;
  double seconds = 0;
};

void tell(Shell& shell, const exchange::Exchange& exchange, const EpochFigures& figures) {
  const auto& [stats, digest, seconds] = figures;
  if (shell.json) {
    Shell::print({{"epoch", exchange.epoch()},
                  {"owner_hash", hex(digest.owners)},
                  {"content_hash", hex(digest.contents)},
                  {"samples", digest.samples},
                  {"fraction", stats.fraction},
                  {"samples_sent", stats.samples_sent},
                  {"bytes_sent", stats.bytes_sent},
                  {"messages", stats.messages},
                  {"transfer_seconds", stats.transfer_seconds},
                  {"prepare_seconds", stats.prepare_seconds},
                  {"label_distance", stats.balance ? Json(stats.balance->distance) : Json()},
                  {"label_floor", stats.balance ? Json(stats.balance->floor) : Json()},
                  {"live_bytes", exchange.store()->manifest().live_bytes()},
                  {"peak_bytes", stats.peak_bytes},
                  {"seconds", seconds}});
    return;
  }
  fmt::print("epoch {}: rank 0 sent {} samples, {} in {} messages; {:.2f} s; owners {}, contents {}\n",
             exchange.epoch(), format_count(stats.samples_sent), format_bytes(stats.bytes_sent),
             stats.messages, seconds, hex(digest.owners), hex(digest.contents));
  std::fflush(stdout);
}

Result<uint32_t> stores_below(const std::string& root) {
  // On machines with drives of their own a rank sees its own store only; whether all are there is found out
  // when they are opened.
  if (exchange::started_by_mpirun()) {
    const auto group = MR_TRY(exchange::open_mpi_group());
    return group->size();
  }
  const uint32_t there = exchange::count_stores(root);
  if (there > 0) return there;
  return make_error(Code::kNotFound, "{}: there are no sample stores", root)
      .with_hint("make them with millrace pls ingest");
}

// Before an exchange by another number of ranks: rank 0 deals, the others wait for it.
Status redeal_for_mpirun(const ExchangeFlags& flags, const exchange::ExchangeOptions& options) {
  if (!exchange::started_by_mpirun()) {
    return make_error(Code::kInvalid,
                      "--redeal deals the samples to the ranks that mpirun started, and there are none")
        .with_hint("start it by mpirun -n RANKS, or deal them with millrace pls redeal --ranks RANKS");
  }
  const auto group = MR_TRY(exchange::open_mpi_group());
  Status dealt;
  if (group->rank() == 0) dealt = exchange::redeal_stores(flags.root, group->size(), options);
  return exchange::vote(*group, dealt, {uint64_t{86'400'000}, "dealing the samples anew"});
}

// How many samples leave each rank.
struct Leavers {
  uint64_t all = 0;
  uint64_t most = 0;
  uint64_t samples = 0;

  void add(uint64_t sent, uint64_t held) {
    all += sent;
    most = std::max(most, sent);
    samples += held;
  }
};

Status refuse_mpirun() {
  if (!exchange::started_by_mpirun()) return {};
  return make_error(Code::kInvalid, "--dry-run looks at the stores of all ranks, in one process")
      .with_hint("start it without mpirun, where all stores are below one root");
}

Status foresee_exchange(Shell& shell, const ExchangeFlags& flags, const exchange::ExchangeOptions& options) {
  MR_TRY(refuse_mpirun());
  const exchange::Ranks ranks = MR_TRY(read_residents(flags.root));
  const auto [view, exchanges] = MR_TRY(view_next(ranks, flags.root, options));
  const exchange::Planner planner(options.plan, view);
  Leavers leavers;
  for (uint32_t rank = 0; rank < ranks.size(); ++rank)
    leavers.add(MR_TRY(planner.plan(rank, ranks[rank])).sent(), ranks[rank].size());
  if (shell.json) {
    Shell::print({{"dry_run", true},
                  {"epoch", exchanges},
                  {"epochs", flags.epochs},
                  {"fraction", view.fraction},
                  {"moved", leavers.all},
                  {"most_sent", leavers.most},
                  {"samples", leavers.samples}});
    return {};
  }
  shell.say(fmt::format(
      "would exchange {} epoch{}: in the first, epoch {}, {} of {} samples change their rank, and no rank "
      "sends more than {}",
      flags.epochs, flags.epochs == 1 ? "" : "s", exchanges, format_count(leavers.all),
      format_count(leavers.samples), format_count(leavers.most)));
  return {};
}

Status foresee_redeal(Shell& shell, const ExchangeFlags& flags) {
  const exchange::Ranks ranks = MR_TRY(read_residents(flags.root));
  std::vector<uint64_t> sizes(std::max<size_t>(ranks.size(), flags.ranks));
  for (size_t rank = 0; rank < ranks.size(); ++rank) sizes[rank] = ranks[rank].size();
  Leavers leavers;
  for (uint32_t rank = 0; rank < sizes.size(); ++rank)
    leavers.add(exchange::plan_redeal(rank, sizes, flags.ranks).sent(), sizes[rank]);
  if (shell.json) {
    Shell::print(
        {{"dry_run", true}, {"ranks", flags.ranks}, {"moved", leavers.all}, {"samples", leavers.samples}});
    return {};
  }
  shell.say(fmt::format("would deal {} samples of {} rank{} to {}: {} of them change their rank",
                        format_count(leavers.samples), ranks.size(), ranks.size() == 1 ? "" : "s",
                        flags.ranks, format_count(leavers.all)));
  return {};
}

Status run(Shell& shell, const ExchangeFlags& flags) {
  const exchange::ExchangeOptions options = MR_TRY(flags.plan.options());
  if (shell.dry_run) return foresee_exchange(shell, flags, options);
  if (flags.redeal) MR_TRY(redeal_for_mpirun(flags, options));
  const uint32_t ranks = MR_TRY(stores_below(flags.root));
  return run_on_ranks(ranks, [&](exchange::Group& group) -> Status {
    auto exchange =
        MR_TRY(exchange::Exchange::open(exchange::rank_directory(flags.root, group.rank()), group, options));
    for (uint64_t i = 0; i < flags.epochs; ++i) {
      const Stopwatch watch;
      const exchange::ExchangeStats before = exchange->stats();
      MR_TRY(exchange->begin());
      MR_TRY(exchange->commit());
      const exchange::Exchange::Digest digest = MR_TRY(exchange->digest());
      if (group.rank() == 0)
        tell(shell, *exchange, {added(before, exchange->stats()), digest, watch.seconds()});
    }
    return {};
  });
}

Status redeal(Shell& shell, const ExchangeFlags& flags) {
  const exchange::ExchangeOptions options = MR_TRY(flags.plan.options());
  if (exchange::started_by_mpirun()) {
    return make_error(Code::kInvalid, "one process deals the samples of all ranks anew")
        .with_hint("start it without mpirun, where all stores are below one root");
  }
  if (shell.dry_run) return foresee_redeal(shell, flags);
  MR_TRY(exchange::redeal_stores(flags.root, flags.ranks, options));
  if (shell.json) {
    Shell::print({{"ranks", flags.ranks}});
  } else {
    shell.say(fmt::format("the samples are dealt to {} rank{}", flags.ranks, flags.ranks == 1 ? "" : "s"));
  }
  return {};
}

}  // namespace

void add_pls_exchange(CLI::App& pls, Shell& shell) {
  CLI::App* verb = pls.add_subcommand("exchange", "Exchange samples for some epochs, without training");
  verb->fallthrough();
  auto flags = std::make_shared<ExchangeFlags>();
  verb->add_option("stores", flags->root, "Where the stores are")->required()->type_name("DIR");
  flags->plan.add_to(*verb);
  flags->plan.add_engine_to(*verb);
  verb->add_option("--epochs", flags->epochs, "How many")->check(at_least_one())->capture_default_str();
  verb->add_flag(
      "--redeal", flags->redeal,
      "Deal the samples to the ranks that mpirun started, where another number of ranks holds them");
  add_dry_run(*verb, shell);
  verb->footer(
      "Under mpirun every rank exchanges its own store; otherwise this process does all of them. Started "
      "again after a\n"
      "crash it goes on from the last epoch that all ranks committed.\n"
      "Examples:\n"
      "  mpirun -n 8 millrace pls exchange /local/pls --q 0.1 --epochs 3\n"
      "  millrace pls exchange /local/pls --q 1    (one global shuffle, before training)");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

void add_pls_redeal(CLI::App& pls, Shell& shell) {
  CLI::App* verb = pls.add_subcommand(
      "redeal",
      "Deal the samples to another number of ranks, or level their stores, moving as few as possible");
  verb->fallthrough();
  auto flags = std::make_shared<ExchangeFlags>();
  verb->add_option("stores", flags->root, "Where all the stores are")->required()->type_name("DIR");
  verb->add_option("--ranks", flags->ranks, "How many ranks there will be")
      ->required()
      ->check(at_least_one());
  flags->plan.add_engine_to(*verb);
  add_dry_run(*verb, shell);
  verb->footer("Example:\n  millrace pls redeal /local/pls --ranks 6");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return redeal(shell, *flags); }; });
}

}  // namespace millrace::cli
