// Lines that nobody can forge, and that tell no secrets.
#include "gateway/audit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/random.h"

namespace millrace::gateway {
namespace {

using Json = nlohmann::ordered_json;

bool is_one_line(const std::string& line) {
  return std::ranges::all_of(line, [](char byte) { return byte >= 0x20 && byte < 0x7f; });
}

TEST(AuditLineTest, HostileTextsStayInTheirField) {
  for (const char* text : {"a\nb", "\r\n{\"event\":\"request\"}", "\"},{\"as\":\"key\"", "\\\"", "\x1b[2J",
                           "\x7f", "\xe2\x80\xa8", "\xc2\x85", "\xff\xfe", "\xed\xa0\x80", "\t", "é/ü"}) {
    const std::string line = audit_line({{"event", "request"}, {"key", text}, {"status", 200}});
    EXPECT_TRUE(is_one_line(line)) << line;
    const Json back = Json::parse(line);
    EXPECT_EQ(back.size(), 3U) << line;
    EXPECT_EQ(back["event"], "request");
    EXPECT_EQ(back["status"], 200);
  }
  EXPECT_EQ(Json::parse(audit_line({{"key", "a\nb\"c"}}))["key"], "a\nb\"c");
  const std::string nul("a\0b", 3);
  EXPECT_EQ(Json::parse(audit_line({{"key", nul}}))["key"], nul);
}

TEST(AuditLineTest, RandomBytesStayInTheirField) {
  constexpr uint64_t kSeed = 7;
  Random random(kSeed);
  for (int turn = 0; turn < 20'000; ++turn) {
    std::string name(random.below(12), '\0');
    std::string text(random.below(60), '\0');
    for (char& byte : name) byte = static_cast<char>(random.next());
    for (char& byte : text) byte = static_cast<char>(random.next());
    const std::string line = audit_line({{"event", "request"}, {"key", text}, {"query", name + "=" + text}});
    ASSERT_TRUE(is_one_line(line)) << "seed " << kSeed << " turn " << turn;
    const Json back = Json::parse(line, nullptr, false);
    ASSERT_EQ(back.size(), 3U) << "seed " << kSeed << " turn " << turn;
    ASSERT_EQ(back["event"], "request");
  }
}

TEST(AuditQueryTest, ValuesOfSignaturesAndTokensAreCut) {
  EXPECT_EQ(without_secrets(""), "");
  EXPECT_EQ(without_secrets("list-type=2&prefix=a%26b"), "list-type=2&prefix=a%26b");
  EXPECT_EQ(without_secrets("X-Amz-Signature=0123&X-Amz-Expires=60"), "X-Amz-Signature=…&X-Amz-Expires=60");
  EXPECT_EQ(without_secrets("a=1&x-amz-SIGNATURE=0123"), "a=1&x-amz-SIGNATURE=…");
  EXPECT_EQ(without_secrets("X%2DAmz%2DSignature=0123&Signature=ab%3D&b"),
            "X%2DAmz%2DSignature=…&Signature=…&b");
  EXPECT_EQ(without_secrets("X-Amz-Security-Token=t&AWSAccessKeyId=AK"),
            "X-Amz-Security-Token=…&AWSAccessKeyId=AK");
  // A second value of the same name, and one with "=" in it.
  EXPECT_EQ(without_secrets("Signature=a&Signature=b=c&Signature"), "Signature=…&Signature=…&Signature");
  EXPECT_EQ(without_secrets("%zz=1&Signature%=2&"), "%zz=1&Signature%=2&");
}

}  // namespace
}  // namespace millrace::gateway
