// Published values, and pieces against the whole.
#include "net/digest.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace millrace::net {
namespace {

TEST(DigestTest, GivesThePublishedValues) {
  const std::string_view nine = "123456789";
  EXPECT_EQ(to_hex(digest(DigestKind::kCrc32, nine)), "cbf43926");
  EXPECT_EQ(to_hex(digest(DigestKind::kCrc32c, nine)), "e3069283");
  EXPECT_EQ(to_hex(digest(DigestKind::kCrc64Nvme, nine)), "ae8b14860a799888");
  EXPECT_EQ(to_hex(digest(DigestKind::kMd5, nine)), "25f9e794323b453885f5181f1b624d0b");
  EXPECT_EQ(to_hex(digest(DigestKind::kSha1, nine)), "f7c3bc1d808e04732adf679965ccc34ca7ae3441");
  EXPECT_EQ(to_hex(digest(DigestKind::kSha256, nine)),
            "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225");
  EXPECT_EQ(to_hex(hmac_sha256("key", "The quick brown fox jumps over the lazy dog")),
            "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8");
}

TEST(DigestTest, PiecesGiveWhatTheWholeGives) {
  Random random(1);
  std::string bytes(300'000, 0);
  for (char& c : bytes) c = static_cast<char>(random.next());
  for (const DigestKind kind : {DigestKind::kMd5, DigestKind::kSha1, DigestKind::kSha256, DigestKind::kCrc32,
                                DigestKind::kCrc32c, DigestKind::kCrc64Nvme}) {
    Digest pieces(kind);
    for (size_t at = 0; at < bytes.size();) {
      const size_t size = std::min(bytes.size() - at, static_cast<size_t>(random.below(700)));
      pieces.add(std::string_view(bytes).substr(at, size));
      at += size;
    }
    EXPECT_EQ(pieces.finish(), digest(kind, bytes)) << static_cast<int>(kind);
  }
}

TEST(DigestTest, HeadersAndAlgorithmsNameTheKinds) {
  EXPECT_EQ(checksum_header(DigestKind::kCrc32c), "x-amz-checksum-crc32c");
  EXPECT_EQ(checksum_header(DigestKind::kMd5), "x-amz-checksum-md5");
  EXPECT_EQ(find_checksum_kind("x-amz-checksum-sha256"), DigestKind::kSha256);
  EXPECT_EQ(find_checksum_kind("content-md5"), std::nullopt);
  EXPECT_EQ(find_checksum_algorithm("crc64nvme"), DigestKind::kCrc64Nvme);
  EXPECT_EQ(find_checksum_algorithm(""), std::nullopt);
}

TEST(TextCodingTest, HexAndBase64GoBothWays) {
  for (const std::string text : {"", "f", "fo", "foo", "foob", "fooba", "foobar"}) {
    EXPECT_EQ(*from_hex(to_hex(text)), text);
    EXPECT_EQ(*from_base64(to_base64(text)), text);
  }
  EXPECT_EQ(to_base64("fooba"), "Zm9vYmE=");
  EXPECT_EQ(*from_hex("C0ffee"), "\xc0\xff\xee");
}

TEST(TextCodingTest, RefusesWhatIsNotExact) {
  for (const std::string text : {"a", "zz", "0x"}) EXPECT_FALSE(from_hex(text)) << text;
  for (const std::string text : {"a", "abc", "ab=c", "====", "a===", "Zm9v\n", " m9v", "Zm9vYmE=Zm9v"})
    EXPECT_FALSE(from_base64(text)) << text;
}

TEST(SecretsTest, CompareByContent) {
  EXPECT_TRUE(equal_secrets("abc", "abc"));
  EXPECT_FALSE(equal_secrets("abc", "abd"));
  EXPECT_FALSE(equal_secrets("abc", "ab"));
  EXPECT_TRUE(equal_secrets("", ""));
  EXPECT_NE(random_bytes(16), random_bytes(16));
}

TEST(DigestTest, TheNewerChecksumsOfClients) {
  const auto checked = [](std::string_view header) {
    const DigestKind kind = *find_checksum_kind(header);
    const std::string raw = digest(kind, "Memento Mori");
    EXPECT_EQ(raw.size(), digest_bytes(kind)) << header;
    EXPECT_EQ(find_checksum_algorithm(checksum_algorithm(kind)), kind) << header;
    return to_base64(raw);
  };
  EXPECT_EQ(checked("x-amz-checksum-xxhash64"), "gpWjYMLp9XA=");
  EXPECT_EQ(checked("x-amz-checksum-xxhash3"), "9RrF7krhuOI=");
  EXPECT_EQ(checked("x-amz-checksum-xxhash128"), "AW5DBY+18wW7VuSsFyNFAg==");
  EXPECT_EQ(checked("x-amz-checksum-md5"), "M4gMG2pWdRa7veK+8/DIFA==");
  EXPECT_EQ(checked("x-amz-checksum-sha512"),
            "b3tSwOm8ciYgInIl7qsmQMTRTg6bftRpEBagE0ZWONKrb19uOBf1HZX++/ttF/2n/6MFWBq3O4Msl2oP/XC+pQ==");
}

}  // namespace
}  // namespace millrace::net
