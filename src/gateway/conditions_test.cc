// Conditions and etag lists as clients write them.
#include "gateway/conditions.h"

#include <gtest/gtest.h>

namespace millrace::gateway {
namespace {

struct Asked {
  net::RequestHead request;
  store::Record record;

  Asked() {
    record.etag = "abc";
    record.modified_ms = 784'111'777'500;  // Sun, 06 Nov 1994 08:49:37 GMT and a half
  }
  Asked& with(std::string_view name, std::string_view value) {
    request.headers.push_back({name, value});
    return *this;
  }
  Result<Verdict> plain() const { return judge_conditions(request, record, ConditionHeaders::kPlain); }
  Result<Verdict> copy() const { return judge_conditions(request, record, ConditionHeaders::kCopySource); }
};

constexpr std::string_view kThen = "Sun, 06 Nov 1994 08:49:37 GMT";
constexpr std::string_view kBefore = "Sun, 06 Nov 1994 08:49:36 GMT";

TEST(ConditionsTest, EachConditionIsJudgedAlone) {
  EXPECT_EQ(*Asked().plain(), Verdict::kGo);
  EXPECT_EQ(*Asked().with("If-Match", "\"abc\"").plain(), Verdict::kGo);
  EXPECT_EQ(*Asked().with("If-Match", "\"x\"").plain(), Verdict::kFailed);
  EXPECT_EQ(*Asked().with("If-None-Match", "\"abc\"").plain(), Verdict::kNotModified);
  EXPECT_EQ(*Asked().with("If-Unmodified-Since", kThen).plain(), Verdict::kGo);
  EXPECT_EQ(*Asked().with("If-Unmodified-Since", kBefore).plain(), Verdict::kFailed);
  EXPECT_EQ(*Asked().with("If-Modified-Since", kThen).plain(), Verdict::kNotModified);
  EXPECT_EQ(*Asked().with("If-Modified-Since", kBefore).plain(), Verdict::kGo);
}

TEST(ConditionsTest, TheEtagCountsBeforeTheDate) {
  EXPECT_EQ(*Asked().with("If-Match", "abc").with("If-Unmodified-Since", kBefore).plain(), Verdict::kGo);
  EXPECT_EQ(*Asked().with("If-None-Match", "x").with("If-Modified-Since", kThen).plain(), Verdict::kGo);
  EXPECT_EQ(*Asked().with("If-Match", "x").with("If-None-Match", "abc").plain(), Verdict::kFailed);
}

TEST(ConditionsTest, ADateThatCannotBeReadIsPassedOverButForCopies) {
  EXPECT_EQ(*Asked().with("If-Modified-Since", "yesterday").plain(), Verdict::kGo);
  EXPECT_EQ(*Asked().with("If-Unmodified-Since", "yesterday").plain(), Verdict::kGo);
  const auto copy = Asked().with("x-amz-copy-source-if-modified-since", "yesterday").copy();
  ASSERT_FALSE(copy);
  EXPECT_EQ(copy.error().code(), Code::kInvalid);
}

TEST(ConditionsTest, HeadersOfTheOtherKindSayNothing) {
  EXPECT_EQ(*Asked().with("If-Match", "x").copy(), Verdict::kGo);
  EXPECT_EQ(*Asked().with("x-amz-copy-source-if-match", "x").plain(), Verdict::kGo);
  EXPECT_EQ(*Asked().with("x-amz-copy-source-if-match", "x").copy(), Verdict::kFailed);
  EXPECT_EQ(*Asked().with("x-amz-copy-source-if-none-match", "abc").copy(), Verdict::kNotModified);
}

TEST(EtagTest, QuotesAndWeaknessComeOff) {
  EXPECT_EQ(quoted_etag("abc"), "\"abc\"");
  EXPECT_EQ(unquoted_etag("\"abc\""), "abc");
  EXPECT_EQ(unquoted_etag("W/\"abc\""), "abc");
  EXPECT_EQ(unquoted_etag("abc"), "abc");
  EXPECT_EQ(unquoted_etag("\""), "\"");
  EXPECT_EQ(unquoted_etag("\"\""), "");
  EXPECT_EQ(unquoted_etag(""), "");
}

TEST(EtagTest, AListNamesItsEtags) {
  for (const std::string_view list : {"\"abc\"", "abc", "W/\"abc\"", "*", "\"x\", \"abc\"",
                                      "\"x\",\"abc\",\"y\"", " \"abc\" ", "\"x\", *"}) {
    EXPECT_TRUE(etag_listed(list, "abc")) << list;
  }
  for (const std::string_view list : {"", "\"ab\"", "\"abcd\"", "\"x\", \"y\"", ",", "\"ABC\"", "\"*\""}) {
    EXPECT_FALSE(etag_listed(list, "abc")) << list;
  }
}

}  // namespace
}  // namespace millrace::gateway
