// Requests and what they are taken for.
#include "gateway/s3_operations.h"

#include <gtest/gtest.h>

#include "gateway/s3_support.h"

namespace millrace::gateway {
namespace {

struct Request {
  net::RequestHead head;
  std::vector<net::QueryItem> query;

  Request(std::string_view method, std::vector<net::QueryItem> items = {}) : query(std::move(items)) {
    head.method = method;
  }
  Operation asked(Scope scope) const { return resolve(scope, head, query); }
  Right right(Scope scope) const { return row_of(asked(scope)).right; }
  Status checked(Scope scope) const { return check_supported(asked(scope), head, query); }
};

const std::vector<std::string> kMarks = {"delete", "uploads", "uploadId", "tagging", "acl", "partNumber", ""};

TEST(OperationTest, OnlyAPlainBatchIsReadByAPost) {
  const Request batch("POST", {{"batch", ""}});
  EXPECT_EQ(batch.asked(Scope::kBucket), Operation::kGetBatch);
  EXPECT_EQ(batch.right(Scope::kBucket), Right::kRead);
  EXPECT_TRUE(batch.checked(Scope::kBucket));
  for (const char* method : {"PUT", "POST", "DELETE", "PATCH"}) {
    for (const std::string& mark : kMarks) {
      for (const Scope scope : {Scope::kBucket, Scope::kObject}) {
        const Request both(method, {{mark, ""}, {"batch", ""}});
        if (both.asked(scope) == Operation::kGetBatch) continue;
        EXPECT_EQ(both.right(scope), Right::kWrite) << method << " " << mark;
        EXPECT_FALSE(both.checked(scope)) << method << " " << mark;
      }
    }
  }
}

TEST(OperationTest, TheRightFollowsFromTheOperation) {
  EXPECT_EQ(Request("GET").right(Scope::kObject), Right::kRead);
  EXPECT_EQ(Request("HEAD").asked(Scope::kBucket), Operation::kHeadBucket);
  EXPECT_EQ(Request("PUT").right(Scope::kObject), Right::kWrite);
  EXPECT_EQ(Request("DELETE", {{"uploadId", "u"}}).asked(Scope::kObject), Operation::kAbortUpload);
  EXPECT_EQ(Request("PROPFIND").asked(Scope::kObject), Operation::kNone);
  EXPECT_EQ(Request("PROPFIND").right(Scope::kObject), Right::kWrite);
}

TEST(OperationTest, EveryOperationHasCodeAndAMeter) {
  for (size_t i = 0; i < kOperations; ++i) {
    const auto operation = static_cast<Operation>(i);
    const OperationRow& row = row_of(operation);
    EXPECT_EQ(row.operation, operation);
    EXPECT_FALSE(row.meter.empty());
    EXPECT_EQ(row.serve == nullptr, operation <= Operation::kAdministration);
  }
}

TEST(OperationTest, EveryOperationCanBeAskedFor) {
  for (size_t i = static_cast<size_t>(Operation::kAdministration) + 1; i < kOperations; ++i) {
    const OperationRow& row = row_of(static_cast<Operation>(i));
    Request request(row.method);
    if (!row.mark.empty()) request.query.emplace_back(row.mark, "1");
    if (!row.header.empty()) request.head.headers.push_back({row.header, "/a/b"});
    EXPECT_EQ(request.asked(row.scope), row.operation) << row.method << " " << row.mark;
  }
}

TEST(OperationTest, AHeaderMakesAPutACopy) {
  Request put("PUT");
  put.head.headers.push_back({"X-Amz-Copy-Source", "/a/b"});
  EXPECT_EQ(put.asked(Scope::kObject), Operation::kCopyObject);
  put.query = {{"uploadId", "u"}, {"partNumber", "1"}};
  EXPECT_EQ(put.asked(Scope::kObject), Operation::kCopyPart);
  EXPECT_TRUE(put.checked(Scope::kObject));
}

TEST(OperationTest, WhatAWriteDoesNotKnowIsRefused) {
  for (const char* name :
       {"renameObject", "restore", "torrent", "legal-hold", "encryption", "sub", "partNumber"}) {
    EXPECT_EQ(Request("PUT", {{name, ""}}).checked(Scope::kObject).error().code(), Code::kUnsupported)
        << name;
    EXPECT_FALSE(Request("DELETE", {{name, ""}}).checked(Scope::kBucket)) << name;
  }
  EXPECT_FALSE(Request("PUT", {{"X-Amz-Meta-Hoisted", "x"}}).checked(Scope::kObject));
  EXPECT_FALSE(Request("PUT", {{"", "x"}}).checked(Scope::kObject));
  EXPECT_FALSE(Request("DELETE", {{"", ""}}).checked(Scope::kObject));
  EXPECT_FALSE(Request("POST", {{"delete", ""}, {"", "x"}}).checked(Scope::kBucket));
  EXPECT_FALSE(Request("DELETE", {{"versionId", "7"}}).checked(Scope::kObject));
}

TEST(OperationTest, WhatClientsAddToEveryRequestIsTaken) {
  const Request link("PUT", {{"x-id", "PutObject"},
                             {"X-Amz-Algorithm", "AWS4-HMAC-SHA256"},
                             {"X-Amz-SignedHeaders", "host"},
                             {"x-amz-checksum-crc32", "AAAAAA=="}});
  EXPECT_TRUE(link.checked(Scope::kObject));
  EXPECT_TRUE(Request("DELETE", {{"versionId", "null"}}).checked(Scope::kObject));
  EXPECT_TRUE(Request("GET", {{"response-content-type", "a/b"}, {"v", "3"}}).checked(Scope::kObject));
  EXPECT_FALSE(Request("GET", {{"torrent", ""}}).checked(Scope::kObject));
}

TEST(OperationTest, HeadersThatAskForMoreAreRefused) {
  const std::vector<std::pair<net::HeaderView, bool>> cases = {
      {{"x-amz-acl", "private"}, true},
      {{"x-amz-acl", ""}, true},
      {{"x-amz-acl", "public-read"}, false},
      {{"X-Amz-Storage-Class", "STANDARD"}, true},
      {{"X-Amz-Storage-Class", "GLACIER"}, false},
      {{"x-amz-server-side-encryption", "AES256"}, false},
      {{"x-amz-server-side-encryption-customer-key", "k"}, false},
      {{"x-amz-write-offset-bytes", "5"}, false},
      {{"x-amz-rename-source", "/a/b"}, false},
      {{"x-amz-object-lock-mode", "GOVERNANCE"}, false},
      {{"x-amz-website-redirect-location", "/x"}, false},
      {{"x-amz-grant-read", "id=x"}, false},
      {{"x-amz-meta-x-amz-acl", "public-read"}, true},
  };
  for (const auto& [header, good] : cases) {
    Request put("PUT");
    put.head.headers.push_back(header);
    EXPECT_EQ(put.checked(Scope::kObject).has_value(), good) << header.name << ": " << header.value;
  }
}

TEST(OperationTest, ConditionsAndChecksumsThatAreNotUnderstoodAreRefused) {
  struct Case {
    std::string_view method;
    std::vector<net::QueryItem> query;
    net::HeaderView header;
    bool good;
  };
  const Case cases[] = {
      {"PUT", {}, {"If-None-Match", "*"}, true},
      {"PUT", {}, {"If-Match", "\"a\""}, true},
      {"PUT", {}, {"If-Match", "\"a\", \"b\""}, false},
      {"PUT", {}, {"If-Unmodified-Since", "Sun, 15 Nov 2026 22:50:34 GMT"}, false},
      {"PUT", {}, {"If-Nothing-Else", "x"}, false},
      {"DELETE", {}, {"If-Match", "\"a\""}, true},
      {"DELETE", {}, {"If-None-Match", "*"}, false},
      {"DELETE", {}, {"If-Modified-Since", "x"}, false},
      {"DELETE", {}, {"x-amz-if-match-size", "1"}, true},
      {"DELETE", {}, {"x-amz-if-match-last-modified-time", "x"}, true},
      {"DELETE", {}, {"x-amz-if-match-colour", "red"}, false},
      {"DELETE", {{"tagging", ""}}, {"If-Match", "\"a\""}, false},
      {"PUT", {{"tagging", ""}}, {"If-Match", "\"a\""}, false},
      {"PUT", {{"uploadId", "u"}, {"partNumber", "1"}}, {"If-None-Match", "*"}, false},
      {"PUT", {}, {"x-amz-if-match-size", "1"}, false},
      {"GET", {}, {"If-Unmodified-Since", "x"}, true},
      {"GET", {}, {"x-amz-if-match-size", "1"}, false},
      {"PUT", {}, {"x-amz-copy-source-if-match", "a"}, false},
      {"PUT", {}, {"x-amz-checksum-crc32c", "x"}, true},
      {"PUT", {}, {"X-Amz-Checksum-Xxhash64", "x"}, true},
      {"PUT", {}, {"x-amz-checksum-blake3", "x"}, false},
      {"DELETE", {}, {"x-amz-checksum-crc32c", "x"}, false},
      {"PUT", {{"x-amz-checksum-blake3", "x"}}, {"a", "b"}, false},
      {"PUT", {}, {"x-amz-sdk-checksum-algorithm", "CRC32"}, true},
      {"PUT", {}, {"x-amz-sdk-checksum-algorithm", "BLAKE3"}, false},
      {"GET", {}, {"x-amz-checksum-mode", "ENABLED"}, true},
      {"GET", {}, {"x-amz-checksum-mode", "MAYBE"}, false},
      {"PUT", {}, {"x-amz-mp-object-size", "5"}, false},
      {"POST", {{"uploadId", "u"}}, {"x-amz-mp-object-size", "5"}, true},
      {"POST", {{"uploads", ""}}, {"x-amz-checksum-type", "HALF"}, false},
      {"PUT", {}, {"Content-Digest", "sha-256=:x:"}, false},
      {"PUT", {}, {"x-amz-expected-bucket-owner", "millrace"}, true},
      {"PUT", {}, {"x-amz-expected-bucket-owner", "123456789012"}, false},
  };
  for (const Case& one : cases) {
    Request request(one.method, one.query);
    request.head.headers.push_back(one.header);
    EXPECT_EQ(request.checked(Scope::kObject).has_value(), one.good)
        << one.method << " " << one.header.name << ": " << one.header.value;
  }
}

TEST(OperationTest, AtTheRootNoQueryIsPassedOver) {
  for (const char* known : {"prefix", "max-buckets", "continuation-token", "bucket-region", "x-id"})
    EXPECT_TRUE(Request("GET", {{known, ""}}).checked(Scope::kService)) << known;
  for (const char* unknown : {"list-type", "delete", "uploads", "versions", "location", "what"})
    EXPECT_FALSE(Request("GET", {{unknown, ""}}).checked(Scope::kService)) << unknown;
}

}  // namespace
}  // namespace millrace::gateway
