// Tests GatherStream on archives whose samples are scattered, whole, or of one field.
#include "shard/gather.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/random.h"
#include "base/testing/temporary_directory.h"
#include "shard/sort.h"
#include "tar/writer.h"

namespace millrace::shard {
namespace {

class GatherTest : public ::testing::Test {
 protected:
  // A member's content is its name.
  std::string write(const std::string& name, const std::vector<std::string>& members) {
    std::string bytes;
    for (const std::string& member : members) {
      bytes += tar::make_header({.name = member, .size = member.size()}).take();
      bytes += member;
      bytes.resize(tar::padded(bytes.size()));
    }
    bytes.resize(bytes.size() + 2 * tar::kBlock);
    const std::string path = directory_.path(name);
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  GatherOptions options(GatherOptions::When when = GatherOptions::When::kNeeded) {
    GatherOptions options;
    options.when = when;
    options.memory = 4 << 20;
    options.temporary_directory = directory_.path("");
    return options;
  }
  // "key: field field", one per sample.
  Result<std::vector<std::string>> read(GatherStream& stream) {
    std::vector<std::string> samples;
    while (true) {
      const tar::Sample* sample = MR_TRY(stream.next());
      if (sample == nullptr) return samples;
      std::string line = std::string(sample->key) + ":";
      for (const tar::Field& field : sample->fields) {
        EXPECT_EQ(field.bytes, field.name);
        line += " " + std::string(field.field);
      }
      samples.push_back(line);
    }
  }
  using Lines = std::vector<std::string>;
  millrace::testing::TemporaryDirectory directory_;
};

TEST_F(GatherTest, GivesScatteredSamplesInTheOrderOfTheirFirstMembers) {
  const std::string path = write("a.tar", {"b.jpg", "a.cls", "c.jpg", "c.cls", "a.jpg", "b.cls"});
  GatherStream stream({path}, {}, options());
  EXPECT_EQ(*read(stream), (Lines{"b: jpg cls", "a: cls jpg", "c: jpg cls"}));
  EXPECT_EQ(stream.report().gathered, 3U);
  EXPECT_EQ(stream.report().pieces, 5U);
}

TEST_F(GatherTest, PassesWholeSamplesOn) {
  std::vector<std::string> members;
  Lines expected;
  for (int i = 0; i < 3000; ++i) {
    const std::string key = fmt::format("{:06}", i * 7919 % 3000);
    members.push_back(key + ".jpg");
    members.push_back(key + ".cls");
    expected.push_back(key + ": jpg cls");
  }
  GatherStream stream({write("a.tar", members)}, {}, options());
  EXPECT_EQ(*read(stream), expected);
  EXPECT_EQ(stream.report().passed, 3000U);
  EXPECT_EQ(stream.report().pieces, 0U);
}

TEST_F(GatherTest, SamplesOfOneFieldMayBeIncomplete) {
  GatherStream stream({write("a.tar", {"a.jpg", "b.jpg", "a.cls", "b.cls"})}, {}, options());
  EXPECT_EQ(*read(stream), (Lines{"a: jpg cls", "b: jpg cls"}));
}

TEST_F(GatherTest, GathersFromTheFirstThatMayBeIncompleteOn) {
  std::vector<std::string> members;
  Lines expected;
  const int whole = GatherStream::kHoldSamples + 10;
  for (int i = 0; i < whole; ++i) {
    members.insert(members.end(), {fmt::format("w{}.cls", i), fmt::format("w{}.jpg", i)});
    expected.push_back(fmt::format("w{}: cls jpg", i));
  }
  members.insert(members.end(), {"x.cls", "y.cls", "y.jpg", "x.jpg"});
  expected.insert(expected.end(), {"x: cls jpg", "y: cls jpg"});
  GatherStream stream({write("a.tar", members)}, {}, options());
  EXPECT_EQ(*read(stream), expected);
  EXPECT_EQ(stream.report().passed, static_cast<uint64_t>(whole));
  EXPECT_EQ(stream.report().gathered, 2U);

  // One that was passed on goes on: too late, unless all were looked at first.
  members.push_back("w0.txt");
  expected[0] += " txt";
  const std::string late = write("late.tar", members);
  GatherStream too_late({late}, {}, options());
  const auto refused = read(too_late);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("\"w0\""), std::string::npos);
  EXPECT_NE(refused.error().hint().find("--gather"), std::string::npos);
  GatherStream in_time({late}, {}, options(GatherOptions::When::kAlways));
  EXPECT_EQ(*read(in_time), expected);
}

TEST_F(GatherTest, AFieldThatIsThereTwiceIsAnError) {
  GatherStream stream({write("a.tar", {"a.jpg", "b.jpg", "a.jpg"})}, {}, options());
  const auto refused = read(stream);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("\"a\" has the field jpg twice"), std::string::npos);
}

TEST_F(GatherTest, TheSameKeyInTwoArchivesIsTwoSamples) {
  const std::vector<std::string> paths = {write("a.tar", {"k.jpg", "l.jpg"}),
                                          write("b.tar", {"k.cls", "m.jpg", "k.jpg"})};
  GatherStream stream(paths, {}, options());
  EXPECT_EQ(*read(stream), (Lines{"k: jpg", "l: jpg", "k: cls jpg", "m: jpg"}));
}

TEST_F(GatherTest, MoreThanFitsIntoMemoryGoesThroughRunsAndGivesTheSame) {
  std::vector<std::string> members;
  for (int i = 0; i < 20'000; ++i) {
    for (const char* field : {"jpg", "cls"}) members.push_back(fmt::format("{:06}.{}", i, field));
  }
  Random(7).shuffle(std::span(members));
  const std::string path = write("a.tar", members);
  GatherStream small({path}, {}, options());
  GatherOptions roomy = options();
  roomy.memory = 256 << 20;
  GatherStream large({path}, {}, roomy);
  const Lines expected = *read(large);
  EXPECT_EQ(expected.size(), 20'000U);
  EXPECT_EQ(*read(small), expected);
  EXPECT_GT(small.report().spilled_bytes, 0U);
  EXPECT_EQ(large.report().spilled_bytes, 0U);
}

TEST_F(GatherTest, ShufflesAsSortingDoes) {
  std::vector<std::string> members;
  for (int i = 0; i < 100; ++i) {
    for (const char* field : {"jpg", "cls"}) members.push_back(fmt::format("{:06}.{}", i, field));
  }
  const std::string path = write("a.tar", members);
  GatherOptions shuffled = options();
  shuffled.shuffle_seed = 3;
  GatherStream stream({path}, {}, shuffled);
  SortOptions order;
  order.by = SortBy::kRandom;
  order.seed = 3;
  order.memory = 4 << 20;
  Lines expected;
  ASSERT_TRUE(sort_samples({path}, order, [&](const tar::Sample& sample) -> Status {
    expected.push_back(std::string(sample.key) + ": jpg cls");
    return {};
  }));
  EXPECT_EQ(*read(stream), expected);
}

}  // namespace
}  // namespace millrace::shard
