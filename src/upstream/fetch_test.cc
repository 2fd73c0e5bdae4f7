// One fetch with many readers: order, damage, limits.
#include "upstream/fetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <set>

#include "store/reasons.h"
#include "store/testing/store_fixture.h"

namespace millrace::upstream {
namespace {

using namespace store::testing;  // NOLINT: the fixture's verbs
using store::Extent;
using store::ObjectPointer;

constexpr uint64_t kMiB = 1 << 20;

// An upstream with one object. Streams that begin at a closed place wait until it is opened.
class ScriptedSource final : public Source {
 public:
  explicit ScriptedSource(std::string bytes) : bytes_(std::move(bytes)) {}

  Result<std::unique_ptr<Stream>> open(uint64_t offset, uint64_t size) override {
    UniqueLock lock(mutex_);
    opened_.push_back(offset);
    changed_.notify_all();
    changed_.wait(lock, [&]() MR_REQUIRES(mutex_) { return !closed_.contains(offset); });
    if (failing_.contains(offset)) return make_error(Code::kUnavailable, "the test cuts here");
    return std::unique_ptr<Stream>(
        std::make_unique<ScriptedStream>(std::string_view(bytes_).substr(offset, size)));
  }
  Status check_unchanged() override { return {}; }

  void close(uint64_t offset) {
    const MutexLock lock(mutex_);
    closed_.insert(offset);
  }
  void release(uint64_t offset) {
    const MutexLock lock(mutex_);
    closed_.erase(offset);
    changed_.notify_all();
  }
  void fail_at(uint64_t offset) {
    const MutexLock lock(mutex_);
    failing_.insert(offset);
  }
  std::vector<uint64_t> opened() {
    const MutexLock lock(mutex_);
    return opened_;
  }

 private:
  class ScriptedStream final : public Stream {
   public:
    explicit ScriptedStream(std::string_view bytes) : bytes_(bytes) {}
    Result<size_t> read_some(std::span<std::byte> into) override {
      const size_t size = std::min<size_t>({into.size(), bytes_.size(), 100'000});
      std::memcpy(into.data(), bytes_.data(), size);
      bytes_.remove_prefix(size);
      return size;
    }

   private:
    std::string_view bytes_;
  };

  const std::string bytes_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::set<uint64_t> closed_ MR_GUARDED_BY(mutex_);
  std::set<uint64_t> failing_ MR_GUARDED_BY(mutex_);
  std::vector<uint64_t> opened_ MR_GUARDED_BY(mutex_);
};

class FetchTest : public ::testing::Test, protected StoreFixture {
 protected:
  FetchTest() { open(); }

  std::shared_ptr<Fetch> make(const std::string& bytes, Parts parts = Parts::kRanges,
                              std::optional<Checksum> checksum = {}) {
    source_ = std::make_shared<ScriptedSource>(bytes);
    FetchPlan plan;
    plan.size = bytes.size();
    plan.parts = parts;
    plan.checksum = std::move(checksum);
    plan.finish.etag = "the-etag";
    plan.find_winner = [this](store::Done<ObjectPointer> done) {
      store_->objects().get("data", "key", done);
    };
    return std::make_shared<Fetch>(Fetch::Surroundings{workers_, memory_}, std::move(plan), source_);
  }
  Result<std::unique_ptr<store::Writer>> writer(store::Condition condition = {}) {
    store::PutOptions options;
    options.bucket = "data";
    options.key = "key";
    options.condition = std::move(condition);
    return store_->put(std::move(options));
  }
  void start(Fetch& fetch) {
    fetch.start(writer(), [](const auto&) {});
  }
  static Result<ObjectPointer> ended(Fetch& fetch) {
    return store::wait_for<ObjectPointer>(
        [&](store::Done<ObjectPointer> done) { fetch.when_ended(std::move(done)); });
  }
  static Result<std::optional<Extent>> waited(Fetch& fetch, Fetch::Wanted wanted) {
    return store::wait_for<std::optional<Extent>>(
        [&](store::Done<std::optional<Extent>> done) { fetch.wait(wanted, std::move(done)); });
  }

