// The simulation agrees with the flow where that holds, and falls short of it where it must.
#include "plan/simulate.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "plan/testing/plans.h"

namespace millrace::plan {
namespace {

using testing::PlanDrawer;
using testing::read_plan;

Simulation simulate_text(const std::string& text, Extent extent = Extent::kSteady,
                         uint64_t windows = 100'000) {
  SimulationOptions options;
  options.extent = extent;
  options.most_windows = windows;
  auto simulation = simulate(read_plan(text), options);
  EXPECT_TRUE(simulation.has_value()) << (simulation ? "" : simulation.error().message());
  return simulation.take();
}

// Eight drives at 200 MB/s, which limit; one machine with GPUs that would take more.
std::string eight_drives(const std::string& workload, const std::string& how) {
  return "[workload]\nsample = \"100kB\"\n" + workload +
         "\n[[store]]\nname = \"shelf\"\ncount = 4\ndrive = \"rotational\"\ndrives = 2\ninterface = "
         "\"interface\"\n"
         "[[gpu]]\nname = \"box\"\ngpus = 16\ngpu = \"gpu\"\ninterface = \"interface\"\n[simulate]\nwindow = "
         "\"1MiB\"\n" +
         how;
}

// MILLRACE_PLAN_DRAWS=90 draws more of them.
TEST(SimulateTest, AgreesWithTheFlowWithinThreePercentForRandomInstallations) {
  const char* wanted = std::getenv("MILLRACE_PLAN_DRAWS");
  const uint64_t draws = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 24;
  double least = 1, most = 1;
  for (uint64_t seed = 100; seed < 100 + draws; ++seed) {
    const std::string text = PlanDrawer(seed).draw();
    const Simulation simulation = simulate_text(text, Extent::kSteady, 200'000);
    EXPECT_NEAR(simulation.share(), 1, 0.03) << "seed " << seed << "\n" << text;
    least = std::min(least, simulation.share());
    most = std::max(most, simulation.share());
  }
  fmt::print("{} installations: {:.2f} to {:.2f} % of the flow\n", draws, least * 100, most * 100);
}

TEST(SimulateTest, TheSameSeedGivesTheSameRun) {
  const std::string text = eight_drives("dataset = \"1TB\"\nshard = \"50MB\"", "readers = 20\n");
  const Simulation first = simulate_text(text, Extent::kSteady, 20'000),
                   again = simulate_text(text, Extent::kSteady, 20'000);
  EXPECT_EQ(first.samples_per_second, again.samples_per_second);
  EXPECT_EQ(first.events, again.events);
}

TEST(SimulateTest, FewShardsLeaveDrivesIdle) {
  // Four shards cannot keep eight drives busy; eight thousand can.
  const Simulation few =
      simulate_text(eight_drives("dataset = \"4GB\"\nshard = \"1GB\"", "readers = 64\n"), Extent::kEpoch);
  EXPECT_LT(few.share(), 0.55);
  ASSERT_FALSE(few.notes.empty());
  EXPECT_NE(few.notes[0].find("4 shards on 8 drives"), std::string::npos);
  const Simulation many =
      simulate_text(eight_drives("dataset = \"32GB\"\nshard = \"4MB\"", "readers = 1000\n"), Extent::kEpoch);
  EXPECT_GT(many.share(), 0.9);
}

TEST(SimulateTest, FewReadersLeaveDrivesIdle) {
  const Simulation few = simulate_text(eight_drives("dataset = \"1TB\"\nshard = \"50MB\"", "readers = 4\n"));
  EXPECT_LT(few.share(), 0.5);
  EXPECT_NE(few.notes.back().find("readers"), std::string::npos);
  EXPECT_GT(simulate_text(eight_drives("dataset = \"1TB\"\nshard = \"50MB\"", "readers = 1000\n")).share(),
            0.97);
}

TEST(SimulateTest, ASmallBufferHoldsEverythingUp) {
  const Simulation small = simulate_text(
      eight_drives("dataset = \"1TB\"\nshard = \"4MB\"", "readers = 1000\nbuffer = \"2MiB\"\n"));
  EXPECT_LT(small.share(), 0.3);
  EXPECT_NE(small.notes.back().find("buffer"), std::string::npos);
  const Simulation larger = simulate_text(
      eight_drives("dataset = \"1TB\"\nshard = \"4MB\"", "readers = 1000\nbuffer = \"32MiB\"\n"));
  EXPECT_GT(larger.share(), 2 * small.share());
}

TEST(SimulateTest, OneSlowDriveDelaysTheWholeEpoch) {
  const std::string workload = "dataset = \"32GB\"\nshard = \"4MB\"";
  const Simulation slow =
      simulate_text(eight_drives(workload, "readers = 1000\nslow_drives = 1\n"), Extent::kEpoch);
  // An eighth of the data comes at a tenth of the rate: ten eighths of the time of all drives together, and
  // more.
  EXPECT_LT(slow.share(), 0.13);
  EXPECT_GT(slow.share(), 0.07);
  EXPECT_NE(slow.notes[0].find("1 of 8 drives"), std::string::npos);
}

TEST(SimulateTest, TheStartOfAShortEpochShows) {
  const Simulation brief =
      simulate_text(eight_drives("dataset = \"40MB\"\nshard = \"1MB\"", "readers = 1000\n"), Extent::kEpoch);
  const Simulation longer =
      simulate_text(eight_drives("dataset = \"40GB\"\nshard = \"1MB\"", "readers = 1000\n"), Extent::kEpoch);
  EXPECT_LT(brief.share(), 0.8);
  EXPECT_GT(longer.share(), brief.share() + 0.1);
  EXPECT_GT(brief.first_seconds, 0);
}

TEST(SimulateTest, RecoveryOfAnErasureCodeTakesFromTheReaders) {
  const std::string coded = "dataset = \"1TB\"\nshard = \"4MB\"\nredundancy = \"ec=4+2\"";
  const Simulation quiet = simulate_text(eight_drives(coded, "readers = 1000\n"));
  const Simulation busy = simulate_text(eight_drives(coded + "\nrecovery = \"80MB/s\"", "readers = 1000\n"));
  // Five times 80 MB/s of 1.6 GB/s, and one of eight drives is gone.
  EXPECT_LT(busy.samples_per_second, 0.78 * quiet.samples_per_second);
  EXPECT_LT(busy.share(), 0.97);
  EXPECT_GT(busy.share(), 0.75);
}

TEST(SimulateTest, MoreThanMemoryHoldsIsRefused) {
  for (const char* how : {"readers = 10000\nahead = 1000\nbuffer = \"1PB\"\n", "readers = 10000\n"}) {
    std::string text = eight_drives("dataset = \"100TB\"", how);
    text.replace(text.find("gpus = 16"), 9, "gpus = 1\ncount = 900000");
    const auto refused = simulate(read_plan(text), {});
    ASSERT_FALSE(refused.has_value()) << how;
    EXPECT_EQ(refused.error().code(), Code::kTooLarge);
  }
}

TEST(SimulateTest, AnEpochThatIsTooLargeIsRefused) {
  const auto refused =
      simulate(read_plan(eight_drives("dataset = \"100TB\"", "")), {Extent::kEpoch, 1000, nullptr});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kTooLarge);
  EXPECT_NE(refused.error().hint().find("window"), std::string::npos);
}

}  // namespace
}  // namespace millrace::plan
