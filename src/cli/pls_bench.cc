// millrace pls bench: how fast samples move between ranks, beside raw messages of the same bytes.
#include <thread>

#include "base/units.h"
#include "cli/pls.h"
#include "exchange/local_ranks.h"
#include "exchange/mpi_group.h"
#include "exchange/transfer_bench.h"

namespace millrace::cli {

namespace {

struct BenchFlags {
  exchange::TransferBench bench;
  PlsPlanFlags plan;
  std::string root;
  uint32_t ranks = 4;
  uint64_t steps = 200;
  double step_ms = 50;
};

Status transfer(Shell& shell, const BenchFlags& flags) {
  const uint32_t ranks =
      exchange::started_by_mpirun() ? MR_TRY(exchange::open_mpi_group())->size() : flags.ranks;
  return run_on_ranks(ranks, [&](exchange::Group& group) -> Status {
    const exchange::TransferRates rates = MR_TRY(exchange::bench_transfer(group, flags.bench));
    if (group.rank() != 0) return {};
    const double raw = static_cast<double>(rates.bytes) / rates.raw_seconds / 1e9;
    const double ours = static_cast<double>(rates.bytes) / rates.taken_seconds / 1e9;
    const double sent = static_cast<double>(rates.bytes) / rates.sent_seconds / 1e9;
    const double each_us = rates.taken_seconds / static_cast<double>(flags.bench.samples) * 1e6;
    const double each_sent_us = rates.sent_seconds / static_cast<double>(flags.bench.samples) * 1e6;
    if (shell.json) {
      Shell::print({{"ranks", group.size()},
                    {"samples", flags.bench.samples},
                    {"sample_bytes", flags.bench.sample_bytes},
                    {"raw_gigabytes_per_s", raw},
                    {"gigabytes_per_s", ours},
                    {"share_of_raw", ours / raw},
                    {"microseconds_per_sample", each_us},
                    {"sent_gigabytes_per_s", sent},
                    {"sent_share_of_raw", sent / raw},
                    {"sent_microseconds_per_sample", each_sent_us}});
    } else {
      fmt::print(
          "{} ranks, {} samples of {} each: {:.2f} GB/s to each, {:.1f} us a sample; by messages, as between "
          "machines, {:.2f} GB/s; raw messages {:.2f} GB/s; {:.0f} % and {:.0f} % of them\n",
          group.size(), flags.bench.samples, format_bytes(flags.bench.sample_bytes), ours, each_us, sent, raw,
          100 * ours / raw, 100 * sent / raw);
    }
    return {};
  });
}

// A trainer that computes for a fixed time in each step. The same with and without an exchange, by turns.
Status training(Shell& shell, const BenchFlags& flags) {
  const exchange::ExchangeOptions options = MR_TRY(flags.plan.options());
  const uint32_t ranks = exchange::started_by_mpirun() ? MR_TRY(exchange::open_mpi_group())->size()
                                                       : exchange::count_stores(flags.root);
  return run_on_ranks(ranks, [&](exchange::Group& group) -> Status {
    auto exchange =
        MR_TRY(exchange::Exchange::open(exchange::rank_directory(flags.root, group.rank()), group, options));
    double with = 0;
    double without = 0;
    const auto train = [&] {
      for (uint64_t step = 0; step < flags.steps; ++step)
        std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(flags.step_ms));
    };
    for (uint64_t round = 0; round < flags.bench.rounds; ++round) {
      MR_TRY(exchange::vote(group, {}, {600'000, "measuring"}));
      const Stopwatch alone;
      train();
      without += alone.seconds();
      MR_TRY(exchange::vote(group, {}, {600'000, "measuring"}));
      const Stopwatch beside;
      MR_TRY(exchange->begin());
      train();
      MR_TRY(exchange->commit());
      with += beside.seconds();
    }
    if (group.rank() != 0) return {};
    const exchange::ExchangeStats& stats = exchange->stats();
    if (shell.json) {
      Shell::print({{"ranks", group.size()},
                    {"slowdown", with / without - 1},
                    {"seconds", with},
                    {"seconds_without", without},
                    {"samples_sent", stats.samples_sent},
                    {"bytes_sent", stats.bytes_sent},
                    {"transfer_seconds", stats.transfer_seconds},
                    {"prepare_seconds", stats.prepare_seconds},
                    {"exposed_seconds", stats.exposed_seconds}});
    } else {
      fmt::print(
          "{} ranks, {} steps of {} ms: {:.2f} % slower with the exchange of {} samples ({}); {:.3f} s were "
          "waited for\n",
          group.size(), flags.steps, flags.step_ms, 100 * (with / without - 1),
          format_count(stats.samples_sent), format_bytes(stats.bytes_sent), stats.exposed_seconds);
    }
    return {};
  });
}

}  // namespace

void add_pls_bench(CLI::App& pls, Shell& shell) {
  CLI::App* verb =
      pls.add_subcommand("bench", "How fast samples move between ranks, and what training notices of it");
  verb->fallthrough();
  auto flags = std::make_shared<BenchFlags>();
  verb->add_option("stores", flags->root,
                   "Exchange these stores beside a simulated trainer; without: samples that are made for it, "
                   "in the page cache")
      ->type_name("DIR");
  verb->add_option("--samples", flags->bench.samples, "Samples that each rank sends")
      ->check(at_least_one())
      ->capture_default_str();
  add_bytes(*verb, "--sample-bytes", flags->bench.sample_bytes, "Size of a sample (default 110kB)");
  verb->add_option("--rounds", flags->bench.rounds, "How often")
      ->check(at_least_one())
      ->capture_default_str();
  verb->add_option("--ranks", flags->ranks, "Threads as ranks, without mpirun")
      ->check(at_least_one())
      ->capture_default_str();
  verb->add_option("--steps", flags->steps, "Steps of an epoch of the simulated trainer")
      ->check(at_least_one())
      ->capture_default_str();
  verb->add_option("--step-ms", flags->step_ms, "What a step takes")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  flags->plan.add_to(*verb);
  flags->plan.add_engine_to(*verb);
  verb->footer(
      "Examples:\n"
      "  mpirun -n 4 millrace pls bench --sample-bytes 110kB\n"
      "  mpirun -n 4 millrace pls bench /local/pls --q 0.1 --steps 100 --step-ms 50");
  verb->callback([&shell, flags] {
    shell.action = [&shell, flags] {
      return flags->root.empty() ? transfer(shell, *flags) : training(shell, *flags);
    };
  });
}

}  // namespace millrace::cli
