// Writes to buckets with a quota, on a real store, and what several nodes may write at once.
#include "store/quotas.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "store/quota_objects.h"
#include "store/reasons.h"
#include "store/testing/store_fixture.h"

namespace millrace::store {
namespace {

using testing::finish;
using testing::some_bytes;

class QuotasTest : public ::testing::Test, protected testing::StoreFixture {
 protected:
  QuotasTest() {
    open();
    objects_ = make_objects();
  }
  ~QuotasTest() override { objects_->stop(); }

  std::unique_ptr<QuotaObjects> make_objects() {
    return std::make_unique<QuotaObjects>(
        store_->objects(),
        Quotas::Surroundings{[this] { return nodes_.load(); }, [this] { return now_us_.load(); }});
  }
  void limit(Quota quota) {
    BucketSettings settings;
    settings.quota = quota;
    ASSERT_TRUE(store_->change_bucket("data", settings));
  }
  std::shared_ptr<const Bucket> bucket() { return store_->find_bucket("data"); }

  enum class Said : uint8_t { kSize, kNothing };
  static Status put(Objects& objects, const std::string& key, size_t size, Said said = Said::kSize) {
    PutOptions options;
    options.bucket = "data";
    options.key = key;
    if (said == Said::kSize) options.size = size;
    const auto writer = MR_TRY(objects.put(std::move(options)));
    MR_TRY(fill(*writer, some_bytes(size, 1)));
    MR_TRY(finish(*writer));
    return {};
  }
  Status put(const std::string& key, size_t size, Said said = Said::kSize) {
    return put(*objects_, key, size, said);
  }
  Status remove(const std::string& key) {
    return wait_for<void>([&](Done<void> done) { objects_->remove("data", key, {}, std::move(done)); });
  }
  static void expect_refused(const Status& status) {
    ASSERT_FALSE(status);
    EXPECT_TRUE(status.error().is(kQuotaExceeded)) << status.error().message();
    EXPECT_EQ(status.error().code(), Code::kNoSpace);
  }
  // As the objects list it.
  Use listed() {
    Use use;
    const auto page =
        wait_for<ListPage>([&](Done<ListPage> done) { objects_->list("data", {}, std::move(done)); });
    for (const ListEntry& entry : page->entries) use = {use.bytes + entry.size, use.objects + 1};
    return use;
  }

