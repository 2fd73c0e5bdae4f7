// Throughput, cuts and ladders of whole plans, with what exchange, redundancy and switches add.
#include "plan/check.h"

#include <gtest/gtest.h>

#include "plan/sweep.h"
#include "plan/testing/plans.h"

namespace millrace::plan {
namespace {

using testing::PlanDrawer;
using testing::read_plan;

Check check_text(const std::string& text) {
  auto checked = check(read_plan(text));
  EXPECT_TRUE(checked.has_value()) << (checked ? "" : checked.error().message());
  return checked.take();
}

const Resource& find(const Check& check, const std::string& noun) {
  for (const Resource& one : check.path.resources) {
    if (one.noun() == noun) return one;
  }
  ADD_FAILURE() << "no " << noun;
  return check.path.resources[0];
}

const char* const kLoad = "[workload]\nsample = \"100kB\"\ndataset = \"1TB\"\n";
const char* const kShelf =
    "[[store]]\nname = \"shelf\"\ndrive = \"rotational\"\ndrives = 10\ninterface = \"10GbE\"\n";
const char* const kBox = "[[gpu]]\nname = \"box\"\ngpus = 16\ngpu = \"gpu\"\n";

TEST(CheckTest, TheLadderNamesOneBottleneckAfterTheOther) {
  const Check checked = check_text(std::string(kLoad) + kShelf + kBox);
  ASSERT_EQ(checked.ladder.size(), 3U);
  EXPECT_EQ(checked.samples_per_second, 10'000);  // the interface's 1 GB/s
  EXPECT_NE(checked.ladder[0].sentence.find("interfaces of shelf limit"), std::string::npos);
  EXPECT_EQ(checked.ladder[1].samples_per_second, 20'000);  // drives
  EXPECT_EQ(checked.ladder[2].samples_per_second, 48'000);  // GPUs
  EXPECT_EQ(checked.gpu_utilisation(), Rational(10, 48));
  EXPECT_EQ(checked.needed(find(checked, "drives of shelf")), 24);
  EXPECT_EQ(checked.needed(find(checked, "interfaces of shelf")), 5);
  EXPECT_EQ(checked.epoch_seconds, 1000);
}

TEST(CheckTest, CostCountsWhatHasAPriceAndNamesWhatHasNone) {
  const Check checked = check_text(std::string(kLoad) + kShelf + "price = 2000\n" + kBox);
  EXPECT_EQ(checked.cost.dollars, 10 * 320 + 2000);
  EXPECT_EQ(checked.cost.unpriced, (std::vector<std::string>{"10GbE", "gpu", "machines of box"}));
}

TEST(CheckTest, DataThatDoesNotFitIsSaid) {
  EXPECT_TRUE(check_text(std::string(kLoad) + kShelf + kBox).room.fits());
  const std::string large = "[workload]\nsample = \"1MB\"\ndataset = \"79TB\"\nredundancy = \"copies=2\"\n";
  EXPECT_FALSE(check_text(large + kShelf + kBox).room.fits());
}

TEST(CheckTest, AnErasureCodeCrossesTheStoresInterfacesTwice) {
  const std::string coded = std::string(kLoad) + "redundancy = \"ec=4+2\"\n";
  const Check checked = check_text(coded + kShelf + kBox);
  // 100 kB to the reader, and three quarters of it between the machines.
  EXPECT_EQ(find(checked, "interfaces of shelf").work, 175'000);
  EXPECT_EQ(find(checked, "drives of shelf").work, 100'000);
}

TEST(CheckTest, IngestAndRecoveryTakeTheirPartOfTheDrives) {
  const std::string busy =
      std::string(kLoad) + "redundancy = \"ec=4+2\"\ningest = \"100MB/s\"\nrecovery = \"20MB/s\"\n";
  const Check checked = check_text(busy + kShelf + kBox);
  EXPECT_EQ(find(checked, "drives of shelf").reserved, 150'000'000 + 100'000'000);
  EXPECT_EQ(find(checked, "interfaces of shelf").reserved, 125'000'000 + 80'000'000);
}

TEST(CheckTest, IngestThatLeavesNothingIsRefusedWithItsPlace) {
  const auto refused = check(read_plan(std::string(kLoad) + "ingest = \"3GB/s\"\n" + kShelf + kBox));
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message().find("test.toml:1:1"), std::string::npos) << refused.error().message();
}

TEST(CheckTest, PartialShufflingReadsWritesAndSendsItsFraction) {
  const std::string text = std::string(kLoad) +
                           "shuffle = \"partial\"\nfraction = 0.25\n"
                           "[[store]]\nname = \"own\"\ndrive = \"nvme\"\nat = \"box\"\n" +
                           kBox + "count = 4\ninterface = \"10GbE\"\n";
  const Check checked = check_text(text);
  EXPECT_EQ(find(checked, "drives of own").work, 150'000);               // s(1 + Q) read, sQ written
  EXPECT_EQ(find(checked, "interfaces of box").work, Rational(18'750));  // Q·s·(1 − 1/M)
  EXPECT_EQ(checked.room.needed, Rational(1'250'000'000'000));           // (1 + Q)·N
  const std::string global = std::string(kLoad) +
                             "[[store]]\nname = \"own\"\ndrive = \"nvme\"\nat = \"box\"\n" + kBox +
                             "count = 4\ninterface = \"10GbE\"\n";
  EXPECT_EQ(find(check_text(global), "interfaces of box").work, 75'000);
}

TEST(CheckTest, ReplicatedDrivesNeedNoNetwork) {
  const Check checked =
      check_text(std::string(kLoad) +
                 "[[store]]\nname = \"own\"\ndrive = \"nvme\"\nat = \"box\"\nlayout = \"replicated\"\n" +
                 kBox + "count = 4\ninterface = \"10GbE\"\n");
  for (const Resource& one : checked.path.resources) EXPECT_NE(one.noun(), "interfaces of box");
}

TEST(CheckTest, ThreeTiersPassTheSwitchTwiceOnceDecoded) {
  const std::string load = "[workload]\nsample = \"100kB\"\ndecoded = \"600kB\"\ndataset = \"1TB\"\n";
  const Check checked = check_text(
      load + kShelf +
      "[[switch]]\nname = \"core\"\nrate = \"7GB/s\"\n"
      "[[cpu]]\nname = \"decoders\"\ncount = 4\ncores = 16\ncore = \"core\"\ninterface = \"interface\"\n" +
      kBox + "interface = \"interface\"\n");
  EXPECT_EQ(find(checked, "switch core").work, 700'000);
  EXPECT_EQ(find(checked, "switch core").capacity, 10'000);
  EXPECT_EQ(find(checked, "interfaces of box").work, 600'000);
}

TEST(CheckTest, OversubscriptionNarrowsTheWayUp) {
  const std::string text =
      std::string(kLoad) +
      "[[store]]\nname = \"shelf\"\ncount = 3\ndrive = \"nvme\"\ninterface = \"10GbE\"\nswitch = \"rack\"\n"
      "[[switch]]\nname = \"rack\"\nuplink_to = \"spine\"\noversubscription = 3\n[[switch]]\nname = "
      "\"spine\"\n" +
      kBox + "switch = \"spine\"\n";
  const Check checked = check_text(text);
  EXPECT_EQ(checked.samples_per_second, 10'000);
  EXPECT_NE(checked.ladder[0].sentence.find("way up from rack"), std::string::npos);
}

TEST(CheckTest, SwitchesThatAreNotJoinedAreRefusedWithThePlace) {
  const std::string text = std::string(kLoad) +
                           "[[store]]\nname = \"shelf\"\ndrive = \"nvme\"\nswitch = \"a\"\n"
                           "[[switch]]\nname = \"a\"\n[[switch]]\nname = \"b\"\n" +
                           kBox + "switch = \"b\"\n";
  const auto refused = check(read_plan(text));
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message().find("test.toml:4:1: nothing leads from the drives of shelf"),
            std::string::npos)
      << refused.error().message();
}

TEST(CheckTest, GroupsSideBySideAreEquallyBusyWhereTheyCanBe) {
  const Check checked = check_text(testing::plan_of_parts(30));
  EXPECT_EQ(checked.gpu_utilisation(), 1);
  const Rational busy = checked.utilisation(find(checked, "drives of shelf-0"));
  EXPECT_GT(busy, 0);
  for (const char* shelf : {"drives of shelf-1", "drives of shelf-2", "drives of shelf-3"})
    EXPECT_EQ(checked.utilisation(find(checked, shelf)), busy) << shelf;
}

TEST(CheckTest, AGroupBehindANarrowInterfaceLeavesTheRestToTheOthers) {
  const std::string text = std::string(kLoad) +
                           "[[store]]\nname = \"a\"\ndrive = \"nvme\"\ninterface = \"10GbE\"\n"
                           "[[store]]\nname = \"b\"\ndrive = \"nvme\"\n[[gpu]]\ngpu = \"gpu\"\ngpus = 12\n";
  const Check checked = check_text(text);
  EXPECT_EQ(checked.samples_per_second, 36'000);
  EXPECT_EQ(checked.used(find(checked, "drives of a")), 1'000'000'000);
  EXPECT_EQ(checked.used(find(checked, "drives of b")), 2'600'000'000);
}

TEST(CheckTest, RandomPlansFlowNoFasterThanAnyOfTheirStagesAndTheLadderRises) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Check checked = check_text(PlanDrawer(seed).draw());
    EXPECT_GT(checked.samples_per_second, 0);
    for (const Resource& one : checked.path.resources) EXPECT_LE(checked.used(one), one.total());
    for (size_t rung = 1; rung < checked.ladder.size(); ++rung)
      EXPECT_GE(checked.ladder[rung].samples_per_second, checked.ladder[rung - 1].samples_per_second);
  }
}

// Every drive, interface, core and GPU as an edge of its own.
Rational flow_of_single_parts(const Installation& plan) {
  Network network;
  const size_t hub = network.add_node();
  const Workload& load = plan.workload;
  for (const Store& store : plan.stores) {
    for (uint64_t machine = 0; machine < store.machines; ++machine) {
      const size_t host = network.add_node();
      for (uint64_t drive = 0; drive < store.drives; ++drive)
        network.add_edge(Network::kSource, host, Rational(store.drive.rate, load.sample));
      network.add_edge(host, hub, Rational(store.interface.part.rate * store.interface.count, load.sample));
    }
  }
  for (const Machines& group : plan.gpus) {
    for (uint64_t machine = 0; machine < group.machines; ++machine) {
      const size_t in = network.add_node(), decoded = network.add_node();
      network.add_edge(hub, in, Rational(group.interface.part.rate * group.interface.count, load.sample));
      const Rational core =
          std::min(Rational(group.core.in, load.sample), Rational(group.core.out, load.decoded));
      for (uint64_t one = 0; one < group.cores; ++one) network.add_edge(in, decoded, core);
      for (uint64_t gpu = 0; gpu < group.gpus; ++gpu)
        network.add_edge(decoded, Network::kSink, Rational(group.gpu.rate, load.decoded));
    }
  }
  return max_flow(network).take().value;
}

TEST(CheckTest, GroupsOfEqualMachinesFlowAsTheirSinglePartsDo) {
  Random random(99);
  for (int round = 0; round < 40; ++round) {
    const auto number = [&random](uint64_t least, uint64_t most) {
      return least + random.below(most - least + 1);
    };
    std::string text = "[workload]\nsample = \"100kB\"\ncompression = 3\ndataset = \"1TB\"\n";
    for (int group = 0; group < 2; ++group)
      text += fmt::format(
          "[[store]]\nname = \"s{}\"\ncount = {}\ndrive = \"rotational\"\ndrives = {}\ninterface = \"{}\"\n",
          group, number(1, 5), number(1, 12), random.below(2) == 0 ? "10GbE" : "25GbE");
    for (int group = 0; group < 2; ++group)
      text += fmt::format(
          "[[gpu]]\nname = \"g{}\"\ncount = {}\ngpus = {}\ngpu = \"gpu\"\ncores = {}\ncore = "
          "\"core\"\ninterface = \"10GbE\"\n",
          group, number(1, 4), number(1, 8), number(4, 60));
    SCOPED_TRACE(text);
    const Installation plan = read_plan(text);
    EXPECT_EQ(check(plan).take().samples_per_second, flow_of_single_parts(plan));
  }
}

TEST(SweepTest, ValuesAreRangesOrLists) {
  EXPECT_EQ(expand_values("4..12:4").take(), (std::vector<std::string>{"4", "8", "12"}));
  EXPECT_EQ(expand_values("1..3").take(), (std::vector<std::string>{"1", "2", "3"}));
  EXPECT_EQ(expand_values("100MB/s,200MB/s").take(), (std::vector<std::string>{"100MB/s", "200MB/s"}));
  for (const char* wrong : {"", "4..", "..4", "8..4", "1..9:0", "1..9:x", "0..99999999", "a..b"})
    EXPECT_FALSE(expand_values(wrong).has_value()) << wrong;
}

TEST(SweepTest, ThroughputRisesUntilSomethingElseLimits) {
  const auto document = parse_toml(std::string(kLoad) + kShelf + kBox, "test.toml").take();
  const auto points = sweep(document, "store.shelf.drives", {"1", "5", "9"}).take();
  EXPECT_EQ(points[0].delivered, 200'000'000);
  EXPECT_EQ(points[1].delivered, 1'000'000'000);
  EXPECT_EQ(points[2].delivered, 1'000'000'000);
  EXPECT_EQ(points[2].limit, "interfaces of shelf");
  EXPECT_EQ(points[2].dollars, 9 * 320);
  const auto faster = sweep(document, "part.10GbE.rate", {"2GB/s"}).take();
  EXPECT_EQ(faster[0].delivered, 2'000'000'000);
}

TEST(SweepTest, AnImpossibleValueIsNamed) {
  const auto document = parse_toml(std::string(kLoad) + kShelf + kBox, "test.toml").take();
  const auto refused = sweep(document, "store.shelf.drives", {"4", "none"});
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message().find("store.shelf.drives=none"), std::string::npos);
  EXPECT_FALSE(sweep(document, "store.cellar.drives", {"4"}).has_value());
}

}  // namespace
}  // namespace millrace::plan
