// Settings of upstreams: what is taken, what is refused, and what is never shown.
#include "store/upstream_settings.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "store/bucket_json.h"
#include "store/buckets.h"

namespace millrace::store {
namespace {

using Json = nlohmann::ordered_json;

UpstreamSettings some_settings() {
  UpstreamSettings settings;
  settings.url = "s3://bucket/prefix";
  settings.endpoint = "http://127.0.0.1:9000";
  settings.access_key = "the-access-key";
  settings.secret_key = "the-secret-key";
  settings.session_token = "the-session-token";
  settings.writes = UpstreamWrites::kThrough;
  settings.check_seconds = 60;
  settings.pinned = {"val/"};
  return settings;
}

TEST(UpstreamSettingsTest, AreTheSameAfterTheRegistry) {
  const auto again = change_upstream({}, stored_upstream_json(some_settings()));
  ASSERT_TRUE(again && *again);
  EXPECT_EQ(**again, some_settings());
}

TEST(UpstreamSettingsTest, AreTheSameAfterADrive) {
  BucketRecord record;
  record.bucket.name = "train";
  record.bucket.version = 7;
  record.bucket.settings.upstream = some_settings();
  const auto again = decode_bucket(encode_bucket(record));
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->bucket.settings, record.bucket.settings);
}

TEST(UpstreamSettingsTest, ShowNoKeys) {
  BucketSettings settings;
  settings.upstream = some_settings();
  const std::string shown = settings_json(settings).dump();
  EXPECT_EQ(shown.find("the-"), std::string::npos) << shown;
  EXPECT_NE(shown.find("\"signed\":true"), std::string::npos);
}

TEST(UpstreamSettingsTest, KeepWhatAChangeDoesNotName) {
  const auto changed = change_upstream(some_settings(), Json{{"check", "never"}});
  ASSERT_TRUE(changed && *changed);
  EXPECT_EQ((*changed)->secret_key, "the-secret-key");
  EXPECT_FALSE((*changed)->check_seconds);
}

TEST(UpstreamSettingsTest, BeginWithoutKeysAtAnotherAddress) {
  const auto changed = change_upstream(some_settings(), Json{{"url", "s3://other"}});
  ASSERT_TRUE(changed && *changed);
  EXPECT_EQ((*changed)->access_key, "");
  EXPECT_EQ((*changed)->session_token, "");
}

TEST(UpstreamSettingsTest, GoWithNone) {
  for (const Json& none : {Json("none"), Json()}) {
    const auto changed = change_upstream(some_settings(), none);
    ASSERT_TRUE(changed);
    EXPECT_FALSE(*changed);
  }
}

TEST(UpstreamSettingsTest, RefuseWhatIsNotUnderstood) {
  const Json bad[] = {Json(7),
                      Json{{"check", 1}},
                      Json{{"url", 7}},
                      Json{{"url", "a\nb"}},
                      Json{{"url", "s3://b"}, {"check", "often"}},
                      Json{{"url", "s3://b"}, {"write", "back"}},
                      Json{{"url", "s3://b"}, {"pin", "val/"}},
                      Json{{"url", "s3://b"}, {"access_key", "alone"}},
                      Json{{"url", "s3://b"}, {"signed", true}}};
  for (const Json& json : bad) EXPECT_FALSE(change_upstream({}, json)) << json.dump();
}

}  // namespace
}  // namespace millrace::store
