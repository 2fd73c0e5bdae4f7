// Tests what a plan may say, and that errors name the fault and its line.
#include "plan/installation.h"

#include <gtest/gtest.h>

#include "plan/set_value.h"
#include "plan/testing/plans.h"

namespace millrace::plan {
namespace {

// The plan with one line changed; the line is found by its beginning.
std::string with(const std::string& begins, const std::string& line) {
  std::string text =
      "name = \"small\"\n"
      "[workload]\n"
      "sample = \"100kB\"\n"
      "decoded = \"600kB\"\n"
      "dataset = \"1TB\"\n"
      "[[store]]\n"
      "name = \"shelf\"\n"
      "drive = \"rotational\"\n"
      "drives = 12\n"
      "interface = \"10GbE\"\n"
      "[[gpu]]\n"
      "name = \"box\"\n"
      "gpus = 8\n"
      "gpu = \"gpu\"\n"
      "cores = 16\n"
      "core = \"core\"\n";
  const size_t at = text.find(begins);
  EXPECT_NE(at, std::string::npos) << begins;
  return text.replace(at, text.find('\n', at) - at, line);
}

struct Said {
  std::string message, hint;
};

Said refused(const std::string& text) {
  const auto document = parse_toml(text, "p.toml");
  if (!document) return {document.error().message(), document.error().hint()};
  const auto plan = read_installation(*document);
  if (plan) return {};
  return {plan.error().message(), plan.error().hint()};
}

TEST(InstallationTest, ReadsWhatIsThere) {
  const Installation plan = testing::read_plan(with("name = \"small\"", "name = \"small\""));
  EXPECT_EQ(plan.workload.samples, 10'000'000);
  EXPECT_EQ(plan.workload.decoded, 600'000);
  EXPECT_EQ(plan.stores[0].drives, 12);
  EXPECT_EQ(plan.stores[0].drive.random, 20'000'000);
  EXPECT_EQ(plan.gpu_count(), 8);
}

TEST(InstallationTest, FiguresOfThePlanCountMoreThanTheCatalogues) {
  const Installation plan =
      testing::read_plan(with("name = \"small\"", "part.rotational.read = \"180MB/s\""));
  EXPECT_EQ(plan.stores[0].drive.rate, 180'000'000);
  EXPECT_EQ(plan.stores[0].drive.capacity, 8'000'000'000'000);
}

TEST(InstallationTest, AnUnknownKeyIsNamedWithItsPlaceAndTheNearestOne) {
  const Said said = refused(with("drives = 12", "dirves = 12"));
  EXPECT_NE(said.message.find("p.toml:9:1: [[store]] has no key \"dirves\""), std::string::npos)
      << said.message;
  EXPECT_NE(said.hint.find("\"drives\""), std::string::npos) << said.hint;
}

TEST(InstallationTest, AnUnknownPartIsNamedWithItsPlaceAndTheNearestOne) {
  const Said said = refused(with("drive = ", "drive = \"rotatoinal\""));
  EXPECT_NE(said.message.find("p.toml:8:9"), std::string::npos) << said.message;
  EXPECT_NE(said.hint.find("\"rotational\""), std::string::npos) << said.hint;
}

TEST(InstallationTest, UnitsAreStrict) {
  for (const char* rate : {"\"200MB\"", "\"200MBps\"", "\"200 MB/s\"", "200", "\"200M/s\"", "\"-1MB/s\"",
                           "\"0B/s\"", "\"nan/s\"", "\"10GB/h\""}) {
    const Said said = refused(with("name = \"small\"", std::string("part.rotational.read = ") + rate));
    EXPECT_NE(said.message.find("p.toml:1:24"), std::string::npos) << rate << ": " << said.message;
    EXPECT_NE(said.hint.find("200MB/s"), std::string::npos) << rate;
  }
  EXPECT_EQ(testing::read_plan(with("name = \"small\"", "part.10GbE.rate = \"10Gb/s\""))
                .stores[0]
                .interface.part.rate,
            1'250'000'000);
  EXPECT_EQ(testing::read_plan(with("name = \"small\"", "part.10GbE.rate = \"1GiB/s\""))
                .stores[0]
                .interface.part.rate,
            1'073'741'824);
}

TEST(InstallationTest, ImpossibleFiguresAreRefusedWhereTheyStand) {
  const std::pair<std::string, std::string> cases[] = {
      {with("sample = ", "sample = \"0B\""), "p.toml:3:10"},
      {with("sample = ", "sample = 1.5"), "p.toml:3:10"},
      {with("drives = 12", "drives = 0"), "p.toml:9:10"},
      {with("drives = 12", "drives = -3"), "p.toml:9:10"},
      {with("drives = 12", "drives = 1000000"), "p.toml:9:10"},
      {with("gpus = 8", "gpus = \"eight\""), "p.toml:13:8"},
      {with("dataset = ", "dataset = \"1TB\"\nsamples = 12"), "p.toml:6:11"},
      {with("dataset = ", "dataset = \"1TB\"\ncompression = 4"), "p.toml:6:15"},
      {with("decoded = ", "compression = 1000000000000.0"), "p.toml:2:1"},
      {with("decoded = ", "compression = 0"), "p.toml:2:1"},
      {with("dataset = ", "dataset = \"1TB\"\nfraction = 0.5"), "p.toml:6:12"},
      {with("dataset = ", "dataset = \"1TB\"\nredundancy = \"ec=1+1\""), "p.toml:6:14"},
      {with("dataset = ", "dataset = \"1TB\"\nrecovery = \"1MB/s\""), "p.toml:6:12"},
      {with("dataset = ", "dataset = \"1TB\"\naccess = \"random \""), "p.toml:6:10"},
      {with("name = \"small\"", "part.rotational.random = \"1GB/s\""), "p.toml:1:26"},
      {with("name = \"small\"", "part.rotational.kind = \"link\""), "p.toml:1:24"},
      {with("name = \"small\"", "name = 12"), "p.toml:1:8"},
      {with("name = \"shelf\"", "name = \"box\""), "p.toml:12:8"},
  };
  for (const auto& [text, place] : cases) {
    const Said said = refused(text);
    EXPECT_NE(said.message.find(place + ":"), std::string::npos)
        << place << " is not in: " << said.message << "\n"
        << text;
  }
}

TEST(InstallationTest, WhatDoesNotFitTogetherIsRefused) {
  EXPECT_NE(refused(with("cores = 16\n", "")).message.find("cores"), std::string::npos);
  EXPECT_NE(refused(with("interface = ", "at = \"bex\"")).message.find("no [[gpu]] has that name"),
            std::string::npos);
  EXPECT_NE(refused(with("interface = ", "switch = \"core\"")).message.find("switch \"core\" is not there"),
            std::string::npos);
  EXPECT_NE(refused(with("dataset = ", "dataset = \"1TB\"\nshuffle = \"partial\"\nfraction = 0.1"))
                .message.find("partial"),
            std::string::npos);
  EXPECT_NE(
      refused(with("[[gpu]]", "[[cpu]]\ncores = 4\ncore = \"core\"\n[[gpu]]")).message.find("which decodes?"),
      std::string::npos);
  EXPECT_NE(
      refused(
          with("interface = ",
               "[[switch]]\nname = \"a\"\nuplink_to = \"b\"\n[[switch]]\nname = \"b\"\nuplink_to = \"a\""))
          .message.find("circle"),
      std::string::npos);
}

TEST(InstallationTest, WhatIsMissingIsNamed) {
  EXPECT_NE(refused("").message.find("[workload]"), std::string::npos);
  EXPECT_NE(refused("[workload]\nsample = \"1kB\"\nsamples = 3\n").message.find("[[store]]"),
            std::string::npos);
  EXPECT_NE(refused(with("drive = ", "")).message.find("drive is missing"), std::string::npos);
  EXPECT_NE(refused("store = 3\nworkload = 4\ngpu = 5\n").message.find("p.toml:"), std::string::npos);
}

TEST(InstallationTest, BrokenTomlHasItsPlace) {
  EXPECT_NE(refused("[workload]\nsample = \n").message.find("p.toml:2:"), std::string::npos);
}

TEST(InstallationTest, ValuesCanBeSetByName) {
  TomlDocument document = parse_toml(with("name = \"small\"", ""), "p.toml").take();
  ASSERT_TRUE(set_value(document, "store.shelf.drives", "24").has_value());
  ASSERT_TRUE(set_value(document, "part.rotational.read", "150MB/s").has_value());
  ASSERT_TRUE(set_value(document, "workload.epochs", "7").has_value());
  ASSERT_TRUE(set_value(document, "gpu.gpus", "4").has_value());  // there is one [[gpu]] only
  const Installation plan = read_installation(document).take();
  EXPECT_EQ(plan.stores[0].drives, 24);
  EXPECT_EQ(plan.stores[0].drive.rate, 150'000'000);
  EXPECT_EQ(plan.workload.epochs, 7);
  EXPECT_EQ(plan.gpus[0].gpus, 4);
  EXPECT_FALSE(set_value(document, "store.cellar.drives", "24").has_value());
  EXPECT_FALSE(set_value(document, "workload.sample.x", "24").has_value());
}

TEST(CatalogueTest, EveryPartSaysWhereItsFiguresComeFromAndOfWhenTheyAre) {
  const Catalogue catalogue = Catalogue::standard().take();
  EXPECT_GT(catalogue.parts().size(), 25U);
  for (const Part& part : catalogue.parts()) {
    EXPECT_FALSE(part.source.empty()) << part.name;
    EXPECT_FALSE(part.date.empty()) << part.name;
  }
}

TEST(CatalogueTest, AcceleratorsTakeWhatTheirWorkloadsSay) {
  const Catalogue catalogue = Catalogue::standard().take();
  // GB/s of one accelerator that never waits.
  for (const auto& [name, gigabytes] : {std::pair{"resnet50-a100", 0.105},
                                        {"resnet50-h100", 0.205},
                                        {"unet3d-a100", 1.61},
                                        {"unet3d-h100", 3.18},
                                        {"unet3d-b200", 6.34},
                                        {"cosmoflow-a100", 0.51},
                                        {"cosmoflow-h100", 0.81},
                                        {"retinanet-b200", 0.163}}) {
    const Part part = catalogue.get(Kind::kGpu, name).take();
    EXPECT_NEAR(to_double(part.samples_per_second * part.sample) / 1e9, gigabytes,
                0.006 * std::max(1.0, gigabytes))
        << name;
  }
}

TEST(RedundancyTest, ReadsTheStoresOwnWords) {
  EXPECT_EQ(parse_redundancy("none").take().overhead(), 1);
  EXPECT_EQ(parse_redundancy("copies=3").take().overhead(), 3);
  EXPECT_EQ(parse_redundancy("ec=8+2").take().overhead(), Rational(10, 8));
  for (const char* wrong :
       {"", "ec=8", "ec=8+", "ec=+2", "ec=0+2", "ec=8+0", "ec=900+2", "copies=0", "copies=", "two"})
    EXPECT_FALSE(parse_redundancy(wrong).has_value()) << wrong;
}

}  // namespace
}  // namespace millrace::plan
