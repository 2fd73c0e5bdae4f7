// Plans for tests: random ones, and ones of a given number of parts.
#pragma once

#include <fmt/format.h>

#include <string>

#include "base/random.h"
#include "plan/check.h"

namespace millrace::plan::testing {

// Of a text that is a plan: what is wrong with it ends the test.
inline Installation read_plan(const std::string& text) {
  const TomlDocument document = parse_toml(text, "test.toml").take();
  return read_installation(document).take();
}

class PlanDrawer {
 public:
  explicit PlanDrawer(uint64_t seed) : random_(seed) {}

  // Deep queues everywhere, so that it settles where the flow says.
  std::string draw() {
    text_ = "name = \"drawn\"\n";
    local_ = random_.below(4) == 0;
    three_tiers_ = !local_ && random_.below(3) == 0;
    switches_ = local_ ? 0 : random_.below(3);
    draw_workload();
    draw_parts();
    const uint64_t gpu_groups = partial_ ? 1 : 1 + random_.below(2),
                   store_groups = local_ ? gpu_groups : 1 + random_.below(2);
    for (uint64_t group = 0; group < store_groups; ++group) draw_store(group);
    draw_switches();
    if (three_tiers_) draw_machines("cpu", 0);
    for (uint64_t group = 0; group < gpu_groups; ++group) draw_machines("gpu", group);
    text_ += "\n[simulate]\nreaders = 9000\nahead = 2\nwindow = \"1MiB\"\nbuffer = \"4GB\"\n";
    text_ += fmt::format("seed = {}\n", random_.below(1000));
    return text_;
  }

 private:
  uint64_t between(uint64_t least, uint64_t most) { return least + random_.below(most - least + 1); }
  void line(const std::string& words) { text_ += words + "\n"; }

  void draw_workload() {
    line("\n[workload]");
    const uint64_t sample = between(50, 500);
    line(fmt::format("sample = \"{}kB\"", sample));
    line(fmt::format("decoded = \"{}kB\"", sample * between(2, 5)));
    line("dataset = \"100TB\"\nshard = \"2MiB\"");
    line(random_.below(2) == 0 ? "access = \"random\"" : "access = \"sequential\"");
    partial_ = local_ && random_.below(2) == 0;
    if (partial_) line(fmt::format("shuffle = \"partial\"\nfraction = 0.{}", between(1, 9)));
    if (!local_ && random_.below(2) == 0) line("redundancy = \"ec=4+2\"");
  }

  void draw_parts() {
    line(fmt::format("\n[part.d0]\nkind = \"drive\"\nread = \"{}MB/s\"", between(100, 600)));
    line(fmt::format("\n[part.d1]\nkind = \"drive\"\nread = \"{}MB/s\"\nwrite = \"{}MB/s\"",
                     between(100, 600), between(50, 300)));
    line(fmt::format("\n[part.net]\nkind = \"link\"\nrate = \"{}MB/s\"", between(600, 5000)));
    line(fmt::format("\n[part.lane]\nkind = \"link\"\nrate = \"{}MB/s\"", between(1000, 9000)));
    line(fmt::format("\n[part.c]\nkind = \"core\"\nin = \"{}MB/s\"\nout = \"{}MB/s\"", between(20, 100),
                     between(100, 400)));
    line(fmt::format("\n[part.g]\nkind = \"gpu\"\nrate = \"{}MB/s\"", between(100, 1500)));
  }

  void draw_store(uint64_t group) {
    line(fmt::format("\n[[store]]\nname = \"s{}\"\ndrive = \"d{}\"\ndrives = {}", group, random_.below(2),
                     between(2, 8)));
    if (local_) return line(fmt::format("at = \"gpu{}\"", group));
    line(fmt::format("count = {}\ninterface = \"net\"\ninterfaces = {}", between(1, 4), between(1, 2)));
    if (switches_ == 2) line("switch = \"left\"");
  }

