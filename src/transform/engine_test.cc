// Tests runs of the kinds that need no other program than those of the system, and kept results.
#include "transform/engine.h"

#include <gtest/gtest.h>

#include "base/testing/temporary_directory.h"
#include "tar/format.h"
#include "transform/kept_results.h"
#include "transform/sample_blocks.h"

namespace millrace::transform {
namespace {

class TextSource final : public tar::ByteSource {
 public:
  explicit TextSource(std::string_view text) : text_(text) {}
  Result<size_t> read_some(std::span<std::byte> into) override {
    const size_t got = std::min(into.size(), text_.size());
    std::memcpy(into.data(), text_.data(), got);
    text_.remove_prefix(got);
    return got;
  }
  Result<uint64_t> skip(uint64_t bytes) override { return tar::skip_by_reading(*this, bytes); }

 private:
  std::string_view text_;
};

class TextSink final : public tar::ByteSink {
 public:
  Status write(std::string_view bytes) override {
    text += bytes;
    return {};
  }
  Status finish() override { return {}; }
  std::string text;
};

std::string small_tar(int samples) {
  std::string blocks;
  for (int i = 0; i < samples; ++i) {
    const std::string key = fmt::format("{:04}", i);
    const std::vector<MadeField> fields = {{"cls", "7"}, {"txt", key}};
    EXPECT_TRUE(append_sample(blocks, key, fields));
  }
  return blocks + std::string(2 * tar::kBlock, '\0');
}

Result<Outcome> run(Engine& engine, std::string_view description, const std::string& tar, TextSink& out) {
  const Registered registered{"test", 1, parse_description(description).take()};
  TextSource source(tar);
  return engine.run(registered, {"train/a.tar", source, tar.size()}, out);
}

TEST(EngineTest, FieldsAreChosenInOrder) {
  Engine engine({});
  TextSink out;
  const auto outcome = run(engine, R"({"kind":"images","select":"txt=text"})", small_tar(500), out);
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_EQ(outcome->in, 500U);
  EXPECT_EQ(outcome->out, 500U);
  TextSource made(out.text);
  tar::StreamWindow window(made);
  tar::SampleReader reader(window, "made");
  for (int i = 0; i < 500; ++i) {
    const auto sample = reader.next();
    ASSERT_TRUE(sample && *sample != nullptr);
    EXPECT_EQ((*sample)->find("text")->bytes, fmt::format("{:04}", i));
  }
  EXPECT_EQ(engine.read().front().runs.count, 1U);
}

TEST(EngineTest, AFailureNamesTransformObjectAndSample) {
  Engine engine({});
  TextSink out;
  const auto outcome = run(engine, R"({"kind":"images","select":"jpg"})", small_tar(3), out);
  ASSERT_FALSE(outcome);
  EXPECT_TRUE(outcome.error().is(kTransformFailed));
  for (const char* part : {"transform test", "train/a.tar", "sample \"0000\"", "jpg"})
    EXPECT_NE(outcome.error().message().find(part), std::string::npos) << outcome.error().message();
  EXPECT_EQ(engine.failures("test").size(), 1U);
  EXPECT_EQ(engine.read().front().runs.errors, 1U);
}

TEST(EngineTest, SamplesThatFailAreSkippedOrKept) {
  Engine engine({});
  TextSink skipped;
  const auto skip =
      run(engine, R"({"kind":"images","select":"jpg","on_error":"skip"})", small_tar(3), skipped);
  ASSERT_TRUE(skip);
  EXPECT_EQ(skip->failed, 3U);
  EXPECT_EQ(skipped.text.size(), 2 * tar::kBlock);
  TextSink kept;
  const auto keep = run(engine, R"({"kind":"images","select":"jpg","on_error":"keep"})", small_tar(3), kept);
  ASSERT_TRUE(keep);
  EXPECT_EQ(keep->out, 3U);
  EXPECT_EQ(kept.text, small_tar(3));
}

TEST(EngineTest, ACutInputIsAFailure) {
  Engine engine({});
  TextSink out;
  EXPECT_FALSE(run(engine, R"({"kind":"images","select":"txt"})", small_tar(3).substr(0, 1800), out));
}

TEST(EngineTest, AFilterOfTheSystemGivesWhatItRead) {
  Engine engine({});
  TextSink out;
  const std::string tar = small_tar(2000);
  const auto outcome = run(engine, R"({"kind":"filter","command":["cat"]})", tar, out);
  if (!outcome && outcome.error().is(kNoSandbox)) GTEST_SKIP() << outcome.error().message();
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_EQ(out.text, tar);
  EXPECT_EQ(engine.sandboxes(), 0U);
}

TEST(KeptResultsTest, AResultIsFoundAfterItWasCommittedAndAfterARestart) {
  const testing::TemporaryDirectory directory;
  const KeptOptions options{directory.path("kept"), 1000, 100};
  {
    const auto kept = KeptResults::open(options).take();
    {
      const auto dropped = kept->begin("00");
      ASSERT_NE(dropped, nullptr);
      EXPECT_EQ(kept->begin("00"), nullptr);
      EXPECT_TRUE(dropped->write("half"));
    }
    EXPECT_FALSE(kept->find("00"));
    const auto writer = kept->begin("00");
    ASSERT_NE(writer, nullptr);
    EXPECT_TRUE(writer->write("whole"));
    writer->commit();
    ASSERT_TRUE(kept->find("00"));
    EXPECT_EQ(kept->find("00")->size, 5U);
  }
  const auto again = KeptResults::open(options).take();
  EXPECT_EQ(again->read().bytes, 5U);
  EXPECT_TRUE(again->find("00"));
}

TEST(KeptResultsTest, TheOneThatNobodyReadForTheLongestTimeGoesFirst) {
  const testing::TemporaryDirectory directory;
  const auto kept = KeptResults::open({directory.path("kept"), 1000, 100}).take();
  const auto add = [&](const std::string& name, size_t size) {
    const auto writer = kept->begin(name);
    ASSERT_NE(writer, nullptr);
    static_cast<void>(writer->write(std::string(size, 'x')));
    writer->commit();
  };
  add("0a", 400);
  add("0b", 400);
  EXPECT_TRUE(kept->find("0a"));
  add("0c", 400);
  EXPECT_TRUE(kept->find("0a"));
  EXPECT_FALSE(kept->find("0b"));
  EXPECT_TRUE(kept->find("0c"));
  add("0d", 2000);  // larger than all of the room
  EXPECT_FALSE(kept->find("0d"));
  EXPECT_TRUE(kept->find("0c"));
}

TEST(KeptResultsTest, NothingIsKeptOnADriveThatIsFullEnough) {
  const testing::TemporaryDirectory directory;
  const auto kept = KeptResults::open({directory.path("kept"), 1000, 0}).take();
  EXPECT_EQ(kept->begin("0a"), nullptr);
}

}  // namespace
}  // namespace millrace::transform