  std::atomic<size_t> nodes_ = 1;
  std::atomic<uint64_t> now_us_ = 1'000'000;
  std::unique_ptr<QuotaObjects> objects_;
};

TEST_F(QuotasTest, WritesAreTakenUpToTheBytesAndNotBeyond) {
  limit({.bytes = 100'000});
  EXPECT_TRUE(put("a", 40'000));
  EXPECT_TRUE(put("b", 60'000, Said::kNothing));
  expect_refused(put("c", 1));
  expect_refused(put("c", 1, Said::kNothing));
  expect_refused(put("d", 100'001));
  EXPECT_TRUE(put("empty", 0));
  EXPECT_EQ(listed(), (Use{100'000, 3}));
  EXPECT_EQ(objects_->quotas().find_use(*bucket()), (Use{100'000, 3}));
}

TEST_F(QuotasTest, WritesAreTakenUpToTheNumberOfObjects) {
  limit({.objects = 3});
  for (const char* key : {"a", "b", "c"}) EXPECT_TRUE(put(key, 10));
  expect_refused(put("d", 10));
  EXPECT_GE(objects_->quotas().refused(), 1U);
  // One that is there may be replaced, by a larger one, too.
  EXPECT_TRUE(put("b", 50'000));
  expect_refused(put("d", 0));
  EXPECT_TRUE(remove("a"));
  EXPECT_TRUE(put("d", 10));
  EXPECT_EQ(listed().objects, 3U);
}

TEST_F(QuotasTest, WhatIsRemovedOrReplacedMakesRoom) {
  limit({.bytes = 100'000});
  EXPECT_TRUE(put("a", 100'000));
  for (size_t turn = 0; turn < 3; ++turn) {
    EXPECT_TRUE(put("a", 100'000)) << turn;
    expect_refused(put("b", 10));
    EXPECT_TRUE(put("a", 90'000));
    EXPECT_TRUE(put("b", 10'000));
    expect_refused(put("a", 90'001));
    EXPECT_TRUE(remove("b"));
  }
  EXPECT_EQ(listed(), (Use{90'000, 1}));
}

TEST_F(QuotasTest, ABucketAboveItsNewQuotaTakesOnlySmallerObjectsAndRemovals) {
  EXPECT_TRUE(put("a", 50'000));
  EXPECT_TRUE(put("b", 50'000));
  limit({.bytes = 60'000});
  expect_refused(put("c", 10));
  EXPECT_TRUE(put("a", 40'000));
  expect_refused(put("a", 45'000));
  EXPECT_TRUE(remove("b"));
  EXPECT_TRUE(put("a", 45'000));
  limit({});
  EXPECT_TRUE(put("c", 1 << 20));
}

TEST_F(QuotasTest, AWriteThatFailsGivesItsRoomBack) {
  limit({.bytes = 100'000});
  EXPECT_TRUE(put("a", 10));
  for (size_t turn = 0; turn < 5; ++turn) {
    PutOptions options;
    options.bucket = "data";
    options.key = "b";
    options.size = 90'000;
    const auto writer = objects_->put(std::move(options)).take();
    ASSERT_TRUE(fill(*writer, some_bytes(50'000, 2)));
  }
  EXPECT_TRUE(put("b", 90'000));
}

TEST_F(QuotasTest, OfManyAtOnceOnlyAsManyAreTakenAsThereIsRoomFor) {
  limit({.bytes = 1'000'000, .objects = 12});
  std::vector<std::thread> threads;
  std::atomic<size_t> taken = 0;
  for (size_t thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (size_t i = 0; i < 4; ++i) {
        if (put(fmt::format("t{}.{}", thread, i), 1000)) ++taken;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(taken, 12U);
  // Whoever was refused while others wrote may come again.
  for (int i = 0; put(fmt::format("last{}", i), 1000); ++i) ASSERT_LT(i, 12);
  EXPECT_EQ(listed().objects, 12U);
}

TEST_F(QuotasTest, AnUploadInPartsCountsOnceItIsCompleted) {
  limit({.bytes = 12 << 20});
  const auto upload = [&](const std::string& key, size_t parts) -> Status {
    PutOptions options;
    options.bucket = "data";
    options.key = key;
    const std::string id = MR_TRY(wait_for<std::string>(
        [&](Done<std::string> done) { objects_->create_upload(options, std::move(done)); }));
    Completion completion{{"data", key, id}, {}, {}, {}};
    for (unsigned number = 1; number <= parts; ++number) {
      const auto writer = MR_TRY(objects_->put_part({completion.name, number, size_t{5} << 20}));
      MR_TRY(fill(*writer, some_bytes(5 << 20, number)));
      const auto part = MR_TRY(finish(*writer));
      completion.parts.push_back({number, part->record().etag});
    }
    MR_TRY(wait_for<ObjectPointer>(
        [&](Done<ObjectPointer> done) { objects_->complete_upload(completion, std::move(done)); }));
    return {};
  };
  EXPECT_TRUE(upload("a", 2));
  expect_refused(upload("b", 1));
  expect_refused(upload("a", 3));
  EXPECT_TRUE(remove("a"));
  EXPECT_TRUE(upload("b", 2));
}

TEST_F(QuotasTest, EachOfSeveralNodesTakesItsShareAndCountsBeforeItTakesMore) {
  nodes_ = 2;
  limit({.bytes = 100'000});
  const auto other = make_objects();
  EXPECT_TRUE(put("a", 10'000));
  EXPECT_TRUE(put(*other, "b", 10'000));
  // Together they know of everything once there is little room.
  size_t taken = 2;
  for (size_t i = 0; i < 20; ++i) {
    if (put(*(i % 3 == 0 ? objects_ : other), fmt::format("c{}", i), 10'000)) ++taken;
  }
  EXPECT_GE(taken, 10U);
  // At worst by the share that one of them had left of its last count.
  EXPECT_LE(listed().bytes, 150'000U);
  expect_refused(put("last", 10'000));
  now_us_ += Quotas::kShareUs + 1;
  expect_refused(put(*other, "last", 10'000));
  other->stop();
}

TEST_F(QuotasTest, ABucketThatIsMadeAgainIsCountedAgain) {
  limit({.objects = 1});
  EXPECT_TRUE(put("a", 10));
  expect_refused(put("b", 10));
  EXPECT_TRUE(remove("a"));
  ASSERT_TRUE(store_->remove_bucket("data"));
  ASSERT_TRUE(store_->create_bucket("data", {.quota = {0, 2}}));
  EXPECT_TRUE(put("a", 10));
  EXPECT_TRUE(put("b", 10));
  expect_refused(put("c", 10));
}

TEST_F(QuotasTest, TheQuotaIsThereAfterARestart) {
  limit({.bytes = 20, .objects = 2});
  objects_->stop();
  objects_.reset();
  open();
  EXPECT_EQ(bucket()->settings.quota, (Quota{20, 2}));
  objects_ = make_objects();
  EXPECT_TRUE(put("a", 10));
  expect_refused(put("b", 11));
}

}  // namespace
}  // namespace millrace::store
