// Slices that come piece by piece: many at once, few buffers, senders that go silent.
#include "cluster/slice_service.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/testing/temporary_directory.h"
#include "cluster/slice_shelf.h"
#include "store/local_store.h"
#include "store/testing/store_fixture.h"
#include "store/waiting.h"

namespace millrace::cluster {
namespace {

using store::testing::some_bytes;

constexpr size_t kBuffers = 4;

class SliceServiceTest : public ::testing::Test {
 protected:
  SliceServiceTest() {
    store::StoreOptions options;
    options.state_directory = directory_.path("state");
    options.write_buffers = kBuffers;
    options.reserve_bytes = 0;
    store_ = store::LocalStore::open(options, log_).take();
    store_->slices().prepare().take();
    drive_ = store_->slices().drives().front().hash;
    service_.emplace(store_->slices(), workers_, Blocks(),
                     [](DriveId, const ObjectName&, const Prepared&, const Done<void>& done) { done({}); });
  }
  ~SliceServiceTest() override {
    workers_.stop();
    service_.reset();
  }

  static std::string write_id(size_t slice) { return fmt::format("{:016}", slice); }
  std::future<Result<Reply>> append(size_t slice, uint64_t offset, std::string bytes) {
    return store::ask_for<Reply>([&](Done<Reply> done) {
      service_->append({drive_, write_id(slice), 0, offset, std::move(bytes)}, std::move(done));
    });
  }
  std::future<Result<Reply>> finish(size_t slice, uint64_t size) {
    FinishRequest request{drive_, {"bucket", write_id(slice)}, spread_of(slice), size};
    return store::ask_for<Reply>(
        [&](Done<Reply> done) { service_->finish(std::move(request), std::move(done)); });
  }
  store::Spread spread_of(size_t slice) const {
    store::Spread spread;
    spread.write_id = write_id(slice);
    spread.holders = {drive_};
    return spread;
  }
  // What the slice holds, compared with its checksums.
  std::string read(size_t slice) {
    const auto object = store_->slices().get(slice_name(write_id(slice), 0, drive_));
    if (!object) return object.error().message();
    store::WaitingReader reader(*object, (*object)->is_inline() ? nullptr : store_->slices().open(*object));
    return reader.read(0, (*object)->record().size).take();
  }
  // All of them are answered, and well.
  static void expect_all(std::vector<std::future<Result<Reply>>>& answers) {
    for (auto& answer : answers) {
      ASSERT_EQ(answer.wait_for(std::chrono::seconds(60)), std::future_status::ready) << "it waits for ever";
      const Result<Reply> reply = answer.get();
      EXPECT_TRUE(reply) << reply.error().message();
    }
    answers.clear();
  }

  const testing::TemporaryDirectory directory_;
  Log log_{LogLevel::kWarn};
  std::unique_ptr<store::LocalStore> store_;
  Workers workers_{1};
  DriveId drive_ = 0;
  std::optional<SliceService> service_;
};

TEST_F(SliceServiceTest, ManyMoreSlicesThanBuffersAreWrittenAtOnce) {
  constexpr size_t kSlices = 20 * kBuffers;
  // Some stay in the index; some end in their first block; some go over its end, in the middle of an append.
  const auto bytes_of = [](size_t slice, size_t piece) {
    constexpr std::array<size_t, 4> kSizes = {5'000, 130'000, 700'001, 1 << 20};
    return some_bytes(kSizes[slice % kSizes.size()], 100 * piece + slice);
  };
  std::vector<std::future<Result<Reply>>> answers;
  std::vector<std::string> written(kSlices);
  for (size_t piece = 0; piece < 3; ++piece) {
    // No slice is finished before all of them have come so far.
    for (size_t slice = 0; slice < kSlices; ++slice) {
      const std::string bytes = bytes_of(slice, piece);
      answers.push_back(append(slice, written[slice].size(), bytes));
      written[slice] += bytes;
    }
    expect_all(answers);
  }
  for (size_t slice = 0; slice < kSlices; ++slice) answers.push_back(finish(slice, written[slice].size()));
  expect_all(answers);
  for (size_t slice = 0; slice < kSlices; ++slice) EXPECT_EQ(read(slice), written[slice]) << slice;
  EXPECT_EQ(service_->incoming(), 0u);
}

TEST_F(SliceServiceTest, AppendsNeedNoneOfTheWorkers) {
  std::promise<void> release;
  ASSERT_TRUE(workers_.submit([held = release.get_future().share()] { held.wait(); }));
  std::vector<std::future<Result<Reply>>> answers;
  for (size_t slice = 0; slice < 3 * kBuffers; ++slice)
    answers.push_back(append(slice, 0, some_bytes(200'000, slice)));
  expect_all(answers);
  for (size_t slice = 0; slice < 3 * kBuffers; ++slice) answers.push_back(finish(slice, 200'000));
  expect_all(answers);
  release.set_value();
}

TEST_F(SliceServiceTest, SlicesThatComeTwiceOrWithAGapAreRefused) {
  EXPECT_TRUE(append(1, 0, "abc").get());
  EXPECT_EQ(append(1, 5, "abc").get().error().code(), Code::kInvalid);
  EXPECT_EQ(finish(1, 5).get().error().code(), Code::kInvalid);
  EXPECT_TRUE(append(1, 3, "de").get());
  EXPECT_TRUE(finish(1, 5).get());
  EXPECT_EQ(finish(1, 5).get().error().code(), Code::kUnavailable);
  EXPECT_EQ(append(1, 5, "abc").get().error().code(), Code::kUnavailable);
  EXPECT_EQ(read(1), "abcde");
}

TEST_F(SliceServiceTest, WhatASilentSenderSentGoesByTime) {
  EXPECT_TRUE(append(1, 0, some_bytes(200'000, 1)).get());
  service_->forget_silent(steady_us());
  EXPECT_EQ(service_->incoming(), 1u);
  service_->forget_silent(steady_us() + SliceService::kPatienceUs + 60'000'000);
  EXPECT_EQ(service_->incoming(), 0u);
  EXPECT_EQ(finish(1, 200'000).get().error().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace millrace::cluster
