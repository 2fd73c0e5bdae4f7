// What upstreams say about bytes, in the forms that S3, Google and plain servers have.
#include "upstream/checksums.h"

#include <gtest/gtest.h>

namespace millrace::upstream {
namespace {

using net::DigestKind;
using Headers = std::vector<net::HeaderField>;

std::string encoded(DigestKind kind, std::string_view bytes) {
  return net::to_base64(net::digest(kind, bytes));
}

TEST(ChecksumsTest, PrefersWhatCostsLeast) {
  const Headers headers = {{"etag", "\"" + net::to_hex(net::digest(DigestKind::kMd5, "abc")) + "\""},
                           {"x-amz-checksum-sha256", encoded(DigestKind::kSha256, "abc")},
                           {"x-amz-checksum-crc32c", encoded(DigestKind::kCrc32c, "abc")}};
  const auto found = find_checksum(headers, Etags::kMayBeMd5);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, DigestKind::kCrc32c);
}

TEST(ChecksumsTest, TakesAnMd5ShapedEtagOfAStoreAlone) {
  const Headers headers = {{"etag", "\"900150983cd24fb0d6963f7d28e17f72\""}};
  ASSERT_TRUE(find_checksum(headers, Etags::kMayBeMd5));
  EXPECT_FALSE(find_checksum(headers, Etags::kOpaque));
  EXPECT_FALSE(find_checksum({{"etag", "\"900150983cd24fb0d6963f7d28e17f72-2\""}}, Etags::kMayBeMd5));
  EXPECT_FALSE(find_checksum({{"etag", "W/\"900150983cd24fb0d6963f7d28e17f72\""}}, Etags::kMayBeMd5));
}

TEST(ChecksumsTest, TakesNoEtagOfAnObjectEncryptedWithACustomersKey) {
  const Headers headers = {{"etag", "\"900150983cd24fb0d6963f7d28e17f72\""},
                           {"x-amz-server-side-encryption", "aws:kms"}};
  EXPECT_FALSE(find_checksum(headers, Etags::kMayBeMd5));
}

TEST(ChecksumsTest, PassesOverChecksumsOfChecksums) {
  const std::string crc = encoded(DigestKind::kCrc32c, "abc");
  EXPECT_FALSE(find_checksum({{"x-amz-checksum-crc32c", crc + "-3"}}, Etags::kOpaque));
  EXPECT_FALSE(
      find_checksum({{"x-amz-checksum-crc32c", crc}, {"x-amz-checksum-type", "COMPOSITE"}}, Etags::kOpaque));
}

TEST(ChecksumsTest, ReadsGooglesHashes) {
  const Headers headers = {{"x-goog-hash", "crc32c=" + encoded(DigestKind::kCrc32c, "abc") +
                                               ",md5=" + encoded(DigestKind::kMd5, "abc")}};
  const auto found = find_checksum(headers, Etags::kOpaque);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, DigestKind::kCrc32c);
  EXPECT_EQ(found->header, "x-goog-hash");
}

TEST(ChecksumsTest, IgnoresWhatCannotBeRead) {
  EXPECT_FALSE(find_checksum({{"content-md5", "abc"}, {"x-goog-hash", "crc32c,md5=,=,"}}, Etags::kOpaque));
  EXPECT_FALSE(find_checksum({{"x-millrace-crc32c", "????"}}, Etags::kOpaque));
}

TEST(VerifierTest, NamesBothValuesWhereTheBytesAreOthers) {
  Verifier verifier(find_checksum({{"content-md5", encoded(DigestKind::kMd5, "abc")}}, Etags::kOpaque));
  verifier.add("ab");
  verifier.add("d");
  const Status finished = verifier.finish(0);
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.error().code(), Code::kCorrupt);
  EXPECT_NE(finished.error().message().find("900150983cd24fb0d6963f7d28e17f72"), std::string::npos);
  EXPECT_NE(finished.error().message().find("content-md5"), std::string::npos);
}

TEST(VerifierTest, TakesTheWritersOwnCrc32c) {
  const auto expected =
      find_checksum({{"x-millrace-crc32c", encoded(DigestKind::kCrc32c, "abc")}}, Etags::kOpaque);
  Verifier good(expected);
  EXPECT_TRUE(good.finish(crc32c("abc")));
  Verifier bad(expected);
  EXPECT_FALSE(bad.finish(crc32c("abd")));
}

TEST(VerifierTest, AcceptsAnythingWhereTheUpstreamSaysNothing) {
  Verifier verifier(std::nullopt);
  verifier.add("abc");
  EXPECT_TRUE(verifier.finish(7));
}

}  // namespace
}  // namespace millrace::upstream
