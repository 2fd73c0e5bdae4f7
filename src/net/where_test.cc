// The header that says where bytes are: what is written is read, nonsense is not, and each byte has its
// holder.
#include "net/where.h"

#include <gtest/gtest.h>

namespace millrace::net {
namespace {

const std::string kStriped = "2+1 1000 a:1,b:2,[::1]:3";

TEST(WhereTest, ReadsWhatItWrote) {
  for (const std::string& text : {kStriped, std::string("1+2 1048576 10.0.0.1:9400,-,c:9400"),
                                  std::string("1+0 1 -"), std::string("4+2 1048576 a:1,b:1")}) {
    const auto where = parse_where(text);
    ASSERT_TRUE(where) << text;
    EXPECT_EQ(where->text(), text);
  }
}

TEST(WhereTest, RefusesWhatIsNoSuchText) {
  for (const std::string text : {"",
                                 "2",
                                 "2+1",
                                 "2+1 1000",
                                 "0+1 1000 a:1",
                                 "2+1 0 a:1",
                                 "2+1 1000 ",
                                 "2+1 1000 a",
                                 "2+1 1000 a:0",
                                 "2+1 1000 a:1,",
                                 "2+1 1000 a:1,b:1,c:1,d:1",
                                 "2+1 1000 a:1/x",
                                 "2+1 1000 u@a:1",
                                 "2+1 1000 a:99999",
                                 "2+1 1000 a:1 b:2",
                                 "65+0 1000 a:1",
                                 "40+40 1 a:1",
                                 "-1+2 1 a:1",
                                 "2+1 1000 a:1\r\nb:2",
                                 "2+1 1000 a:1?x",
                                 "2+1 1000 :1"})
    EXPECT_FALSE(parse_where(text)) << text;
}

TEST(WhereTest, GivesEachCellOfAStripeToItsSlot) {
  const auto where = parse_where(kStriped);
  ASSERT_TRUE(where);
  EXPECT_EQ(where->holders_of(0), std::vector<std::string>{"a:1"});
  EXPECT_EQ(where->holders_of(999), std::vector<std::string>{"a:1"});
  EXPECT_EQ(where->holders_of(1000), std::vector<std::string>{"b:2"});
  EXPECT_EQ(where->holders_of(2000), std::vector<std::string>{"a:1"});
  EXPECT_EQ(where->cell_end(999), 1000U);
  EXPECT_EQ(where->cell_end(1000), 2000U);
  EXPECT_EQ(where->cell_end(UINT64_MAX), std::nullopt);
}

TEST(WhereTest, GivesNobodyForASlotThatIsAwayOrMissing) {
  EXPECT_TRUE(parse_where("2+1 1000 -,b:2,c:3")->holders_of(0).empty());
  EXPECT_TRUE(parse_where("2+1 1000 a:1")->holders_of(1000).empty());
}

TEST(WhereTest, LetsCopiesTakeTurns) {
  const auto where = parse_where("1+2 1000 a:1,-,c:3");
  ASSERT_TRUE(where);
  EXPECT_EQ(where->holders_of(0), (std::vector<std::string>{"a:1", "c:3"}));
  EXPECT_EQ(where->holders_of(1500), (std::vector<std::string>{"c:3", "a:1"}));
  EXPECT_EQ(where->cell_end(0), std::nullopt);
}

TEST(WhereTest, ReadsAListOfNodesWholeOrNotAtAll) {
  EXPECT_EQ(parse_nodes("a:1,[::1]:2"), (std::vector<std::string>{"a:1", "[::1]:2"}));
  for (const char* const text :
       {"", ",", "a", "a:1,", ",a:1", "a:1,-", "a:1, b:2", "a:1/x", "u@a:1", "a:99999"})
    EXPECT_TRUE(parse_nodes(text).empty()) << text;
  std::string many = "a:1";
  for (size_t i = 0; i < kMaxHolders; ++i) many += ",a:1";
  EXPECT_EQ(parse_nodes(many).size(), kMaxHolders);
}

}  // namespace
}  // namespace millrace::net
