// Tests that addresses give the right stores, profiles the right keys, globs the right objects, and sizes the
// right parts.
#include "transfer/stores.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "base/testing/temporary_directory.h"

#include "transfer/select.h"
#include "transfer/upload.h"

namespace millrace::transfer {
namespace {

TEST(StoresTest, AddressesLeadToBucketsAndKeys) {
  Settings settings;
  settings.endpoint = "http://store:9400";
  Stores stores(settings);
  const auto object = stores.find("mr://train/a b+c.tar");
  ASSERT_TRUE(object) << object.error().message();
  EXPECT_EQ(object->bucket, "train");
  EXPECT_EQ(object->key, "a b+c.tar");
  EXPECT_EQ(object->url.text(), "http://store:9400/train/a%20b%2Bc.tar");
  EXPECT_EQ(object->text(), "mr://train/a b+c.tar");

  const auto http = stores.find("http://other:1234/train/a%20b.tar?versionId=1");
  ASSERT_TRUE(http);
  EXPECT_EQ(http->bucket, "train");
  EXPECT_EQ(http->key, "a b.tar");
  EXPECT_EQ(http->url.query, "versionId=1");
  EXPECT_EQ(http->with_key("x").url.text(), "http://other:1234/train/x");
  EXPECT_NE(http->store, object->store);
  EXPECT_EQ(stores.find("mr://val/x")->store, object->store);
}

TEST(StoresTest, AmazonGetsTheBucketInItsHostName) {
  Settings settings;
  settings.aws_region = "eu-west-1";
  Stores stores(settings);
  EXPECT_EQ(stores.find("s3://train/a")->url.text(), "https://train.s3.eu-west-1.amazonaws.com/a");
  settings.aws_endpoint = "http://minio:9000";
  Stores other(settings);
  EXPECT_EQ(other.find("s3://train/a")->url.text(), "http://minio:9000/train/a");
}

TEST(StoresTest, PresignedAddressesAreNotSignedAgain) {
  Settings settings;
  settings.credentials = net::Credentials{"a", "b", "", "us-east-1"};
  Stores stores(settings);
  EXPECT_TRUE(stores.find("http://h/b/k")->store->client().options().credentials);
  EXPECT_FALSE(stores.find("http://h/b/k?X-Amz-Signature=0")->store->client().options().credentials);
}

TEST(StoresTest, ABadAddressIsAnError) {
  Settings settings;
  settings.endpoint = "nonsense";
  Stores stores(settings);
  EXPECT_FALSE(stores.find("mr://train/a"));
  EXPECT_FALSE(stores.find("train/a"));
  EXPECT_FALSE(stores.find("http://h/%zz"));
}

TEST(ProfileTest, TakesTheNamedProfileOnly) {
  const std::string text =
      "[default]\naws_access_key_id = A\naws_secret_access_key=B\n# note\n[other]\r\naws_access_key_id = "
      "C\r\n"
      "aws_secret_access_key = D\r\naws_session_token = E\r\n[half]\naws_access_key_id = F\n";
  EXPECT_EQ(read_profile(text, "default"),
            (Profile{{"aws_access_key_id", "A"}, {"aws_secret_access_key", "B"}}));
  EXPECT_EQ(read_profile(text, "other").at("aws_session_token"), "E");
  EXPECT_EQ(read_profile(text, "half").size(), 1U);
  EXPECT_TRUE(read_profile(text, "none").empty());
  EXPECT_TRUE(read_profile("", "default").empty());
}

TEST(ProfileTest, KeysRegionAndEndpointComeFromBothFilesOfAmazonsTools) {
  const millrace::testing::TemporaryDirectory directory;
  const std::string keys = directory.path("credentials");
  const std::string config = directory.path("config");
  ASSERT_TRUE(write_file_atomically(keys, "[work]\naws_access_key_id=A\naws_secret_access_key=B\n"));
  ASSERT_TRUE(write_file_atomically(
      config, "[default]\nregion=no\n[profile work]\nregion = eu-west-1\nendpoint_url = http://h:9\n"));
  const std::map<std::string, std::string> variables = {
      {"AWS_SHARED_CREDENTIALS_FILE", keys}, {"AWS_CONFIG_FILE", config}, {"AWS_PROFILE", "work"}};
  for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"})
    ::unsetenv(name);
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  const auto settings = read_settings();
  for (const auto& [name, value] : variables) ::unsetenv(name.c_str());
  ASSERT_TRUE(settings.has_value());
  EXPECT_EQ(settings->aws_credentials->secret_key, "B");
  EXPECT_EQ(settings->aws_region, "eu-west-1");
  EXPECT_EQ(settings->aws_endpoint, "http://h:9");
}

TEST(SelectTest, GlobsDoNotPassSlashes) {
  EXPECT_TRUE(matches_glob("train/a-01.tar", "train/a-*.tar"));
  EXPECT_FALSE(matches_glob("train/x/a.tar", "train/*.tar"));
  EXPECT_TRUE(matches_glob("a-7.tar", "a-[0-9].tar"));
}

TEST(SelectTest, KeysThatLeaveTheDirectoryAreRefused) {
  for (const std::string key : {"", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", ".", "a/."})
    EXPECT_FALSE(check_relative(key)) << key;
  EXPECT_FALSE(check_relative(std::string_view("a\0b", 3)));
  for (const std::string key : {"a", "a/b.tar", "..a/b..", "a b"}) EXPECT_TRUE(check_relative(key)) << key;
}

TEST(UploadTest, PartsGrowWithTheObject) {
  EXPECT_EQ(part_bytes_for(100), kPartBytes);
  EXPECT_EQ(part_bytes_for(kPartBytes * kMostParts), kPartBytes);
  for (const uint64_t size : {uint64_t{1} << 40, uint64_t{5} << 40}) {
    const uint64_t part = part_bytes_for(size);
    EXPECT_LE((size + part - 1) / part, kMostParts);
    EXPECT_EQ(part % (1 << 20), 0U);
  }
}

}  // namespace
}  // namespace millrace::transfer
