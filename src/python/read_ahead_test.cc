// Reading ahead: order, ends and errors; a thread that waits for room, for bytes, or for nobody any more.
#include "python/read_ahead.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>

#include "tar/testing/archive.h"

namespace millrace::python {
namespace {

using tar::testing::end_blocks;
using tar::testing::raw_file;
using tar::testing::StringSource;

constexpr std::chrono::milliseconds kLong{60'000};

std::string archive_of(int samples, size_t bytes) {
  std::string archive;
  for (int number = 0; number < samples; ++number)
    archive += raw_file(fmt::format("{:06}.bin", number), std::string(bytes, 'x'));
  return archive;
}

BatchReader reader_of(std::string archive, BatchOptions options = {}) {
  auto kept = std::make_shared<std::string>(std::move(archive));
  return BatchReader(
      "x.tar",
      [kept] { return make_stream_input(std::make_unique<StringSource>(*kept, 100'000), "x.tar", 1 << 30); },
      std::move(options));
}

struct Taken {
  std::vector<std::string> keys;
  std::optional<Error> error;
};

Taken take_all(ReadAhead& ahead) {
  Taken taken;
  Batch batch;
  while (true) {
    auto got = ahead.next(batch, kLong);
    if (!got) {
      taken.error = got.take_error();
      return taken;
    }
    if (*got == ReadAhead::Got::kEnd) return taken;
    for (const Batch::Sample& sample : batch.samples) taken.keys.emplace_back(batch.text(sample.key));
  }
}

TEST(ReadAheadTest, GivesEverySampleInOrder) {
  for (const uint64_t memory : {uint64_t{1}, uint64_t{1} << 30}) {
    auto ahead = ReadAhead::start(reader_of(archive_of(2000, 1000) + end_blocks()), memory).take();
    const Taken taken = take_all(*ahead);
    ASSERT_FALSE(taken.error);
    ASSERT_EQ(taken.keys.size(), 2000U);
    EXPECT_EQ(taken.keys[1234], "001234");
  }
}

TEST(ReadAheadTest, GivesTheSamplesBeforeAnError) {
  auto ahead = ReadAhead::start(reader_of(archive_of(10, 1000)), 1 << 20).take();
  const Taken taken = take_all(*ahead);
  EXPECT_EQ(taken.keys.size(), 9U);
  ASSERT_TRUE(taken.error);
  EXPECT_EQ(taken.error->code(), Code::kTruncated);
  ASSERT_TRUE(taken.error->place());
  EXPECT_EQ(taken.error->place()->member, "000009.bin");
}

TEST(ReadAheadTest, AnInputThatDoesNotOpenIsAnError) {
  auto ahead = ReadAhead::start(BatchReader("x.tar",
                                            []() -> Result<std::unique_ptr<Input>> {
                                              return make_error(Code::kNotFound, "x.tar is not there");
                                            },
                                            {}),
                                1)
                   .take();
  EXPECT_EQ(take_all(*ahead).error->code(), Code::kNotFound);
}

TEST(ReadAheadTest, StopEndsAThreadThatWaitsForRoom) {
  auto ahead = ReadAhead::start(reader_of(archive_of(5000, 1000) + end_blocks()), 1).take();
  Batch batch;
  ASSERT_TRUE(ahead->next(batch, kLong));
  ahead->stop();
  EXPECT_EQ(ahead->next(batch, kLong).take(), ReadAhead::Got::kEnd);
}

struct Stall {
  std::promise<void> begun;  // somebody waits for bytes
  std::promise<void> go;
  std::promise<void> gone;  // and is no more
};

// Bytes that do not come until they are let go.
class StalledSource final : public tar::ByteSource {
 public:
  explicit StalledSource(Stall& stall) : stall_(stall) {}
  ~StalledSource() override { stall_.gone.set_value(); }
  Result<size_t> read_some(std::span<std::byte>) override {
    stall_.begun.set_value();
    stall_.go.get_future().wait();
    return size_t{0};
  }
  Result<uint64_t> skip(uint64_t) override { return uint64_t{0}; }

 private:
  Stall& stall_;
};

TEST(ReadAheadTest, DoesNotWaitForAnInputThatHangsAndLeavesNothing) {
  Stall stall;
  {
    auto source = std::make_shared<std::unique_ptr<tar::ByteSource>>(std::make_unique<StalledSource>(stall));
    auto ahead =
        ReadAhead::start(
            BatchReader("x.tar", [source] { return make_stream_input(std::move(*source), "x.tar", 1 << 20); },
                        {}),
            1)
            .take();
    stall.begun.get_future().wait();
    Batch batch;
    EXPECT_EQ(ahead->next(batch, std::chrono::milliseconds(1)).take(), ReadAhead::Got::kNotYet);
  }
  stall.go.set_value();
  EXPECT_EQ(stall.gone.get_future().wait_for(kLong), std::future_status::ready);
}

TEST(ReadAheadTest, SaysThatItWasStartedBeforeAFork) {
  auto ahead = ReadAhead::start(reader_of(archive_of(10, 1000) + end_blocks()), 1 << 20).take();
  const pid_t child = ::fork();
  if (child == 0) {
    Batch batch;
    const auto got = ahead->next(batch, kLong);
    ahead.reset();
    ::_exit(!got && got.error().code() == Code::kInvalid ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(take_all(*ahead).keys.size(), 10U);
}

TEST(BatchReaderTest, GivesFilesAsTheyAre) {
  BatchOptions options;
  options.unit = Unit::kFile;
  auto ahead =
      ReadAhead::start(
          reader_of(raw_file("a.b.c", "1") + raw_file("noext", "2") + end_blocks(), std::move(options)), 1)
          .take();
  EXPECT_EQ(take_all(*ahead).keys, (std::vector<std::string>{"a.b.c", "noext"}));
}

TEST(BatchReaderTest, MarksFaultsAndKeepsTheFirstOfTwoFields) {
  BatchOptions options;
  options.read.group.on_fault = tar::OnFault::kMark;
  options.fields = std::unordered_set<std::string>{"x"};
  BatchReader reader = reader_of(raw_file("a.x", "1") + raw_file("a.X", "2") + raw_file("a.y", "3") +
                                     raw_file("b.x", "4") + raw_file("a.x", "5") + end_blocks(),
                                 std::move(options));
  Batch batch;
  while (reader.fill(batch).take()) {
  }
  ASSERT_EQ(batch.samples.size(), 3U);
  EXPECT_EQ(batch.samples[0].fields, 1U);
  EXPECT_EQ(batch.text(batch.fields[0].bytes), "1");
  EXPECT_TRUE(batch.samples[0].fault);
  EXPECT_FALSE(batch.samples[1].fault);
  ASSERT_TRUE(batch.samples[2].fault);
  EXPECT_EQ(batch.faults[*batch.samples[2].fault].place()->member, "a.x");
}

TEST(BatchReaderTest, AnEmptyInputIsCut) {
  Batch batch;
  BatchReader reader = reader_of("");
  EXPECT_EQ(reader.fill(batch).error().code(), Code::kTruncated);
}

}  // namespace
}  // namespace millrace::python
