// Pictures by their structure: what is drawn, that the cut is red, and that no text lies on another.
#include "plan/picture.h"
#include "base/svg.h"
#include "base/xml_text.h"

#include <gtest/gtest.h>

#include <regex>

#include "plan/sweep.h"
#include "plan/testing/plans.h"
#include "plan/ways.h"

namespace millrace::plan {
namespace {

using testing::plan_of_parts;
using testing::PlanDrawer;
using testing::read_plan;

struct Text {
  double left, top, right, bottom;
  std::string words;
};

std::vector<Text> texts_of(const std::string& svg) {
  static const std::regex kText(
      R"re(<text x="([-0-9.]+)" y="([-0-9.]+)" font-size="([0-9.]+)" fill="[^"]*" text-anchor="(\w+)"[^>]*data-width="([0-9.]+)">([^<]*)</text>)re");
  std::vector<Text> texts;
  for (auto found = std::sregex_iterator(svg.begin(), svg.end(), kText); found != std::sregex_iterator();
       ++found) {
    const double x = std::stod((*found)[1]), y = std::stod((*found)[2]), size = std::stod((*found)[3]),
                 width = std::stod((*found)[5]);
    const std::string anchor = (*found)[4];
    const double left = anchor == "start" ? x : anchor == "middle" ? x - width / 2 : x - width;
    texts.push_back({left, y - 0.76 * size, left + width, y + 0.24 * size, (*found)[6]});
  }
  return texts;
}

size_t count_of(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

void expect_readable(const std::string& svg) {
  static const std::regex kSize(R"re(viewBox="0 0 (\d+) (\d+)")re");
  std::smatch size;
  ASSERT_TRUE(std::regex_search(svg, size, kSize));
  const std::vector<Text> texts = texts_of(svg);
  EXPECT_EQ(texts.size(), count_of(svg, "<text"));
  for (size_t a = 0; a < texts.size(); ++a) {
    EXPECT_GE(texts[a].left, 0) << texts[a].words;
    EXPECT_LE(texts[a].right, std::stod(size[1])) << texts[a].words;
    EXPECT_LE(texts[a].bottom, std::stod(size[2])) << texts[a].words;
    for (size_t b = a + 1; b < texts.size(); ++b) {
      const bool apart = texts[a].right <= texts[b].left || texts[b].right <= texts[a].left ||
                         texts[a].bottom <= texts[b].top || texts[b].bottom <= texts[a].top;
      EXPECT_TRUE(apart) << "\"" << texts[a].words << "\" lies on \"" << texts[b].words << "\"";
    }
  }
}

TEST(PictureTest, TextNeverLiesOnTextWithThreeTenOrThirtyParts) {
  for (const uint64_t parts : {3, 10, 30}) {
    SCOPED_TRACE(parts);
    const Check checked = check(read_plan(plan_of_parts(parts))).take();
    EXPECT_NEAR(static_cast<double>(checked.path.resources.size()), static_cast<double>(parts), 1);
    expect_readable(flow_picture("a picture", checked));
  }
}

TEST(PictureTest, TextNeverLiesOnTextInPicturesOfRandomPlans) {
  for (uint64_t seed = 500; seed < 560; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    expect_readable(flow_picture("drawn", check(read_plan(PlanDrawer(seed).draw())).take()));
  }
}

TEST(PictureTest, EveryPartIsAPipeWithItsFlowAndTheCutIsRed) {
  const Check checked = check(read_plan(plan_of_parts(10))).take();
  const std::string svg = flow_picture("ten", checked);
  EXPECT_EQ(count_of(svg, "class=\"pipe"), checked.path.resources.size());
  EXPECT_EQ(count_of(svg, "class=\"flow\""), checked.path.resources.size());
  EXPECT_EQ(count_of(svg, "class=\"pipe cut\""), checked.ladder[0].resources.size());
  EXPECT_EQ(count_of(svg, "class=\"ribbon\""), checked.path.resources.size() - 1);
  EXPECT_NE(svg.find(escape_xml(checked.ladder[0].sentence)), std::string::npos);
}

TEST(PictureTest, ThreePartsAreDrawnLikeThis) {
  const Check checked = check(read_plan(plan_of_parts(3))).take();
  std::vector<std::string> words;
  for (const Text& text : texts_of(flow_picture("three parts", checked))) words.push_back(text.words);
  const std::vector<std::string> golden = {
      "three parts",
      "The interfaces of store limit: 1 x 10GbE at 1.0 GB/s; the GPUs are 42 % busy.",
      "what flows",
      "what could",
      "dashed: could carry more than is drawn",
      "what limits",
      "drives of store",
      "12 x rotational",
      "1.0 GB/s of 2.4 GB/s",
      "42 %",
      "interfaces of store",
      "1 x 10GbE",
      "1.0 GB/s of 1.0 GB/s",
      "100 %",
      "GPUs of gpu",
      "8 x gpu",
      "1.0 GB/s of 2.4 GB/s",
      "42 %"};
  EXPECT_EQ(words, golden);
}

TEST(PictureTest, NamesCannotLeaveTheirElement) {
  std::string text = plan_of_parts(3);
  text.replace(text.find("three parts"), 11, "<script>&'");
  const Installation plan = read_plan(text);
  const std::string svg = flow_picture(plan.name, check(plan).take());
  EXPECT_EQ(svg.find("<script"), std::string::npos);
  EXPECT_NE(svg.find("&lt;script&gt;&amp;"), std::string::npos);
}

TEST(PictureTest, WaysTogetherAreTheWholeFlow) {
  for (uint64_t seed = 1; seed < 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Check checked = check(read_plan(PlanDrawer(seed).draw())).take();
    Rational sum = 0;
    for (const Way& way : find_ways(checked)) {
      sum += way.samples_per_second;
      EXPECT_EQ(checked.path.resources[way.resources.front()].stage, Stage::kDrives);
      EXPECT_EQ(checked.path.resources[way.resources.back()].stage, Stage::kGpus);
      EXPECT_GE(way.arrival, 1U);
    }
    EXPECT_EQ(sum, checked.samples_per_second);
  }
}

TEST(PictureTest, OnTheTerminalEveryPartHasALineAndTheCutAMark) {
  const Check checked = check(read_plan(plan_of_parts(30))).take();
  const std::string text = flow_text("thirty", checked, 100);
  for (const Resource& one : checked.path.resources)
    EXPECT_NE(text.find(one.noun()), std::string::npos) << one.noun();
  EXPECT_EQ(count_of(text, "> "), checked.ladder[0].resources.size());
}

TEST(PictureTest, ASweepIsReadable) {
  const auto document = parse_toml(plan_of_parts(3), "test.toml").take();
  const auto values = expand_values("1..60").take();
  const std::string svg =
      sweep_picture("sweep", "store.drives", sweep(document, "store.drives", values).take());
  expect_readable(svg);
  EXPECT_EQ(count_of(svg, "<polyline"), 2U);
  EXPECT_EQ(count_of(svg, ": limited by"), 2U);
  EXPECT_EQ(count_of(svg, "from here on limited by"), 1U);
}

}  // namespace
}  // namespace millrace::plan
