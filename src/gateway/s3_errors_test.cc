// Reasons and what S3 calls them.
#include "gateway/s3_errors.h"

#include <gtest/gtest.h>

namespace millrace::gateway {
namespace {

TEST(RefusalTest, EveryCodeHasAStatus) {
  const auto status = [](Code code) { return refusal_of(make_error(code, "what happened")).status(); };
  EXPECT_EQ(status(Code::kNotFound), 404);
  EXPECT_EQ(status(Code::kInvalid), 400);
  EXPECT_EQ(status(Code::kDenied), 403);
  EXPECT_EQ(status(Code::kExists), 412);
  EXPECT_EQ(status(Code::kNoSpace), 507);
  EXPECT_EQ(status(Code::kUnavailable), 503);
  EXPECT_EQ(status(Code::kUnsupported), 501);
  EXPECT_EQ(status(Code::kCorrupt), 500);
}

TEST(RefusalTest, TheReasonDecidesTheCode) {
  EXPECT_EQ(refusal_of(store::no_such_bucket("b")).code(), "NoSuchBucket");
  EXPECT_EQ(refusal_of(store::no_such_object("b", "k")).code(), "NoSuchKey");
  EXPECT_EQ(refusal_of(store::no_such_upload("b", "k", "u")).code(), "NoSuchUpload");
  EXPECT_EQ(refusal_of(make_error(store::kBucketExists, "x")).status(), 409);
  EXPECT_EQ(refusal_of(make_error(store::kConditionFailed, "x")).status(), 412);
  EXPECT_EQ(refusal_of(make_error(kKeyTooLong, "x")).code(), "KeyTooLongError");
}

TEST(RefusalTest, WhatACallerAddsToTheMessageDoesNotChangeTheCode) {
  const Error error =
      store::no_such_upload("b", "k", "u").within("completing the upload").with_hint("list them");
  const Refusal refusal = refusal_of(error);
  EXPECT_EQ(refusal.code(), "NoSuchUpload");
  EXPECT_EQ(refusal.status(), 404);
  EXPECT_TRUE(refusal.message.starts_with("completing the upload: ")) << refusal.message;
  EXPECT_EQ(refusal_of(error.copy()).code(), "NoSuchUpload");
}

TEST(RefusalTest, AMessageThatLooksLikeACodeIsOnlyAMessage) {
  EXPECT_EQ(refusal_of(make_error(Code::kIo, "AccessDenied: x")).code(), "InternalError");
}

TEST(RefusalTest, AReasonThatS3DoesNotKnowFallsBackToItsCode) {
  static constexpr Reason kOther{Code::kUnavailable, "other"};
  EXPECT_EQ(refusal_of(make_error(kOther, "x")).code(), "ServiceUnavailable");
}

TEST(RefusalTest, WhatAClientSentIsEscapedInTheAnswer) {
  const Refusal refusal{&store::kNoSuchObject, "no <key>", "try \"ls\""};
  const std::string text = refusal_xml(refusal, "/a<b>&c", "id");
  EXPECT_NE(text.find("<Resource>/a&lt;b&gt;&amp;c</Resource>"), std::string::npos) << text;
  EXPECT_EQ(text.find("<key>"), std::string::npos) << text;
}

}  // namespace
}  // namespace millrace::gateway
