// Grouper: runs of members become samples; scattered keys and doubled fields are found out.
#include "tar/group.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/random.h"

namespace millrace::tar {
namespace {

struct SeenGroup {
  std::string key;
  std::vector<std::string> fields;
  bool returning = false;
  bool has_gaps = false;
  bool operator==(const SeenGroup&) const = default;
};

// Feeds names as members of one block of data each.
class Feeder {
 public:
  explicit Feeder(GroupOptions options = {}) : grouper("test.tar", options) {}

  Status add(std::string_view name) {
    Member member;
    member.name = name;
    member.is_file = is_file;
    member.self_contained = self_contained;
    member.header_offset = offset;
    member.data_offset = offset + kBlock;
    member.size = 100;
    offset = member.end_offset();
    const Grouper::Added added = MR_TRY(grouper.add(member));
    if (added == Grouper::Added::kCompleted) take();
    return {};
  }
  void finish() {
    if (grouper.finish()) take();
  }

  Grouper grouper;
  std::vector<SeenGroup> groups;
  uint64_t offset = 0;
  bool is_file = true;
  bool self_contained = true;

 private:
  void take() {
    const Group& group = grouper.completed();
    EXPECT_EQ(group.ordinal, groups.size());
    EXPECT_EQ(group.key_hash, hash64(group.key()));
    SeenGroup seen = {std::string(group.key()), {}, group.returning, group.has_gaps};
    for (const Group::Field& field : group.fields) {
      seen.fields.push_back(std::string(group.field_name(field)) + (field.doubled ? " doubled" : ""));
    }
    groups.push_back(std::move(seen));
  }
};

std::vector<SeenGroup> group_all(const std::vector<std::string>& names, GroupOptions options = {}) {
  Feeder feeder(options);
  for (const std::string& name : names) {
    const Status status = feeder.add(name);
    EXPECT_TRUE(status) << status.error().message();
  }
  feeder.finish();
  return feeder.groups;
}

// The error that the last of these names causes.
Error error_of(const std::vector<std::string>& names, GroupOptions options = {}) {
  Feeder feeder(options);
  for (size_t i = 0; i + 1 < names.size(); ++i) EXPECT_TRUE(feeder.add(names[i])) << names[i];
  Status status = feeder.add(names.back());
  EXPECT_FALSE(status);
  return status.take_error();
}

constexpr GroupOptions kMark = {KeyRule::kFirstDot, OnFault::kMark};

TEST(GrouperTest, ARunOfMembersWithOneKeyIsASample) {
  EXPECT_EQ(group_all({"a.jpg", "a.cls", "b.jpg", "b.cls", "b.json"}),
            (std::vector<SeenGroup>{{"a", {"jpg", "cls"}}, {"b", {"jpg", "cls", "json"}}}));
}

TEST(GrouperTest, NoMembersAreNoSamples) {
  EXPECT_EQ(group_all({}), std::vector<SeenGroup>{});
}

TEST(GrouperTest, KeysHoldTheirDirectory) {
  EXPECT_EQ(group_all({"x/a.jpg", "y/a.jpg"}), (std::vector<SeenGroup>{{"x/a", {"jpg"}}, {"y/a", {"jpg"}}}));
}

TEST(GrouperTest, FieldsAreLowerCaseAndNamesAreNot) {
  Feeder feeder;
  ASSERT_TRUE(feeder.add("A.Seg.PNG"));
  ASSERT_TRUE(feeder.add("A.cls"));
  ASSERT_TRUE(feeder.grouper.finish());
  const Group& group = feeder.grouper.completed();
  EXPECT_EQ(group.key(), "A");
  EXPECT_EQ(group.field_name(group.fields[0]), "seg.png");
  EXPECT_EQ(group.name(group.fields[0]), "A.Seg.PNG");
  EXPECT_EQ(group.field_name(group.fields[1]), "cls");
  EXPECT_EQ(group.name(group.fields[1]), "A.cls");
}

TEST(GrouperTest, RemembersWhereItsMembersLie) {
  Feeder feeder;
  ASSERT_TRUE(feeder.add("a.jpg"));
  EXPECT_EQ(feeder.grouper.pending_offset(77), 0u);
  ASSERT_TRUE(feeder.add("b.jpg"));
  EXPECT_EQ(feeder.grouper.pending_offset(77), 1024u);
  ASSERT_TRUE(feeder.add("b.cls"));
  EXPECT_EQ(feeder.grouper.pending_offset(77), 1024u);
  ASSERT_TRUE(feeder.grouper.finish());
  EXPECT_EQ(feeder.grouper.completed().offset(), 1024u);
  EXPECT_EQ(feeder.grouper.completed().end_offset(), 3072u);
  EXPECT_EQ(feeder.grouper.completed().fields[1].data_offset, 2560u);
  EXPECT_EQ(feeder.grouper.pending_offset(77), 77u);
  EXPECT_FALSE(feeder.grouper.finish());
}

TEST(GrouperTest, TheLastDotRuleKeepsDotsInKeys) {
  EXPECT_EQ(group_all({"a.1.jpg", "a.2.jpg"}, {KeyRule::kLastDot, OnFault::kFail}),
            (std::vector<SeenGroup>{{"a.1", {"jpg"}}, {"a.2", {"jpg"}}}));
}

TEST(GrouperTest, CountsMembersOfNoSample) {
  Feeder feeder;
  for (const char* name : {"noext", "__meta__/x.json", ".hidden", "a.jpg"}) ASSERT_TRUE(feeder.add(name));
  feeder.is_file = false;
  ASSERT_TRUE(feeder.add("link.jpg"));
  feeder.finish();
  EXPECT_EQ(feeder.grouper.loose_members(), 4u);
  EXPECT_EQ(feeder.grouper.samples(), 1u);
  EXPECT_EQ(feeder.groups, (std::vector<SeenGroup>{{"a", {"jpg"}}}));
}

TEST(GrouperTest, LooseMembersInsideASampleAreAGapAndBetweenSamplesNot) {
  EXPECT_EQ(group_all({"a.jpg", "noext", "a.cls", "noext", "b.jpg", "noext"}),
            (std::vector<SeenGroup>{{"a", {"jpg", "cls"}, false, true}, {"b", {"jpg"}}}));
}

TEST(GrouperTest, ASampleIsSelfContainedIfEachMemberIs) {
  Feeder feeder;
  ASSERT_TRUE(feeder.add("a.jpg"));
  feeder.self_contained = false;
  ASSERT_TRUE(feeder.add("a.cls"));
  feeder.self_contained = true;
  ASSERT_TRUE(feeder.add("b.jpg"));
  EXPECT_FALSE(feeder.grouper.completed().self_contained);
  ASSERT_TRUE(feeder.grouper.finish());
  EXPECT_TRUE(feeder.grouper.completed().self_contained);
}

TEST(GrouperTest, AKeyThatReturnsIsAnErrorThatSaysWhere) {
  const Error error = error_of({"a.jpg", "b.jpg", "a.cls"});
  EXPECT_EQ(error.code(), Code::kCorrupt);
  EXPECT_EQ(error.message(),
            "test.tar: key \"a\" returns at byte 2048 after other keys: its sample is scattered");
  EXPECT_NE(error.hint().find("millrace tar cat --gather"), std::string::npos);
}

TEST(GrouperTest, AKeyThatReturnsIsFoundInAnyOrderOfKeys) {
  EXPECT_EQ(error_of({"c.jpg", "a.jpg", "b.jpg", "c.cls"}).code(), Code::kCorrupt);
  EXPECT_EQ(error_of({"c.jpg", "a.jpg", "b.jpg", "a.cls"}).code(), Code::kCorrupt);
  EXPECT_EQ(error_of({"a.jpg", "b.jpg", "c.jpg", "b.cls"}).code(), Code::kCorrupt);
}

TEST(GrouperTest, AKeyBehindALooseMemberHasNotReturned) {
  EXPECT_EQ(group_all({"a.jpg", "noext", "a.cls"}).size(), 1u);
}

TEST(GrouperTest, MarksAReturningKeyAndGoesOnWhenAsked) {
  EXPECT_EQ(group_all({"a.jpg", "b.jpg", "a.cls", "b.cls", "c.jpg"}, kMark),
            (std::vector<SeenGroup>{
                {"a", {"jpg"}}, {"b", {"jpg"}}, {"a", {"cls"}, true}, {"b", {"cls"}, true}, {"c", {"jpg"}}}));
}

TEST(GrouperTest, AFieldTwiceIsAnErrorThatSaysWhere) {
  const Error error = error_of({"a.jpg", "a.cls", "a.JPG"});
  EXPECT_EQ(error.code(), Code::kCorrupt);
  EXPECT_EQ(error.message(), "test.tar: sample \"a\" has the field \"jpg\" twice, again at byte 2048");
}

TEST(GrouperTest, MarksADoubledFieldAndGoesOnWhenAsked) {
  EXPECT_EQ(group_all({"a.jpg", "a.jpg", "a.cls", "a.jpg", "b.jpg"}, kMark),
            (std::vector<SeenGroup>{{"a", {"jpg", "jpg doubled", "cls", "jpg doubled"}}, {"b", {"jpg"}}}));
}

TEST(GrouperTest, FindsDoubledFieldsAmongMany) {
  for (const int count : {15, 16, 17, 100}) {
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) names.push_back(fmt::format("a.{}", i));
    EXPECT_EQ(group_all(names)[0].fields.size(), static_cast<size_t>(count));
    for (const int doubled : {0, count / 2, count - 1}) {
      std::vector<std::string> more = names;
      more.push_back(fmt::format("a.{}", doubled));
      EXPECT_EQ(error_of(more).code(), Code::kCorrupt) << count << " " << doubled;
    }
  }
}

TEST(GrouperTest, FieldsOfOneSampleDoNotDoubleThoseOfTheNext) {
  std::vector<std::string> names;
  for (const char key : {'a', 'b', 'c'}) {
    for (int i = 0; i < 40; ++i) names.push_back(fmt::format("{}.{}", key, i));
  }
  EXPECT_EQ(group_all(names).size(), 3u);
}

TEST(SeenKeysTest, TakesRisingKeysAndFindsEachOfThemLater) {
  SeenKeys seen;
  for (int i = 0; i < 5000; ++i) EXPECT_TRUE(seen.insert(fmt::format("{:06}", i), mix(i)));
  EXPECT_TRUE(seen.insert("000000a", mix(100'000)));
  for (int i = 0; i < 5000; ++i) EXPECT_FALSE(seen.insert(fmt::format("{:06}", i), mix(i))) << i;
  EXPECT_FALSE(seen.insert("000000a", mix(100'000)));
  EXPECT_TRUE(seen.insert("999999", mix(200'000)));
}

TEST(SeenKeysTest, AHashOfZeroIsAHashLikeAnyOther) {
  SeenKeys rising;
  EXPECT_TRUE(rising.insert("b", 0));
  EXPECT_TRUE(rising.insert("a", 1));
  EXPECT_FALSE(rising.insert("b", 0));
  SeenKeys falling;
  EXPECT_TRUE(falling.insert("c", 5));
  EXPECT_TRUE(falling.insert("b", 0));
  EXPECT_FALSE(falling.insert("b", 0));
}

TEST(SeenKeysTest, TheSameKeyTwiceInARowWasThere) {
  SeenKeys seen;
  EXPECT_TRUE(seen.insert("a", 1));
  EXPECT_FALSE(seen.insert("a", 1));
}

TEST(SeenKeysTest, EqualsASetOnRandomKeys) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    SeenKeys seen;
    std::set<std::string> expected;
    for (int i = 0; i < 3000; ++i) {
      const std::string key = std::to_string(random.below(4000));
      ASSERT_EQ(seen.insert(key, hash64(key)), expected.insert(key).second);
    }
  }
}

}  // namespace
}  // namespace millrace::tar
