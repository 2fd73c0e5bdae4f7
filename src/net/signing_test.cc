// The examples that Amazon publishes for signature version 4, both ways, and what must be refused.
#include "net/signing.h"

#include <gtest/gtest.h>

#include "net/digest.h"

namespace millrace::net {
namespace {

constexpr int64_t kMoment = 1369353600000;  // 2013-05-24T00:00:00Z
constexpr std::string_view kSecret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
constexpr std::string_view kEmptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

Credentials example_credentials() {
  return {"AKIAIOSFODNN7EXAMPLE", std::string(kSecret), "", "us-east-1"};
}

SignedRequest example_get() {
  return {"GET", "/test.txt", "", {{"host", "examplebucket.s3.amazonaws.com"}, {"range", "bytes=0-9"}}};
}

std::string signature_of(const SignedRequest& request) {
  const auto claim = read_claim(request);
  if (!claim) return claim.error().message();
  return *claim ? (*claim)->signature : "unsigned";
}

SignatureProblem judged(const SignedRequest& request, int64_t wall = kMoment) {
  const auto claim = read_claim(request);
  if (!claim || !*claim) return SignatureProblem::kMalformed;
  return judge(request, **claim, kSecret, wall);
}

TEST(SigningTest, GetOfARange) {
  SignedRequest request = example_get();
  sign(request, example_credentials(), kEmptyHash, kMoment);
  EXPECT_EQ(signature_of(request), "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(judged(request), SignatureProblem::kNone);
}

TEST(SigningTest, PutWithAPathThatNeedsEncoding) {
  for (const std::string path : {"/test$file.text", "/test%24file.text"}) {
    SignedRequest request{"PUT",
                          path,
                          "",
                          {{"host", "examplebucket.s3.amazonaws.com"},
                           {"date", "Fri, 24 May 2013 00:00:00 GMT"},
                           {"x-amz-storage-class", "REDUCED_REDUNDANCY"}}};
    sign(request, example_credentials(), to_hex(digest(DigestKind::kSha256, "Welcome to Amazon S3.")),
         kMoment);
    EXPECT_EQ(signature_of(request), "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
    EXPECT_EQ(judged(request), SignatureProblem::kNone);
  }
}

TEST(SigningTest, QueriesAreSortedAndNamesWithoutValueKept) {
  SignedRequest lifecycle{"GET", "/", "lifecycle", {{"host", "examplebucket.s3.amazonaws.com"}}};
  sign(lifecycle, example_credentials(), kEmptyHash, kMoment);
  EXPECT_EQ(signature_of(lifecycle), "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  SignedRequest list{"GET", "/", "prefix=J&max-keys=2", {{"host", "examplebucket.s3.amazonaws.com"}}};
  sign(list, example_credentials(), kEmptyHash, kMoment);
  EXPECT_EQ(signature_of(list), "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

SignedRequest example_presigned() {
  SignedRequest request{"GET", "/test.txt", "", {{"host", "examplebucket.s3.amazonaws.com"}}};
  request.query = presign(request, example_credentials(), 86400, kMoment);
  return request;
}

TEST(SigningTest, PresignedGet) {
  const SignedRequest request = example_presigned();
  EXPECT_EQ(signature_of(request), "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404");
  EXPECT_EQ(judged(request), SignatureProblem::kNone);
  EXPECT_EQ(judged(request, kMoment + 86400 * 1000), SignatureProblem::kNone);
  EXPECT_EQ(judged(request, kMoment + 86401 * 1000), SignatureProblem::kExpired);
  EXPECT_EQ(judged(request, kMoment - 16 * 60 * 1000), SignatureProblem::kSkewed);
}

TEST(SigningTest, ASignatureHoldsFifteenMinutes) {
  SignedRequest request = example_get();
  sign(request, example_credentials(), kUnsignedPayload, kMoment);
  EXPECT_EQ(judged(request, kMoment + kMaxClockSkewMs), SignatureProblem::kNone);
  EXPECT_EQ(judged(request, kMoment + kMaxClockSkewMs + 1), SignatureProblem::kSkewed);
  EXPECT_EQ(judged(request, kMoment - kMaxClockSkewMs - 1), SignatureProblem::kSkewed);
}

TEST(SigningTest, WhatIsChangedOnTheWayIsNoticed) {
  SignedRequest good = example_get();
  sign(good, example_credentials(), kEmptyHash, kMoment);
  SignedRequest changed = good;
  changed.method = "DELETE";
  EXPECT_EQ(judged(changed), SignatureProblem::kMismatch);
  changed = good;
  changed.path = "/other.txt";
  EXPECT_EQ(judged(changed), SignatureProblem::kMismatch);
  changed = good;
  changed.query = "versionId=2";
  EXPECT_EQ(judged(changed), SignatureProblem::kMismatch);
  changed = good;
  changed.headers[1].second = "bytes=0-10";
  EXPECT_EQ(judged(changed), SignatureProblem::kMismatch);
  changed = good;
  changed.headers.emplace_back("x-amz-copy-source", "/other/secret");
  EXPECT_EQ(judged(changed), SignatureProblem::kMismatch);
  changed = good;
  changed.query = "%";
  EXPECT_EQ(judged(changed), SignatureProblem::kMalformed);
}

TEST(SigningTest, SpacesInHeadersDoNotMatter) {
  SignedRequest request = example_get();
  request.headers.emplace_back("x-amz-meta-note", "  a   b ");
  sign(request, example_credentials(), kEmptyHash, kMoment);
  request.headers[2].second = "a b";
  EXPECT_EQ(judged(request), SignatureProblem::kNone);
}

TEST(SigningTest, SessionTokensAreSigned) {
  Credentials credentials = example_credentials();
  credentials.session_token = "token/with+signs";
  SignedRequest request = example_get();
  sign(request, credentials, kEmptyHash, kMoment);
  EXPECT_EQ(judged(request), SignatureProblem::kNone);
  std::erase_if(request.headers,
                [](const HeaderField& header) { return header.first == "x-amz-security-token"; });
  EXPECT_EQ(judged(request), SignatureProblem::kMismatch);
}

TEST(SigningTest, UnsignedRequestsMakeNoClaim) {
  SignedRequest request = example_get();
  EXPECT_EQ(signature_of(request), "unsigned");
  request.headers.emplace_back("authorization", "Bearer token");
  request.query = "X-Amz-Other=1";
  EXPECT_EQ(signature_of(request), "unsigned");
}

TEST(SigningTest, GarbageIsAnErrorAndNotACrash) {
  for (const std::string text :
       {"AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256 Credential=",
        "AWS4-HMAC-SHA256 Credential=////,SignedHeaders=;,Signature=", "AWS AKIA:signature",
        "AWS4-ECDSA-P256-SHA256 Credential=a/b/s3/aws4_request",
        "AWS4-HMAC-SHA256 Credential=a/20130524/r/s3/aws4_request,SignedHeaders=range,Signature=00",
        "AWS4-HMAC-SHA256 Credential=a/20130524/r/ec2/aws4_request,SignedHeaders=host,Signature=00"}) {
    SignedRequest request = example_get();
    request.headers.emplace_back("x-amz-date", "20130524T000000Z");
    request.headers.emplace_back("x-amz-content-sha256", kEmptyHash);
    request.headers.emplace_back("authorization", text);
    EXPECT_FALSE(read_claim(request)) << text;
  }
  for (const std::string query :
       {"X-Amz-Signature=0", "X-Amz-Algorithm=other", "X-Amz-Credential=%",
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=604801", "X-Amz-Credential=a&X-Amz-Expires=x"}) {
    SignedRequest request = example_get();
    request.query = query;
    EXPECT_FALSE(read_claim(request)) << query;
  }
}

TEST(SigningTest, DatesMustBeRealAndOfTheDayOfTheCredential) {
  for (const std::string date : {"20130525T000000Z", "20131324T000000Z", "20130524T250000Z", "now", ""}) {
    SignedRequest request = example_get();
    sign(request, example_credentials(), kEmptyHash, kMoment);
    for (HeaderField& header : request.headers) {
      if (header.first == "x-amz-date") header.second = date;
    }
    EXPECT_FALSE(read_claim(request)) << date;
  }
}

TEST(ChunkSignerTest, GivesThePublishedSignatures) {
  SignedRequest request{
      "PUT",
      "/examplebucket/chunkObject.txt",
      "",
      {{"host", "s3.amazonaws.com"},
       {"content-encoding", "aws-chunked"},
       {"content-length", "66824"},
       {"x-amz-date", "20130524T000000Z"},
       {"x-amz-content-sha256", std::string(kStreamingPayload)},
       {"x-amz-decoded-content-length", "66560"},
       {"x-amz-storage-class", "REDUCED_REDUNDANCY"},
       {"authorization",
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
        "SignedHeaders=content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;"
        "x-amz-decoded-content-length;x-amz-storage-class,Signature="
        "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"}}};
  EXPECT_EQ(judged(request), SignatureProblem::kNone);
  const auto claim = read_claim(request);
  ASSERT_TRUE(claim && *claim);
  ChunkSigner signer(**claim, kSecret);
  EXPECT_EQ(signer.next(to_hex(digest(DigestKind::kSha256, std::string(65536, 'a')))),
            "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648");
  EXPECT_EQ(signer.next(to_hex(digest(DigestKind::kSha256, std::string(1024, 'a')))),
            "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497");
  EXPECT_EQ(signer.next(kEmptyHash), "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9");
}

}  // namespace
}  // namespace millrace::net
