// Buckets in a registry: closed, opened again, removed and made again.
#include "cluster/cluster_buckets.h"

#include <gtest/gtest.h>

#include "base/testing/temporary_directory.h"
#include "cluster/files_registry.h"
#include "cluster/map.h"
#include "store/reasons.h"

namespace millrace::cluster {
namespace {

class ClusterBucketsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(registry_->swap("map", 0, encode_map(Map("c", 4, 4, {})), LeaseId::kNone).take().has_value());
    ASSERT_TRUE(buckets_.create("b", {}));
  }

  const testing::TemporaryDirectory directory_;
  const std::unique_ptr<FilesRegistry> registry_ = FilesRegistry::open(directory_.path("registry")).take();
  ClusterBuckets buckets_{*registry_};
};

TEST_F(ClusterBucketsTest, OneThatIsMadeAgainBeginsInALaterEpoch) {
  EXPECT_EQ(buckets_.find("b")->settings.redundancy.since, 4u);
  ASSERT_TRUE(buckets_.remove("b", buckets_.close("b").take()));
  EXPECT_EQ(buckets_.find("b"), nullptr);
  ASSERT_TRUE(buckets_.create("b", {}));
  EXPECT_EQ(buckets_.find("b")->settings.redundancy.since, 5u);
  ASSERT_TRUE(buckets_.create("other", {}));
  EXPECT_EQ(buckets_.find("other")->settings.redundancy.since, 5u);
}

TEST_F(ClusterBucketsTest, OneThatWasOpenSinceIsNotRemoved) {
  const uint64_t closed = buckets_.close("b").take();
  EXPECT_TRUE(buckets_.find("b")->closing);
  EXPECT_EQ(buckets_.close("b").take(), closed) << "a second one who removes it";
  ASSERT_TRUE(buckets_.reopen("b"));
  EXPECT_FALSE(buckets_.find("b")->closing);
  EXPECT_FALSE(buckets_.remove("b", closed));
  const uint64_t again = buckets_.close("b").take();
  EXPECT_FALSE(buckets_.remove("b", closed));
  EXPECT_TRUE(buckets_.remove("b", again));
}

TEST_F(ClusterBucketsTest, MakingOneThatClosesOpensIt) {
  const uint64_t closed = buckets_.close("b").take();
  EXPECT_TRUE(buckets_.create("b", {}).error().is(store::kBucketExists));
  EXPECT_FALSE(buckets_.find("b")->closing);
  EXPECT_FALSE(buckets_.remove("b", closed));
}

}  // namespace
}  // namespace millrace::cluster
