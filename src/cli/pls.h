// The common code of the verbs of `millrace pls`: flags of a plan, and ranks under mpirun or as threads.
#pragma once

#include <functional>
#include <string>

#include "cli/common.h"
#include "exchange/exchange.h"
#include "exchange/group.h"
#include "exchange/simulate.h"

namespace millrace::cli {

struct PlsPlanFlags {
  std::string policy = "shift";
  std::string select = "oldest";
  std::string fraction = "0.1";
  uint64_t seed = 0;
  uint32_t partners = exchange::PlanOptions().partners;
  double timeout_s = 60;
  bool apart = false;
  exchange::StorageLimits limits;

  void add_to(CLI::App& verb);
  // For verbs that move bytes.
  void add_engine_to(CLI::App& verb);
  Result<exchange::ExchangeOptions> options() const;
};

std::string hex(uint64_t value);

// What the ranks hold whose stores are all below this root.
Result<exchange::Ranks> read_residents(const std::string& root);
// What every rank will know at the start of the next exchange.
struct NextEpoch {
  exchange::EpochView view;
  uint64_t exchanges = 0;  // before it
};
// Without a root nothing was exchanged yet.
Result<NextEpoch> view_next(const exchange::Ranks& ranks, const std::string& root,
                            const exchange::ExchangeOptions& options);

// Runs `work` for every rank: those that mpirun started, else as threads of this process, one per store of
// the root. What it gives is rank 0's; under mpirun only rank 0 prints.
Status run_on_ranks(uint32_t ranks, const std::function<Status(exchange::Group&)>& work);

void add_pls_ingest(CLI::App& pls, Shell& shell);
void add_pls_plan(CLI::App& pls, Shell& shell);
void add_pls_simulate(CLI::App& pls, Shell& shell);
void add_pls_exchange(CLI::App& pls, Shell& shell);
void add_pls_redeal(CLI::App& pls, Shell& shell);
void add_pls_bench(CLI::App& pls, Shell& shell);
void add_pls_plot(CLI::App& pls, Shell& shell);
void add_pls_stat(CLI::App& pls, Shell& shell);
void add_pls_verify(CLI::App& pls, Shell& shell);

}  // namespace millrace::cli
