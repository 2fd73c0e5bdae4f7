// Bodies in aws-chunked form: the published example, splits at every place, and damage.
#include "net/aws_chunked.h"

#include <gtest/gtest.h>

namespace millrace::net {
namespace {

using Trailers = AwsChunkedDecoder::Trailers;

constexpr std::string_view kSecret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

SignatureClaim example_claim(std::string seed) {
  SignatureClaim claim;
  claim.date = "20130524T000000Z";
  claim.scope = "20130524/us-east-1/s3/aws4_request";
  claim.signature = std::move(seed);
  return claim;
}

Result<std::string> decode_all(AwsChunkedDecoder& decoder, std::string_view body, size_t step) {
  std::string plain;
  while (!body.empty()) {
    std::string_view input = body.substr(0, step);
    body.remove_prefix(input.size());
    while (!input.empty()) {
      const auto one = MR_TRY(decoder.decode(input));
      plain += one.plain;
      input.remove_prefix(one.used);
    }
  }
  return plain;
}

std::string signed_example() {
  return "10000;chunk-signature=ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\n" +
         std::string(65536, 'a') +
         "\r\n400;chunk-signature=0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497\r\n" +
         std::string(1024, 'a') +
         "\r\n0;chunk-signature=b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n\r\n";
}

AwsChunkedDecoder signed_decoder() {
  return AwsChunkedDecoder(
      ChunkSigner(example_claim("4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"), kSecret),
      Trailers::kNone);
}

TEST(AwsChunkedTest, DecodesThePublishedExample) {
  for (const size_t step : {1UL, 7UL, 85UL, 1000UL, 100000UL}) {
    AwsChunkedDecoder decoder = signed_decoder();
    const auto plain = decode_all(decoder, signed_example(), step);
    ASSERT_TRUE(plain) << plain.error().message();
    EXPECT_EQ(*plain, std::string(66560, 'a'));
    EXPECT_TRUE(decoder.finished());
  }
}

TEST(AwsChunkedTest, AChangedByteOrSignatureIsDenied) {
  for (const size_t at : {40UL, 5000UL, 65700UL, 66800UL}) {
    std::string body = signed_example();
    body[at] = body[at] == 'b' ? 'c' : 'b';
    AwsChunkedDecoder decoder = signed_decoder();
    const auto plain = decode_all(decoder, body, 1000);
    ASSERT_FALSE(plain) << at;
    EXPECT_EQ(plain.error().code(), Code::kDenied) << at;
    EXPECT_FALSE(decoder.finished());
  }
}

TEST(AwsChunkedTest, AMissingSignatureIsDenied) {
  AwsChunkedDecoder decoder = signed_decoder();
  EXPECT_EQ(decode_all(decoder, "3\r\nabc\r\n0\r\n\r\n", 100).error().code(), Code::kDenied);
}

TEST(AwsChunkedTest, ACutBodyIsNotFinished) {
  const std::string body = signed_example();
  for (const size_t size : {size_t{0}, size_t{100}, body.size() - 100, body.size() - 1}) {
    AwsChunkedDecoder decoder = signed_decoder();
    ASSERT_TRUE(decode_all(decoder, std::string_view(body).substr(0, size), 1000));
    EXPECT_FALSE(decoder.finished()) << size;
  }
}

TEST(AwsChunkedTest, UnsignedTrailersAreCollected) {
  AwsChunkedDecoder decoder({}, Trailers::kExpected);
  const auto plain = decode_all(
      decoder, "3\r\nabc\r\n2\r\nde\r\n0\r\nX-Amz-Checksum-CRC32C: wdBDMA==\r\nother:1\r\n\r\n", 3);
  ASSERT_TRUE(plain) << plain.error().message();
  EXPECT_EQ(*plain, "abcde");
  EXPECT_TRUE(decoder.finished());
  const std::vector<HeaderField> expected = {{"x-amz-checksum-crc32c", "wdBDMA=="}, {"other", "1"}};
  EXPECT_EQ(decoder.trailers(), expected);
}

TEST(AwsChunkedTest, MinioGoEndsATrailerWithALineFeedAndTwoEmptyLines) {
  for (const size_t step : {1UL, 2UL, 100UL}) {
    AwsChunkedDecoder decoder({}, Trailers::kExpected);
    const auto plain = decode_all(decoder, "3\r\nabc\r\n0\r\nx-amz-checksum-crc32c:NksE/g==\n\r\n\r\n", step);
    ASSERT_TRUE(plain) << plain.error().message();
    EXPECT_EQ(*plain, "abc");
    EXPECT_TRUE(decoder.finished());
    ASSERT_EQ(decoder.trailers().size(), 1U);
  }
}

TEST(AwsChunkedTest, ABareLineFeedEndsNoOtherLine) {
  for (const std::string_view body :
       {"3\nabc\r\n0\r\n\r\n", "3;x=y\nabc\r\n0\r\n\r\n", "3\r\nabc\n0\r\n\r\n", "3\r\nabc\r\n0\n\r\n",
        "3\r\nabc\r\n0\r\n\n", "3\r\nabc\r\n0\r\na:b\n\n", "3\r\nabc\r\n0\r\na:b\n\r\n\n",
        "3\r\nabc\r\n0\r\na:b\n\r\n\r\nx", "3\r\nabc\r\n0\r\na:b\r\n\r\n\r\n"}) {
    AwsChunkedDecoder decoder({}, Trailers::kExpected);
    EXPECT_FALSE(decode_all(decoder, body, 100)) << body;
  }
}

std::string signed_trailer_body(std::string_view end) {
  return "10000;chunk-signature=b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2\r\n" +
         std::string(65536, 'a') +
         "\r\n400;chunk-signature=1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7\r\n" +
         std::string(1024, 'a') +
         "\r\n0;chunk-signature=2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992\r\n" +
         std::string(end);
}

Result<bool> finishes(std::string_view end) {
  AwsChunkedDecoder decoder(
      ChunkSigner(example_claim("106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"), kSecret),
      Trailers::kExpected);
  static_cast<void>(MR_TRY(decode_all(decoder, signed_trailer_body(end), 999)));
  return decoder.finished();
}

constexpr std::string_view kChecksum = "x-amz-checksum-crc32c:sOO8/Q==";
constexpr std::string_view kSigned =
    "x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n";

TEST(AwsChunkedTest, SignedTrailersAreJudged) {
  const auto good = finishes(fmt::format("{}\r\n{}\r\n", kChecksum, kSigned));
  ASSERT_TRUE(good) << good.error().message();
  EXPECT_TRUE(*good);
  const auto with_newline = finishes(fmt::format("{}\n\r\n{}\r\n", kChecksum, kSigned));
  ASSERT_TRUE(with_newline) << with_newline.error().message();
  EXPECT_TRUE(*with_newline);
}

TEST(AwsChunkedTest, TrailersBesideTheirSignatureAreRefused) {
  EXPECT_FALSE(finishes(fmt::format("x-amz-checksum-crc32c:sOO9/Q==\r\n{}\r\n", kSigned)));
  EXPECT_FALSE(finishes(fmt::format("{}\r\n{}x-amz-checksum-sha1:x\r\n\r\n", kChecksum, kSigned)));
  EXPECT_FALSE(finishes("\r\n"));
  const auto unsigned_end = finishes(fmt::format("{}\r\n\r\n", kChecksum));
  EXPECT_TRUE(!unsigned_end || !*unsigned_end);
}

TEST(AwsChunkedTest, BrokenFormsAreCorrupt) {
  for (const std::string body : {"x\r\n", "\r\n", "-1\r\n", "fffffffffffffffff\r\n", "3\r\nabcd\r\n",
                                 "3;a;b\r\nabcX", "0\r\n\r\nmore", "0\r\nunexpected:1\r\n\r\n"}) {
    AwsChunkedDecoder decoder({}, Trailers::kNone);
    const auto plain = decode_all(decoder, body + "\n", 2);
    ASSERT_FALSE(plain) << body;
    EXPECT_EQ(plain.error().code(), Code::kCorrupt);
  }
  AwsChunkedDecoder endless({}, Trailers::kNone);
  EXPECT_FALSE(decode_all(endless, std::string(10000, '0'), 100));
  AwsChunkedDecoder nameless({}, Trailers::kExpected);
  EXPECT_FALSE(decode_all(nameless, "0\r\n:x\r\n\r\n", 100));
  std::string flood = "0\r\n";
  for (int i = 0; i < 100; ++i) flood += "a:b\r\n";
  AwsChunkedDecoder many({}, Trailers::kExpected);
  EXPECT_FALSE(decode_all(many, flood, 100));
}

}  // namespace
}  // namespace millrace::net
