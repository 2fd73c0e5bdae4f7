// What goes when drives fill up, and what never does.
#include "upstream/eviction.h"

#include <gtest/gtest.h>

#include "store/testing/store_fixture.h"

namespace millrace::upstream {
namespace {

using namespace store::testing;  // NOLINT: the fixture's verbs

class EvictionTest : public ::testing::Test, protected StoreFixture {
 protected:
  EvictionTest() {
    open();
    store::BucketSettings settings;
    settings.upstream.emplace();
    settings.upstream->url = "http://127.0.0.1:1/";
    settings.upstream->pinned = {"pinned/"};
    EXPECT_TRUE(store_->create_bucket("cache", settings));
  }

  void put_copy(const std::string& key) {
    store::PutOptions options;
    options.bucket = "cache";
    options.key = key;
    options.headers.emplace_back(store::kUpstreamVersion, "\"v\"");
    EXPECT_TRUE(put(*store_, std::move(options), std::string(60, 'x')));
  }
  std::vector<std::string> keys() {
    std::vector<std::string> all;
    const auto page = store_->list("cache", {});
    for (const store::ListEntry& entry : page->entries) all.push_back(entry.key);
    return all;
  }
  // One drive of 1000 bytes of which so many are free.
  EvictionCounts run(uint64_t free_bytes) {
    EvictionOptions options;
    options.drives = [free_bytes] { return std::vector<DriveFill>{{1000, free_bytes}}; };
    Eviction eviction({store_->objects(), reads_, log_}, std::move(options));
    eviction.run();
    return eviction.counts();
  }

  ReadTimes reads_;
};

TEST_F(EvictionTest, RemovesNothingBelowTheHighMark) {
  put_copy("a");
  EXPECT_EQ(run(101).objects, 0u);
  EXPECT_EQ(keys(), std::vector<std::string>{"a"});
}

TEST_F(EvictionTest, RemovesUntilTheLowMark) {
  for (const char* key : {"a", "b", "c", "d"}) put_copy(key);
  // 950 are used, 850 are wanted: two objects of 60.
  const EvictionCounts counts = run(50);
  EXPECT_EQ(counts.objects, 2u);
  EXPECT_EQ(counts.bytes, 120u);
  EXPECT_EQ(keys(), (std::vector<std::string>{"c", "d"}));
}

TEST_F(EvictionTest, LeavesWhatIsPinnedOrNoUpstreamHas) {
  put_copy("a");
  put_copy("pinned/b");
  ASSERT_TRUE(put(*store_, "cache", "own", "nobody else has this"));
  ASSERT_TRUE(put(*store_, "data", "other", "another bucket"));
  EXPECT_EQ(run(0).objects, 1u);
  EXPECT_EQ(keys(), (std::vector<std::string>{"own", "pinned/b"}));
  EXPECT_TRUE(get(*store_, "data", "other"));
}

TEST(ReadTimesTest, KnowWhatWasReadAndWhatWasNot) {
  ReadTimes reads;
  EXPECT_EQ(reads.seconds_ago("bucket", "key"), UINT32_MAX);
  reads.note("bucket", "key");
  EXPECT_LE(reads.seconds_ago("bucket", "key"), 1u);
  EXPECT_EQ(reads.seconds_ago("bucket", "other"), UINT32_MAX);
}

}  // namespace
}  // namespace millrace::upstream
