// Addresses taken apart, put together, and refused.
#include "net/url.h"

#include <gtest/gtest.h>

namespace millrace::net {
namespace {

TEST(UrlTest, TakesAnAddressApart) {
  const auto url = parse_url("HTTP://Store.Example:9400/train/a%20b.tar?uploadId=x&part");
  ASSERT_TRUE(url) << url.error().message();
  EXPECT_EQ(url->scheme, "http");
  EXPECT_EQ(url->host, "store.example");
  EXPECT_EQ(url->port, 9400);
  EXPECT_EQ(url->path, "/train/a%20b.tar");
  EXPECT_EQ(url->query, "uploadId=x&part");
  EXPECT_EQ(url->text(), "http://store.example:9400/train/a%20b.tar?uploadId=x&part");
}

TEST(UrlTest, AHostAloneHasTheRootAsPath) {
  EXPECT_EQ(parse_url("https://example.org")->path, "/");
  EXPECT_EQ(parse_url("https://example.org?x=1")->query, "x=1");
  EXPECT_EQ(parse_url("http://example.org/a#part")->path, "/a");
}

TEST(UrlTest, ReadsAddressesOfVersionSix) {
  const auto url = parse_url("http://[::1]:9400/a");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->host, "::1");
  EXPECT_EQ(url->port, 9400);
  EXPECT_EQ(url->text(), "http://[::1]:9400/a");
}

TEST(UrlTest, KeysOfBucketsAreTakenLiterally) {
  const auto url = parse_url("s3://My-Bucket/a b%20?c#d.tar");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->host, "My-Bucket");
  EXPECT_EQ(url->path, "/a%20b%2520%3Fc%23d.tar");
  EXPECT_EQ(url->query, "");
  EXPECT_EQ(url->text(), "s3://My-Bucket/a b%20?c#d.tar");
  EXPECT_EQ(parse_url("mr://bucket")->path, "");
}

TEST(UrlTest, BytesThatWouldBreakARequestLineAreEncoded) {
  EXPECT_EQ(parse_url("http://h/a b\r\nX: y")->path, "/a%20b%0D%0AX:%20y");
}

TEST(UrlTest, RefusesWhatIsNoAddress) {
  for (const std::string text : {"", "train.tar", "ftp://host/a", "http://", "http:///a", "http://h:0/",
                                 "http://h:66000/", "http://h:x/", "http://[::1/", "http://[::1]x/",
                                 "http://me:secret@h/", "s3:///key", "http://a b/", "http://h%0a/"}) {
    EXPECT_FALSE(parse_url(text)) << text;
  }
  EXPECT_FALSE(parse_url("http://h/" + std::string(20000, 'a')));
  EXPECT_FALSE(is_url("C:/a"));
  EXPECT_TRUE(is_url("mr://bucket/key"));
}

TEST(PercentTest, EncodesAllButUnreservedCharacters) {
  EXPECT_EQ(percent_encode("a/b c~+é", Encode::kPath), "a/b%20c~%2B%C3%A9");
  EXPECT_EQ(percent_encode("a/b", Encode::kAll), "a%2Fb");
}

TEST(PercentTest, DecodesWhatItEncodes) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(*percent_decode(percent_encode(all, Encode::kAll)), all);
  EXPECT_EQ(*percent_decode("a+b%2b"), "a+b+");
}

TEST(PercentTest, RefusesHalfAnEscape) {
  for (const std::string text : {"%", "%4", "a%zz", "%4g"}) EXPECT_FALSE(percent_decode(text)) << text;
}

TEST(QueryTest, KeepsOrderAndEmptyValues) {
  const auto items = parse_query("b=1&a&c=&a=x+y%3D&&");
  ASSERT_TRUE(items);
  const std::vector<QueryItem> expected = {{"b", "1"}, {"a", ""}, {"c", ""}, {"a", "x y="}};
  EXPECT_EQ(*items, expected);
}

TEST(QueryTest, RefusesBrokenEscapesAndFloods) {
  EXPECT_FALSE(parse_query("a=%"));
  std::string flood;
  for (int i = 0; i < 2000; ++i) flood += "a&";
  EXPECT_FALSE(parse_query(flood));
}

}  // namespace
}  // namespace millrace::net
