// millrace pls: partial local shuffling on the command line.
#include "cli/pls.h"

#include "exchange/local_ranks.h"
#include "exchange/mpi_group.h"
#include "exchange/sample_store.h"

namespace millrace::cli {

void PlsPlanFlags::add_to(CLI::App& verb) {
  verb.add_option("--q", fraction,
                  "What is exchanged in an epoch: 0.1, or 0.5,0.1@3 (a tenth from epoch 3 on), or auto")
      ->capture_default_str();
  verb.add_option("--select", select, "Which samples leave: oldest, random or label-aware")
      ->type_name("oldest|random|label-aware")
      ->capture_default_str();
  verb.add_option("--policy", policy, "Who sends to whom: shift, or paper (the published rule)")
      ->type_name("shift|paper")
      ->capture_default_str();
  verb.add_option("--partners", partners, "Ranks that one sends to in an epoch")
      ->check(at_least_one())
      ->capture_default_str();
  verb.add_option("--seed", seed, "Which random choice; the same on all ranks")->capture_default_str();
}

void PlsPlanFlags::add_engine_to(CLI::App& verb) {
  verb.add_option("--timeout", timeout_s, "Seconds without an answer after which a rank counts as stalled")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb.add_flag("--apart", apart,
                "Send everything: do not copy from the stores of ranks on the same machine");
  add_bytes(verb, "--slack", limits.slack, "Space that samples which left may still take up (default 64MiB)");
  add_bytes(verb, "--piece", limits.piece, "Space used while moving samples together (default 64MiB)");
}

Result<exchange::ExchangeOptions> PlsPlanFlags::options() const {
  exchange::ExchangeOptions options;
  options.plan.policy = MR_TRY(exchange::parse_policy(policy));
  options.plan.select = MR_TRY(exchange::parse_select(select));
  if (options.plan.select == exchange::Select::kCallback)
    return make_error(Code::kInvalid, "a callback can only be given in Python")
        .with_hint("--select oldest, random or label-aware");
  options.plan.seed = seed;
  options.plan.partners = partners;
  options.fraction = MR_TRY(exchange::FractionSchedule::parse(fraction));
  options.limits = limits;
  options.apart = apart;
  options.timeout_ms = static_cast<uint64_t>(timeout_s * 1000);
  return options;
}

std::string hex(uint64_t value) {
  return fmt::format("{:016x}", value);
}

Result<exchange::Ranks> read_residents(const std::string& root) {
  const uint32_t there = exchange::count_stores(root);
  if (there == 0)
    return make_error(Code::kNotFound, "{}: there are no sample stores", root)
        .with_hint("make them with millrace pls ingest");
  exchange::Ranks ranks;
  uint64_t found = 0;
  uint64_t samples = 0;
  for (uint32_t rank = 0; rank < there; ++rank) {
    const auto manifest = MR_TRY(exchange::read_current(exchange::rank_directory(root, rank)));
    ranks.push_back(manifest.residents());
    found += manifest.records.size();
    samples = manifest.samples;
  }
  if (found == samples) return ranks;
  return make_error(Code::kInvalid, "{}: {} stores hold {} of {} samples", root, there, found, samples)
      .with_hint("bring all rank-* directories below one root; millrace pls verify says what is wrong");
}

Result<NextEpoch> view_next(const exchange::Ranks& ranks, const std::string& root,
                            const exchange::ExchangeOptions& options) {
  NextEpoch next;
  if (!root.empty()) {
    const auto manifest = MR_TRY(exchange::read_current(exchange::rank_directory(root, 0)));
    next.view.epoch = manifest.epoch;
    next.exchanges = manifest.exchanges();
  }
  uint32_t classes = 0;
  for (const auto& residents : ranks) {
    next.view.sizes.push_back(residents.size());
    for (const exchange::Resident& one : residents) {
      if (one.label != exchange::kNoLabel) classes = std::max(classes, one.label + 1);
    }
  }
  for (const auto& residents : ranks) next.view.labels.push_back(exchange::count_labels(residents, classes));
  next.view.fraction = options.fraction.at(next.exchanges, exchange::measure_balance(next.view.labels));
  return next;
}

Status run_on_ranks(uint32_t ranks, const std::function<Status(exchange::Group&)>& work) {
  if (!exchange::started_by_mpirun()) return exchange::run_ranks(ranks, work);
  const auto group = MR_TRY(exchange::open_mpi_group());
  if (ranks != group->size()) {
    return make_error(Code::kInvalid, "mpirun started {} ranks, but there are {} stores", group->size(),
                      ranks)
        .with_hint(fmt::format("mpirun -n {}, or deal the samples anew: millrace pls redeal --ranks {}",
                               ranks, group->size()));
  }
  Status done = work(*group);
  // The others may be waiting for this one, and could not be told otherwise.
  if (!done && done.error().code() == Code::kUnavailable) {
    fmt::print(stderr, "millrace: rank {}: {}\n", group->rank(), done.error().message());
    exchange::abort_mpi(1);
  }
  return done;
}

void add_pls(CLI::App& app, Shell& shell) {
  CLI::App* pls = app.add_subcommand(
      "pls", "Partial local shuffling: ranks keep samples locally and exchange a part each epoch");
  pls->require_subcommand(1);
  pls->fallthrough();
  add_pls_ingest(*pls, shell);
  add_pls_plan(*pls, shell);
  add_pls_simulate(*pls, shell);
  add_pls_exchange(*pls, shell);
  add_pls_redeal(*pls, shell);
  add_pls_bench(*pls, shell);
  add_pls_plot(*pls, shell);
  add_pls_stat(*pls, shell);
  add_pls_verify(*pls, shell);
}

}  // namespace millrace::cli
