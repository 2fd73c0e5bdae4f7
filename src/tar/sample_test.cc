// SampleReader: samples with their bytes in place, the same over a mapping and over streams of any step.
#include "tar/sample.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/hash.h"
#include "base/random.h"
#include "tar/testing/archive.h"

namespace millrace::tar {
namespace {

using namespace testing;

struct SeenSample {
  std::string key;
  std::vector<std::pair<std::string, std::string>> fields;
  uint64_t offset = 0;
  bool copyable = true;
  bool operator==(const SeenSample&) const = default;
};

struct Samples {
  std::vector<SeenSample> samples;
  std::vector<std::string> loose;
  uint64_t loose_members = 0;
  std::optional<Error> error;
};

Samples read_samples(Window& window, std::string_view archive, ReadOptions options) {
  SampleReader reader(window, "test.tar", options);
  Samples all;
  reader.on_loose([&](std::string_view blocks) {
    all.loose.emplace_back(blocks);
    return Status();
  });
  while (true) {
    auto sample = reader.next();
    if (!sample) {
      all.error = sample.take_error();
      break;
    }
    if (*sample == nullptr) break;
    const Sample& seen = **sample;
    EXPECT_EQ(seen.ordinal, all.samples.size());
    EXPECT_EQ(seen.key_hash, hash64(seen.key));
    EXPECT_EQ(seen.blocks, archive.substr(seen.offset, seen.blocks.size()));
    all.samples.push_back({std::string(seen.key), {}, seen.offset, seen.copyable});
    for (const Field& field : seen.fields) {
      all.samples.back().fields.emplace_back(field.field, field.bytes);
      EXPECT_EQ(field.bytes, archive.substr(field.data_offset, field.bytes.size()));
      if (field.blocks.empty()) continue;
      EXPECT_NE(seen.blocks.find(field.blocks), std::string_view::npos);
      const Outcome alone = read_mapped(std::string(field.blocks) + end_blocks());
      EXPECT_FALSE(alone.error);
      EXPECT_EQ(alone.members.size(), 1u);
    }
  }
  all.loose_members = reader.loose_members();
  return all;
}

Samples read_mapped_samples(const std::string& archive, ReadOptions options = {}) {
  MappedWindow window(archive);
  return read_samples(window, archive, options);
}

Samples read_stream_samples(const std::string& archive, size_t step, ReadOptions options = {},
                            uint64_t most_bytes = StreamWindow::kDefaultMostBytes) {
  StringSource source(archive, step);
  StreamWindow window(source, most_bytes);
  return read_samples(window, archive, options);
}

std::string two_samples() {
  return raw_file("a.jpg", "hello") + raw_file("a.cls", "7") + raw_file("b.jpg", std::string(1000, 'x')) +
         raw_file("b.cls", "8");
}

TEST(SampleReaderTest, GivesSamplesWithTheirFields) {
  const Samples all = read_mapped_samples(two_samples() + end_blocks());
  ASSERT_FALSE(all.error);
  EXPECT_EQ(all.samples,
            (std::vector<SeenSample>{{"a", {{"jpg", "hello"}, {"cls", "7"}}, 0},
                                     {"b", {{"jpg", std::string(1000, 'x')}, {"cls", "8"}}, 2048}}));
}

TEST(SampleReaderTest, GivesTheSameOverAnyStream) {
  const std::string archive =
      two_samples() + raw_file("noext", "loose") + raw_file("c.jpg", "") + end_blocks();
  const Samples mapped = read_mapped_samples(archive);
  for (const size_t step : {1, 100, 512, 1000, 100'000}) {
    const Samples stream = read_stream_samples(archive, step);
    EXPECT_FALSE(stream.error);
    EXPECT_EQ(stream.samples, mapped.samples) << step;
    EXPECT_EQ(stream.loose, mapped.loose) << step;
  }
}

TEST(SampleReaderTest, GivesTheSameForLargeRandomSamplesOverStreams) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string archive;
    for (int sample = 0; sample < 30; ++sample) {
      if (random.below(4) == 0) archive += raw_file("noext", std::string(random.below(5000), 'l'));
      for (const char* field : {"jpg", "json", "cls"}) {
        const size_t size = random.below(random.below(5) == 0 ? 400'000 : 3000);
        archive += raw_file(fmt::format("{:03}.{}", sample, field),
                            std::string(size, static_cast<char>('a' + sample % 26)));
      }
    }
    archive += end_blocks();
    const Samples mapped = read_mapped_samples(archive);
    const Samples stream = read_stream_samples(archive, 1 + random.below(300'000));
    ASSERT_FALSE(stream.error) << stream.error->message();
    EXPECT_EQ(mapped.samples.size(), 30u);
    EXPECT_TRUE(stream.samples == mapped.samples);
    EXPECT_TRUE(stream.loose == mapped.loose);
  }
}

TEST(SampleReaderTest, FindsAFieldByName) {
  const std::string archive = two_samples() + end_blocks();
  MappedWindow window(archive);
  SampleReader reader(window, "test.tar");
  const Sample* sample = reader.next().take();
  ASSERT_NE(sample->find("cls"), nullptr);
  EXPECT_EQ(sample->find("cls")->bytes, "7");
  EXPECT_EQ(sample->find("cls")->name, "a.cls");
  EXPECT_EQ(sample->find("png"), nullptr);
  EXPECT_EQ(sample->find(""), nullptr);
}

TEST(SampleReaderTest, ShowsLooseMembersInOrderWithTheirBlocks) {
  const std::string loose_first = raw_file("README", "read me");
  const std::string loose_inside =
      raw_member({.name = "link.jpg", .type = kTypeSymbolicLink, .link = "a.jpg"});
  const std::string archive = loose_first + raw_file("a.jpg", "1") + loose_inside + raw_file("a.cls", "2") +
                              loose_first + end_blocks();
  for (const Samples& all : {read_mapped_samples(archive), read_stream_samples(archive, 100)}) {
    ASSERT_FALSE(all.error);
    EXPECT_EQ(all.loose, (std::vector<std::string>{loose_first, loose_inside, loose_first}));
    EXPECT_EQ(all.loose_members, 3u);
    ASSERT_EQ(all.samples.size(), 1u);
    EXPECT_FALSE(all.samples[0].copyable);
  }
}

TEST(SampleReaderTest, AnErrorOfTheLooseCallStopsReading) {
  const std::string archive = raw_file("noext", "1") + raw_file("a.jpg", "2") + end_blocks();
  MappedWindow window(archive);
  SampleReader reader(window, "test.tar");
  reader.on_loose([](std::string_view) -> Status { return make_error(Code::kNoSpace, "full"); });
  EXPECT_EQ(reader.next().error().code(), Code::kNoSpace);
}

TEST(SampleReaderTest, ASampleUnderAGlobalHeaderIsNotCopyable) {
  const std::string archive = raw_file("a.jpg", "1") +
                              pax_header(pax_record("linkpath", "x"), kTypePaxGlobal) +
                              raw_file("b.jpg", "2") + end_blocks();
  const Samples all = read_mapped_samples(archive);
  ASSERT_EQ(all.samples.size(), 2u);
  EXPECT_TRUE(all.samples[0].copyable);
  EXPECT_FALSE(all.samples[1].copyable);
}

TEST(SampleReaderTest, FieldsHaveBlocksOnlyWhereTheseMeanTheSameElsewhere) {
  const std::string archive = raw_file("a.jpg", "1") +
                              pax_header(pax_record("linkpath", "x"), kTypePaxGlobal) +
                              raw_file("b.jpg", "2") + end_blocks();
  MappedWindow window(archive);
  SampleReader reader(window, "test.tar");
  EXPECT_EQ(reader.next().take()->fields[0].blocks, archive.substr(0, 1024));
  EXPECT_EQ(reader.next().take()->fields[0].blocks, "");
}

// Every sample of the archive as append_blocks writes it and SampleParser reads it again.
std::vector<SeenSample> copied_samples(const std::string& archive) {
  MappedWindow window(archive);
  SampleReader reader(window, "test.tar");
  SampleParser parser(KeyRule::kFirstDot);
  std::vector<SeenSample> copies;
  while (const Sample* sample = reader.next().take()) {
    std::string blocks;
    EXPECT_TRUE(append_blocks(blocks, *sample));
    EXPECT_EQ(blocks.size() % kBlock, 0u);
    const auto copy = parser.parse(blocks);
    EXPECT_TRUE(copy) << copy.error().message();
    copies.push_back({std::string((*copy)->key), {}, sample->offset, sample->copyable});
    for (const Field& field : (*copy)->fields) copies.back().fields.emplace_back(field.field, field.bytes);
    EXPECT_EQ((*copy)->key_hash, sample->key_hash);
    EXPECT_TRUE((*copy)->copyable);
  }
  return copies;
}

TEST(AppendBlocksTest, SamplesReadBackAsTheyWere) {
  const std::string loose = raw_file("noext", "loose");
  const std::string global = pax_header(pax_record("linkpath", "x"), kTypePaxGlobal);
  for (const std::string& archive :
       {two_samples() + end_blocks(),
        raw_file("a.jpg", "1") + loose + raw_file("a.CLS", std::string(700, 'y')) + raw_file("b.jpg", "") +
            end_blocks(),
        global + raw_file("a.jpg", "1") + loose + raw_file("a.cls", "22") + end_blocks(),
        pax_header(pax_record("path", std::string(300, 'n') + ".jpg")) + raw_file("s", "1") + end_blocks()}) {
    EXPECT_EQ(copied_samples(archive), read_mapped_samples(archive).samples);
  }
}

TEST(AppendBlocksTest, CopiesWithoutWhatLiesBetweenTheFields) {
  const std::string first = raw_file("a.jpg", "1");
  const std::string second = raw_file("a.cls", "2");
  const std::string archive = first + raw_file("noext", "loose") + second + end_blocks();
  MappedWindow window(archive);
  SampleReader reader(window, "test.tar");
  std::string blocks = "before";
  ASSERT_TRUE(append_blocks(blocks, *reader.next().take()));
  EXPECT_EQ(blocks, "before" + first + second);
}

TEST(SampleParserTest, RefusesWhatIsNoSample) {
  SampleParser parser(KeyRule::kFirstDot);
  EXPECT_FALSE(parser.parse(""));
  EXPECT_FALSE(parser.parse("short"));
  EXPECT_FALSE(parser.parse(raw_file("noext", "1")));
  EXPECT_FALSE(parser.parse(end_blocks()));
  EXPECT_FALSE(parser.parse(raw_file("a.jpg", "1") + end_blocks()));
  const std::string blocks = raw_file("a.jpg", "1") + raw_file("a.cls", "2");
  for (size_t size = 1; size < blocks.size(); ++size) {
    EXPECT_EQ(parser.parse(blocks.substr(0, size)).has_value(), size == 1024) << size;
  }
  EXPECT_TRUE(parser.parse(blocks));
}

TEST(SampleReaderTest, ScatteredKeysAreAnErrorOrMarkedAsAsked) {
  const std::string archive =
      raw_file("a.jpg", "1") + raw_file("b.jpg", "2") + raw_file("a.cls", "3") + end_blocks();
  const Samples failed = read_mapped_samples(archive);
  ASSERT_TRUE(failed.error);
  EXPECT_EQ(failed.error->code(), Code::kCorrupt);
  const Samples marked = read_mapped_samples(archive, {Archives::kOne, {KeyRule::kFirstDot, OnFault::kMark}});
  EXPECT_FALSE(marked.error);
  EXPECT_EQ(marked.samples.size(), 3u);
}

TEST(SampleReaderTest, AnArchiveCutAtAnyByteGivesWholeSamplesAndAnError) {
  const std::string archive = two_samples() + end_blocks();
  const Samples whole = read_mapped_samples(archive);
  for (size_t size = 0; size < archive.size(); ++size) {
    SCOPED_TRACE(size);
    const std::string cut = archive.substr(0, size);
    for (const Samples& all : {read_mapped_samples(cut), read_stream_samples(cut, 512)}) {
      ASSERT_TRUE(all.error);
      EXPECT_EQ(all.error->code(), Code::kTruncated);
      EXPECT_TRUE(all.error->message().starts_with("test.tar: ")) << all.error->message();
      ASSERT_LT(all.samples.size(), whole.samples.size());
      for (size_t i = 0; i < all.samples.size(); ++i) EXPECT_EQ(all.samples[i], whole.samples[i]);
    }
  }
}

TEST(SampleReaderTest, DataBehindTheEndIsAnErrorAfterTheLastSample) {
  const std::string archive = two_samples() + end_blocks() + "garbage";
  for (const Samples& all : {read_mapped_samples(archive), read_stream_samples(archive, 512)}) {
    EXPECT_EQ(all.samples.size(), 2u);
    ASSERT_TRUE(all.error);
    EXPECT_EQ(all.error->code(), Code::kCorrupt);
  }
}

TEST(SampleReaderTest, ReadsConcatenatedArchivesWhenAsked) {
  const std::string archive = raw_file("a.jpg", "1") + end_blocks() + raw_file("b.jpg", "2") + end_blocks();
  for (const Samples& all : {read_mapped_samples(archive, {Archives::kConcatenated, {}}),
                             read_stream_samples(archive, 100, {Archives::kConcatenated, {}})}) {
    EXPECT_FALSE(all.error);
    EXPECT_EQ(all.samples.size(), 2u);
  }
}

TEST(SampleReaderTest, ASampleLargerThanTheStreamMayHoldIsAnError) {
  const std::string archive =
      raw_file("a.jpg", "1") + raw_file("b.jpg", std::string(3'000'000, 'x')) + end_blocks();
  const Samples all = read_stream_samples(archive, 4096, {}, 1'000'000);
  ASSERT_TRUE(all.error);
  EXPECT_EQ(all.error->code(), Code::kTooLarge);
  EXPECT_TRUE(all.error->message().starts_with("test.tar: "));
}

TEST(SampleReaderTest, LooseMembersLeaveTheirGlobalHeadersBehind) {
  const std::string loose = raw_file("README", "hello");
  const std::string archive =
      pax_header(pax_record("mtime", "99"), kTypePaxGlobal) + loose + raw_file("a.x", "1") + end_blocks();
  MappedWindow window(archive);
  SampleReader reader(window, "test.tar");
  std::string shown;
  reader.on_loose([&](std::string_view blocks) {
    shown += blocks;
    return Status();
  });
  while (reader.next().take() != nullptr) {
  }
  EXPECT_EQ(shown, loose);
}

}  // namespace
}  // namespace millrace::tar
