// Keys: what they may do.
#include "gateway/access.h"

#include <gtest/gtest.h>

#include <set>

namespace millrace::gateway {
namespace {

TEST(GrantTest, AGrantNamesABucketAndARight) {
  EXPECT_TRUE(parse_grant("train:read")->read);
  EXPECT_FALSE(parse_grant("train:read")->write);
  EXPECT_TRUE(parse_grant("train:write")->write);
  EXPECT_FALSE(parse_grant("train:write")->read);
  EXPECT_EQ(parse_grant("*:read-write")->bucket, "*");
  for (const std::string_view text :
       {"", "train", "train:", ":read", "train:all", "train:READ", "train:read,write"}) {
    const auto grant = parse_grant(text);
    ASSERT_FALSE(grant) << text;
    EXPECT_EQ(grant.error().code(), Code::kInvalid) << text;
  }
}

TEST(KeyTest, AKeyMayWhatItWasGrantedAndNoMore) {
  Key key = make_key();
  EXPECT_FALSE(key.may(Right::kRead, "train"));
  key.grants = {{"train", true, false}, {"out", false, true}};
  EXPECT_TRUE(key.may(Right::kRead, "train"));
  EXPECT_FALSE(key.may(Right::kWrite, "train"));
  EXPECT_TRUE(key.may(Right::kWrite, "out"));
  EXPECT_FALSE(key.may(Right::kRead, "out"));
  EXPECT_FALSE(key.may(Right::kRead, "train2"));
  EXPECT_FALSE(key.may(Right::kRead, ""));
  EXPECT_FALSE(key.may(Right::kAdmin, "train"));
  key.grants = {{"*", true, true}};
  EXPECT_TRUE(key.may(Right::kWrite, "anything"));
  EXPECT_FALSE(key.may(Right::kAdmin, "anything"));
  key.grants.clear();
  key.admin = true;
  EXPECT_TRUE(key.may(Right::kAdmin, ""));
  EXPECT_TRUE(key.may(Right::kWrite, "anything"));
}

TEST(KeyTest, MadeKeysDiffer) {
  std::set<std::string> seen;
  for (int i = 0; i < 200; ++i) {
    const Key key = make_key();
    EXPECT_EQ(key.access_key.size(), 20U);
    EXPECT_EQ(key.secret_key.size(), 40U);
    EXPECT_TRUE(seen.insert(key.access_key).second);
    EXPECT_TRUE(seen.insert(key.secret_key).second);
  }
}

}  // namespace
}  // namespace millrace::gateway