  void draw_switches() {
    if (switches_ == 1) line(fmt::format("\n[[switch]]\nname = \"one\"\nrate = \"{}GB/s\"", between(2, 20)));
    if (switches_ < 2) return;
    line(fmt::format("\n[[switch]]\nname = \"left\"\nuplink_to = \"top\"\noversubscription = {}",
                     between(1, 3)));
    line(fmt::format("\n[[switch]]\nname = \"right\"\nuplink_to = \"top\"\nuplink = \"net\"\nuplinks = {}",
                     between(1, 6)));
    line("\n[[switch]]\nname = \"top\"");
  }

  void draw_machines(const std::string& tier, uint64_t group) {
    line(fmt::format("\n[[{}]]\nname = \"{}{}\"\ncount = {}", tier, tier, group, between(1, 3)));
    line(fmt::format("interface = \"net\"\ninterfaces = {}", between(1, 3)));
    if (tier == "cpu" || !three_tiers_) line(fmt::format("cores = {}\ncore = \"c\"", between(8, 64)));
    if (random_.below(2) == 0) line("memory = \"40GB/s\"\nbus = \"lane\"");
    if (tier == "gpu") line(fmt::format("gpus = {}\ngpu = \"g\"\nlink = \"lane\"", between(1, 8)));
    if (switches_ == 2) line("switch = \"right\"");
  }

  Random random_;
  std::string text_;
  bool local_ = false;
  bool three_tiers_ = false;
  bool partial_ = false;
  uint64_t switches_ = 0;
};

// Drives, interfaces and GPUs; then more groups and stages, up to about thirty.
inline std::string plan_of_parts(uint64_t parts) {
  std::string text =
      "name = \"parts\"\n[workload]\nsample = \"100kB\"\ndecoded = \"600kB\"\ndataset = \"1TB\"\n";
  if (parts == 3)
    return "name = \"three parts\"\n[workload]\nsample = \"100kB\"\ndataset = \"1TB\"\n"
           "[[store]]\ndrive = \"rotational\"\ndrives = 12\ninterface = \"10GbE\"\n[[gpu]]\ngpu = "
           "\"gpu\"\ngpus = 8\n";
  if (parts == 10)
    return text +
           "[[store]]\nname = \"shelf\"\ncount = 4\ndrive = \"rotational\"\ndrives = 12\ninterface = "
           "\"25GbE\"\n"
           "[[cpu]]\nname = \"decoders\"\ncount = 8\ncores = 32\ncore = \"core\"\ninterface = "
           "\"100GbE\"\nmemory = \"200GB/s\"\n"
           "bus = \"pcie-40-lanes\"\n"
           "[[gpu]]\nname = \"boxes\"\ncount = 4\ngpus = 8\ngpu = \"gpu\"\nlink = \"pcie4-x16\"\ninterface = "
           "\"100GbE\"\n";
  for (int rack = 0; rack < 4; ++rack)
    text += fmt::format(
        "[[store]]\nname = \"shelf-{0}\"\ncount = {1}\ndrive = \"rotational\"\ndrives = 12\ninterface = "
        "\"25GbE\"\nswitch = \"rack-{0}\"\n"
        "[[switch]]\nname = \"rack-{0}\"\nuplink_to = \"spine\"\nuplink = \"100GbE\"\nuplinks = 2\n",
        rack, 2 + 3 * rack);
  text += "[[switch]]\nname = \"spine\"\nrate = \"500GB/s\"\n";
  for (int group = 0; group < 3; ++group)
    text += fmt::format(
        "[[switch]]\nname = \"pod-{0}\"\nuplink_to = \"spine\"\noversubscription = 3\n"
        "[[gpu]]\nname = \"boxes-{0}\"\ncount = {1}\ngpus = 8\ngpu = \"gpu\"\nlink = "
        "\"pcie4-x16\"\ninterface = \"100GbE\"\n"
        "cores = 64\ncore = \"core-millrace\"\nmemory = \"300GB/s\"\nswitch = \"pod-{0}\"\n",
        group, 3 + 4 * group);
  return text;
}

}  // namespace millrace::plan::testing
