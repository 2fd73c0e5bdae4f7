// Records, groups across shards, combiners, counters, and commands that do not do as they should.
#include "shard/mapreduce.h"

#include <gtest/gtest.h>

#include "base/testing/temporary_directory.h"
#include "shard/sort.h"
#include "shard/stream.h"
#include "shard/writer.h"

namespace millrace::shard {
namespace {

constexpr const char* kPython = R"(
import io, itertools, os, sys, tarfile
def add(out, name, text):
    member = tarfile.TarInfo(name); member.size = len(text); out.addfile(member, io.BytesIO(text))
tar = tarfile.open(fileobj=sys.stdin.buffer, mode="r|")
out = tarfile.open(fileobj=sys.stdout.buffer, mode="w|")
)";

class MapReduceTest : public ::testing::Test {
 protected:
  void SetUp() override { place_.directory = directory_.path(); }

  std::vector<std::string> python(const std::string& body) {
    const std::string path = directory_.path(fmt::format("script{}.py", scripts_++));
    EXPECT_TRUE(write_file_atomically(path, kPython + body + "\nout.close()\n"));
    return {"env", "MILLRACE_COUNTERS=" + directory_.path("counters"), "python3", path};
  }
  std::string input(int shard, int samples) {
    const std::string path = directory_.path(fmt::format("in-{}.tar", shard));
    auto file = ShardFile::create(path, {}).take();
    for (int i = 0; i < samples; ++i) {
      const std::string label = std::to_string((i * 7 + shard) % 5);
      const NewField fields[] = {{"cls", label}};
      EXPECT_TRUE(file->add(fmt::format("{}-{:03}", shard, i), fields));
    }
    EXPECT_TRUE(file->finish());
    return path;
  }
  // Sorted and cut after so many records.
  std::vector<std::string> sorted(const std::vector<std::string>& mapped, uint64_t most) {
    SortOptions options;
    options.by = SortBy::kText;
    options.field = kGroupField;
    options.temporary_directory = directory_.path();
    ShardWriter writer(OutputName::parse(directory_.path("sorted-%02d.tar")).take(), {1'000'000'000, most},
                       {});
    EXPECT_TRUE(sort_samples(mapped, options, [&](const tar::Sample& sample) { return writer.add(sample); }));
    std::vector<std::string> names;
    for (const ShardSummary& one : writer.finish().take()) names.push_back(one.path);
    return names;
  }
  std::map<std::string, std::string> read(const std::vector<std::string>& shards) {
    std::map<std::string, std::string> all;
    InputStream stream(shards, {});
    while (true) {
      const tar::Sample* sample = stream.next().take();
      if (sample == nullptr) return all;
      EXPECT_TRUE(all.emplace(sample->key, sample->fields[0].bytes).second) << sample->key;
    }
  }

  const std::string mapper_ = R"(
for member in tar:
    add(out, "label " + tar.extractfile(member).read().decode() + ".one", b"1")
open(os.environ["MILLRACE_COUNTERS"], "a").write("shards seen 1\n"))";
  const std::string reducer_ = R"(
for key, members in itertools.groupby(tar, lambda one: one.name.rpartition("/")[0]):
    add(out, key + ".one", str(sum(int(tar.extractfile(one).read()) for one in members)).encode()))";

  millrace::testing::TemporaryDirectory directory_;
  MapReducePlace place_;
  int scripts_ = 0;
};

TEST_F(MapReduceTest, CountsGroupsWhereverShardsAreCut) {
  std::vector<std::string> mapped;
  for (int shard = 0; shard < 3; ++shard) {
    mapped.push_back(directory_.path(fmt::format("mapped-{}.tar", shard)));
    const auto report = map_records(
        {python(mapper_), {}, input(shard, 20), mapped.back(), static_cast<uint64_t>(shard)}, place_);
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->records, 20U);
  }
  const std::map<std::string, std::string> wanted = {
      {"label 0", "12"}, {"label 1", "12"}, {"label 2", "12"}, {"label 3", "12"}, {"label 4", "12"}};
  for (const uint64_t most : {1, 5, 12, 13, 1000}) {
    const auto shards = sorted(mapped, most);
    std::vector<std::string> outputs;
    uint64_t groups = 0;
    for (size_t at = 0; at < shards.size(); ++at) {
      outputs.push_back(directory_.path(fmt::format("out-{}.tar", at)));
      const auto report = reduce_groups({python(reducer_), shards, at, outputs.back()}, place_);
      ASSERT_TRUE(report) << report.error().message();
      groups += report->groups;
    }
    EXPECT_EQ(read(outputs), wanted) << most << " records a shard";
    EXPECT_EQ(groups, 5U);
  }
  Counters counters;
  ASSERT_TRUE(add_counters(directory_.path("counters"), counters));
  EXPECT_EQ(counters, (Counters{{"shards seen", 3}}));
}

TEST_F(MapReduceTest, CombinesTheRecordsOfOneMapper) {
  const std::string mapped = directory_.path("mapped.tar");
  const auto report = map_records({python(mapper_), python(reducer_), input(0, 20), mapped, 0}, place_);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->records, 5U);
  const std::string out = directory_.path("out.tar");
  ASSERT_TRUE(reduce_groups({python(reducer_), sorted({mapped}, 100), 0, out}, place_));
  EXPECT_EQ(read({out}).at("label 3"), "4");
}

TEST_F(MapReduceTest, BeginsANewRecordWhereAFieldComesAgain) {
  const std::string body = R"(
for _ in tar: pass
for name in ["k.a", "k.b", "k.a", "k.b", "k.c"]: add(out, name, name.encode()))";
  const std::string mapped = directory_.path("mapped.tar");
  const auto report = map_records({python(body), {}, input(0, 1), mapped, 0}, place_);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->records, 2U);
}

TEST_F(MapReduceTest, SaysHowACommandFailed) {
  const std::string mapped = directory_.path("mapped.tar");
  auto report = map_records({{"/bin/sh", "-c", "exit 3"}, {}, input(0, 1), mapped, 0}, place_);
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message().find("the mapper: /bin/sh failed with exit code 3"), std::string::npos)
      << report.error().message();
  report = map_records({{"/bin/sh", "-c", "echo no tar at all"}, {}, input(0, 1), mapped, 0}, place_);
  ASSERT_FALSE(report);
  EXPECT_FALSE(file_exists(mapped));
}

TEST_F(MapReduceTest, LetsACommandLeaveInputUnread) {
  // More than pipes hold.
  const std::string mapped = directory_.path("mapped.tar");
  const auto report = map_records({python("add(out, 'k.f', b'1')"), {}, input(0, 2000), mapped, 0}, place_);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->records, 1U);
}

TEST_F(MapReduceTest, RefusesCountersThatAreNone) {
  const std::string path = directory_.path("counters");
  for (const char* text : {"cats", "cats many", "cats 1.5\n", " 3\n"}) {
    ASSERT_TRUE(write_file_atomically(path, text));
    Counters counters;
    EXPECT_FALSE(add_counters(path, counters)) << text;
  }
}

}  // namespace
}  // namespace millrace::shard
