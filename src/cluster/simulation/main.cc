// Runs simulated clusters from many seeds and says which of them lost, tore, aged or revived an object.
//
//   cluster_simulation --seeds 10000            every kind of cluster, that many runs of each
//   cluster_simulation --kind 3 --from 77 --seeds 1 -v   one run of the third kind, told in full
//   MILLRACE_BROKEN=no-promise cluster_simulation --expect-violation    (in a build with faults)
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/number.h"
#include "cluster/simulation/world.h"

namespace {

using millrace::cluster::simulation::Operation;
using millrace::cluster::simulation::Outcome;
using millrace::cluster::simulation::Scene;
using millrace::cluster::simulation::World;

struct Options {
  uint64_t from = 1;
  uint64_t seeds = 100;
  uint64_t kind = 0;  // 0: all
  bool verbose = false;
  bool expect_violation = false;
};

const std::vector<Scene> kScenes = {
    {{1, 0, 1}, 3},
    {{1, 1, 2}, 3},
    {{1, 2, 2}, 4},
    {{1, 2, 3}, 5},
    {{2, 1, 3}, 4},
    {{2, 2, 3}, 5, 2},
    {{4, 2, 6}, 7},
    // The redundancy changes meanwhile.
    {{1, 2, 2}, 5, 1, 1, {{2, 2, 3}, {1, 1, 2}}},
    {{4, 2, 5}, 7, 1, 1, {{1, 2, 2}, {4, 1, 5}, {2, 4, 4}}},
    // Drives become full, and have room again.
    {{1, 2, 2}, 5, 2, 1, {}, 12, 40, true},
    {{2, 1, 3}, 6, 1, 1, {{1, 2, 2}}, 12, 40, true},
};

std::string describe(const Scene& scene) {
  return fmt::format("{}+{} floor {} on {} nodes with {} drives", scene.redundancy.k, scene.redundancy.m,
                     scene.redundancy.floor, scene.nodes, scene.drives);
}

void tell(const Outcome& outcome) {
  for (const auto& history : outcome.histories) {
    for (const Operation& one : history) fmt::print("    {}\n", millrace::cluster::simulation::describe(one));
  }
}

// The number of violations.
uint64_t run(const Options& options) {
  uint64_t violations = 0;
  for (const Scene& scene : kScenes) {
    if (options.kind != 0 && &scene != &kScenes[options.kind - 1]) continue;
    uint64_t acknowledged = 0;
    uint64_t messages = 0;
    const uint64_t begin = millrace::steady_us();
    for (uint64_t seed = options.from; seed < options.from + options.seeds; ++seed) {
      const Outcome outcome = World(scene, seed).run();
      acknowledged += outcome.acknowledged;
      messages += outcome.messages;
      if (options.verbose) tell(outcome);
      if (outcome.violation.empty()) continue;
      ++violations;
      fmt::print("  seed {} of {}: {}\n", seed, describe(scene), outcome.violation);
      if (options.expect_violation) {
        fmt::print("found after {} seeds, {:.2f} s\n", seed - options.from + 1,
                   static_cast<double>(millrace::steady_us() - begin) / 1e6);
        return violations;
      }
      if (violations == 1) tell(outcome);
    }
    fmt::print("{}: {} seeds, {} acknowledged writes, {} messages, {:.1f} s\n", describe(scene),
               options.seeds, acknowledged, messages,
               static_cast<double>(millrace::steady_us() - begin) / 1e6);
  }
  return violations;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    const auto number = [&] {
      return i + 1 < argc ? millrace::parse_number<uint64_t>(argv[++i]).value_or(0) : 0;
    };
    if (flag == "--seeds") {
      options.seeds = number();
    } else if (flag == "--from") {
      options.from = number();
    } else if (flag == "--kind") {
      options.kind = number();
    } else if (flag == "-v") {
      options.verbose = true;
    } else if (flag == "--expect-violation") {
      options.expect_violation = true;
    } else {
      fmt::print(stderr,
                 "usage: cluster_simulation [--kind N] [--from N] [--seeds N] [-v] [--expect-violation]\n");
      return 2;
    }
  }
  const uint64_t violations = run(options);
  if (options.expect_violation && violations == 0)
    fmt::print("no violation was found, though one was expected\n");
  return (violations != 0) == options.expect_violation ? 0 : 1;
}