  Workers workers_{8};
  std::shared_ptr<FetchMemory> memory_ = std::make_shared<FetchMemory>(256 * kMiB);
  std::shared_ptr<ScriptedSource> source_;
};

TEST_F(FetchTest, StoresAllBytes) {
  const std::string bytes = some_bytes(37 * kMiB + 5, 1);
  const auto fetch = make(bytes);
  start(*fetch);
  const auto stored = ended(*fetch);
  ASSERT_TRUE(stored) << stored.error().message();
  EXPECT_EQ((*stored)->record().etag, "the-etag");
  EXPECT_TRUE(get(*store_, "data", "key").take() == bytes);
}

TEST_F(FetchTest, StoresAnEmptyObject) {
  const auto fetch = make("");
  start(*fetch);
  ASSERT_TRUE(ended(*fetch));
  EXPECT_EQ(get(*store_, "data", "key").take(), "");
}

TEST_F(FetchTest, StoresFromAnUpstreamWithoutRangesInOneStream) {
  const std::string bytes = some_bytes(20 * kMiB, 2);
  const auto fetch = make(bytes, Parts::kNone);
  start(*fetch);
  ASSERT_TRUE(ended(*fetch));
  EXPECT_EQ(source_->opened(), std::vector<uint64_t>{0});
  EXPECT_TRUE(get(*store_, "data", "key").take() == bytes);
}

TEST_F(FetchTest, GivesBytesWhileTheRestIsStillToCome) {
  const std::string bytes = some_bytes(20 * kMiB, 3);
  const auto fetch = make(bytes);
  source_->close(Fetch::kStretch);
  start(*fetch);
  const auto first = waited(*fetch, {0, bytes.size(), true});
  ASSERT_TRUE(first && *first);
  EXPECT_EQ((*first)->bytes(), std::string_view(bytes).substr(0, (*first)->size));
  EXPECT_EQ(fetch->stored(), nullptr);
  source_->release(Fetch::kStretch);
  EXPECT_TRUE(ended(*fetch));
}

TEST_F(FetchTest, FetchesWhatSomebodyWaitsForBeforeItsTurn) {
  const std::string bytes = some_bytes(200 * kMiB, 4);
  const auto fetch = make(bytes);
  source_->close(0);
  start(*fetch);
  const uint64_t far = 180 * kMiB + 17;
  const auto extent = waited(*fetch, {far, 100, false});
  ASSERT_TRUE(extent && *extent);
  EXPECT_EQ((*extent)->bytes(), std::string_view(bytes).substr(far, (*extent)->size));
  source_->release(0);
  ASSERT_TRUE(ended(*fetch));
  EXPECT_TRUE(get(*store_, "data", "key").take() == bytes);
}

TEST_F(FetchTest, AsksForNoByteTwice) {
  const auto fetch = make(some_bytes(64 * kMiB, 5));
  start(*fetch);
  ASSERT_TRUE(ended(*fetch));
  const std::vector<uint64_t> opened = source_->opened();
  EXPECT_EQ(std::set<uint64_t>(opened.begin(), opened.end()).size(), opened.size());
  EXPECT_EQ(opened.size(), 8u);
}

TEST_F(FetchTest, StoresNothingWhoseChecksumIsWrong) {
  const std::string bytes = some_bytes(3 * kMiB, 6);
  Checksum other{net::DigestKind::kMd5, net::digest(net::DigestKind::kMd5, "other"), "etag"};
  const auto fetch = make(bytes, Parts::kRanges, other);
  start(*fetch);
  const auto stored = ended(*fetch);
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().code(), Code::kCorrupt);
  EXPECT_EQ(get(*store_, "data", "key").error().code(), Code::kNotFound);
  // A reader of the whole object has not got its end.
  EXPECT_FALSE(waited(*fetch, {2 * kMiB, kMiB, true}));
}

TEST_F(FetchTest, TellsAllWhoWaitThatTheUpstreamFailed) {
  const auto fetch = make(some_bytes(20 * kMiB, 7));
  source_->close(0);
  source_->fail_at(0);
  start(*fetch);
  std::vector<std::future<Result<std::optional<Extent>>>> readers;
  for (uint64_t reader = 0; reader < 5; ++reader) {
    readers.push_back(store::ask_for<std::optional<Extent>>(
        [&](store::Done<std::optional<Extent>> done) { fetch->wait({reader, 10, false}, std::move(done)); }));
  }
  source_->release(0);
  for (auto& reader : readers) EXPECT_FALSE(reader.get());
  EXPECT_FALSE(ended(*fetch));
  EXPECT_EQ(get(*store_, "data", "key").error().code(), Code::kNotFound);
}

TEST_F(FetchTest, StaysInsideItsMemory) {
  const std::string bytes = some_bytes(150 * kMiB, 8);
  memory_ = std::make_shared<FetchMemory>(16 * kMiB);
  const auto fetch = make(bytes);
  start(*fetch);
  uint64_t most = 0;
  for (uint64_t offset = 0; offset < bytes.size();) {
    auto extent = waited(*fetch, {offset, bytes.size() - offset, false});
    ASSERT_TRUE(extent) << extent.error().message();
    most = std::max(most, memory_->used());
    if (!*extent) break;
    ASSERT_TRUE((*extent)->bytes() == std::string_view(bytes).substr(offset, (*extent)->size));
    offset += (*extent)->size;
  }
  ASSERT_TRUE(ended(*fetch));
  EXPECT_LE(most, 16 * kMiB + Fetch::kStretch + 2 * kFetchBlock);
  EXPECT_TRUE(get(*store_, "data", "key").take() == bytes);
}

TEST_F(FetchTest, GivesBytesWithoutStoringThemWhereNoDriveHasRoom) {
  const std::string bytes = some_bytes(30 * kMiB, 9);
  const auto fetch = make(bytes);
  fetch->start(make_error(Code::kNoSpace, "full"), [](const auto&) {});
  std::string read;
  while (read.size() < bytes.size()) {
    auto extent = waited(*fetch, {read.size(), bytes.size() - read.size(), read.empty()});
    ASSERT_TRUE(extent && *extent);
    read += (*extent)->bytes();
  }
  EXPECT_TRUE(read == bytes);
  EXPECT_EQ(get(*store_, "data", "key").error().code(), Code::kNotFound);
}

TEST_F(FetchTest, TakesTheObjectThatAnotherNodeStoredMeanwhile) {
  const std::string bytes = some_bytes(2 * kMiB, 10);
  store::Condition absent;
  absent.only_if_absent = true;
  const auto fetch = make(bytes);
  auto target = writer(absent);
  auto other = writer();
  ASSERT_TRUE(store::fill(**other, bytes));
  ASSERT_TRUE(finish(**other, {"the-etag", {}}));
  fetch->start(std::move(target), [](const auto&) {});
  EXPECT_TRUE(ended(*fetch));
}

TEST_F(FetchTest, FailsWhereSomethingElseWasStoredMeanwhile) {
  store::Condition absent;
  absent.only_if_absent = true;
  const auto fetch = make(some_bytes(2 * kMiB, 11));
  auto target = writer(absent);
  ASSERT_TRUE(put(*store_, "data", "key", "written by a client"));
  fetch->start(std::move(target), [](const auto&) {});
  const auto stored = ended(*fetch);
  ASSERT_FALSE(stored);
  EXPECT_TRUE(stored.error().is(store::kUpstreamChanged));
  EXPECT_EQ(get(*store_, "data", "key").take(), "written by a client");
}

TEST_F(FetchTest, AnswersThoseWhoComeWhenItHasFailed) {
  const auto fetch = make(some_bytes(kMiB, 12));
  fetch->fail(make_error(Code::kCancelled, "stopped"));
  start(*fetch);
  EXPECT_FALSE(waited(*fetch, {0, 10, false}));
  EXPECT_FALSE(ended(*fetch));
}

}  // namespace
}  // namespace millrace::upstream
