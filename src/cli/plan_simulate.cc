// millrace plan simulate: runs the simulation of a plan and prints its result.
#include "base/units.h"
#include "cli/planning.h"
#include "plan/simulate.h"

namespace millrace::cli {

namespace {

struct SimulateFlags {
  PlanFlags plan;
  bool epoch = false;
  uint64_t windows = plan::SimulationOptions().most_windows;
};

Json simulation_json(const SimulateFlags& flags, const plan::Simulation& simulation, double took) {
  Json busy = Json::array();
  for (const plan::Busy& one : simulation.busy)
    busy.push_back({{"what", one.what}, {"mean", one.mean}, {"most", one.most}});
  return {{"extent", flags.epoch ? "epoch" : "steady"},
          {"samples_per_second", simulation.samples_per_second},
          {"expected_samples_per_second", simulation.expected},
          {"share_of_expected", simulation.share()},
          {"gpu_utilisation", simulation.gpu_utilisation},
          {"simulated_seconds", simulation.seconds},
          {"first_samples_seconds", simulation.first_seconds},
          {"windows", simulation.windows},
          {"events", simulation.events},
          {"took_seconds", took},
          {"busy", busy},
          {"notes", simulation.notes}};
}

void print_simulation(const SimulateFlags& flags, const plan::Simulation& simulation) {
  const auto count = [](double value) { return format_count(static_cast<uint64_t>(value)); };
  std::vector<std::vector<std::string>> rows = {{"", "busy", "", "busiest of them"}};
  for (const plan::Busy& one : simulation.busy)
    rows.push_back({one.what, fmt::format("{:.0f} %", one.mean * 100), bar_text(one.mean, 20),
                    fmt::format("{:.0f} %", one.most * 100)});
  print_table(rows);
  fmt::print("\n{}: {} samples/s, {:.1f} % of the {} that the flow gives; GPUs {:.0f} % busy\n",
             flags.epoch ? "one epoch" : "steady", count(simulation.samples_per_second),
             simulation.share() * 100, count(simulation.expected), simulation.gpu_utilisation * 100);
  fmt::print("first samples in a GPU after {:.2f} s; {} simulated\n", simulation.first_seconds,
             plan::format_seconds(plan::to_rational(simulation.seconds)));
  for (const std::string& note : simulation.notes) fmt::print("- {}\n", note);
}

Status run(Shell& shell, const SimulateFlags& flags) {
  const plan::Installation installation = MR_TRY(flags.plan.installation());
  plan::SimulationOptions options;
  options.extent = flags.epoch ? plan::Extent::kEpoch : plan::Extent::kSteady;
  options.most_windows = flags.windows;
  options.progress = &shell.progress;
  const Stopwatch watch;
  plan::Simulation simulation;
  {
    const auto bar = shell.bar("simulating");
    simulation = MR_TRY(plan::simulate(installation, options));
  }
  if (shell.json) {
    Shell::print(simulation_json(flags, simulation, watch.seconds()));
  } else {
    print_simulation(flags, simulation);
  }
  shell.say(fmt::format("{} windows, {} events in {:.1f} s", format_count(simulation.windows),
                        format_count(simulation.events), watch.seconds()));
  return {};
}

}  // namespace

void add_plan_simulate(CLI::App& plan, Shell& shell) {
  CLI::App* verb = plan.add_subcommand(
      "simulate", "Play the plan through: few shards, small buffers, slow drives, recovery");
  verb->fallthrough();
  auto flags = std::make_shared<SimulateFlags>();
  flags->plan.add_to(*verb);
  verb->add_flag("--epoch", flags->epoch,
                 "One epoch from its first request to its last sample, not a steady stretch");
  verb->add_option("--windows", flags->windows, "How many windows to simulate at most")
      ->check(CLI::Range(uint64_t{100}, uint64_t{100'000'000}))
      ->capture_default_str();
  verb->footer(
      "Examples:\n"
      "  millrace plan simulate cluster.toml\n"
      "  millrace plan simulate cluster.toml --epoch --set workload.dataset=1TB --set simulate.window=64MiB\n"
      "  millrace plan simulate cluster.toml --set simulate.slow_drives=1 --set workload.recovery=500MB/s");
  verb->callback([&shell, flags] { shell.action = [&shell, flags] { return run(shell, *flags); }; });
}

}  // namespace millrace::cli
