// Every fault is found, and repair saves exactly what is whole.
#include "shard/verify.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/testing/temporary_directory.h"
#include "shard/index_file.h"
#include "shard/stream.h"
#include "tar/testing/archive.h"

namespace millrace::shard {
namespace {

using tar::testing::end_blocks;
using tar::testing::raw_file;
using tar::testing::raw_member;
using Texts = std::vector<std::string>;

class VerifyTest : public ::testing::Test {
 protected:
  Verdict verdict(const std::string& bytes, const VerifyOptions& options = {}) {
    EXPECT_TRUE(write_file_atomically(path(), bytes));
    auto result = verify_shard(path(), options);
    EXPECT_TRUE(result) << (result ? "" : result.error().message());
    return result ? result.take() : Verdict();
  }
  std::string path() const { return directory_.path("a.tar"); }

  // The samples of the repaired shard, each as "key:field=bytes,…".
  Texts repaired(const std::string& bytes, RepairReport& report) {
    EXPECT_TRUE(write_file_atomically(path(), bytes));
    const std::string output = directory_.path("b.tar");
    auto result = repair_shard(path(), output, {});
    EXPECT_TRUE(result) << (result ? "" : result.error().message());
    if (result) report = result.take();
    EXPECT_EQ(*read_file(path(), 1 << 20), bytes);
    const auto clean = verify_shard(output, {});
    EXPECT_TRUE(clean && clean->problem_count == 0);
    InputStream samples({output}, {});
    Texts texts;
    while (true) {
      auto sample = samples.next();
      if (!sample || *sample == nullptr) return texts;
      std::string text((*sample)->key);
      for (const tar::Field& field : (*sample)->fields)
        text += fmt::format(" {}={}", field.field, field.bytes);
      texts.push_back(text);
    }
  }

  millrace::testing::TemporaryDirectory directory_;
};

std::string good() {
  return raw_file("a.cls", "1") + raw_file("a.txt", "A") + raw_file("b.cls", "2") + raw_file("b.txt", "B") +
         raw_file("c.cls", "3") + raw_file("c.txt", "C");
}

TEST_F(VerifyTest, AWholeShardHasNoProblem) {
  const Verdict result = verdict(good() + end_blocks());
  EXPECT_EQ(result.problem_count, 0U);
  EXPECT_EQ(result.samples, 3U);
  EXPECT_EQ(result.members, 6U);
  EXPECT_EQ(result.fields.at("cls"), 3U);
  EXPECT_FALSE(result.has_index);
}

TEST_F(VerifyTest, EveryCutIsFound) {
  const std::string whole = good() + end_blocks();
  for (size_t size = 0; size < whole.size(); size += 61) {
    const Verdict result = verdict(whole.substr(0, size));
    ASSERT_GE(result.problem_count, 1U) << size;
    EXPECT_EQ(result.problems.back().fault, Fault::kTruncated) << size;
  }
}

TEST_F(VerifyTest, ADamagedHeaderIsFoundAndReadingGoesOnBehindIt) {
  std::string bytes = good() + end_blocks();
  bytes[1024 * 2 + 5] ^= 1;  // in the header of b.cls
  const Verdict result = verdict(bytes);
  ASSERT_EQ(result.problem_count, 1U);
  EXPECT_EQ(result.problems[0].fault, Fault::kDamaged);
  EXPECT_EQ(result.problems[0].offset, 2048U);
  EXPECT_EQ(result.samples, 3U);
  EXPECT_EQ(result.fields.at("cls"), 2U);
}

TEST_F(VerifyTest, DoubledFieldsScatteredKeysAndMissingFieldsAreFound) {
  VerifyOptions options;
  options.expected_fields = {"cls", "txt"};
  const Verdict result = verdict(raw_file("a.cls", "1") + raw_file("a.CLS", "1") + raw_file("b.cls", "2") +
                                     raw_file("b.txt", "B") + raw_file("a.txt", "A") + end_blocks(),
                                 options);
  std::vector<Fault> faults;
  for (const Problem& problem : result.problems) faults.push_back(problem.fault);
  EXPECT_EQ(faults, (std::vector<Fault>{Fault::kDoubledField, Fault::kMissingField, Fault::kScatteredKey,
                                        Fault::kMissingField}));
}

TEST_F(VerifyTest, AStaleIndexIsFoundEvenAtTheSameLength) {
  ASSERT_EQ(verdict(good() + end_blocks()).problem_count, 0U);
  ASSERT_TRUE(make_index(path(), {}));
  EXPECT_TRUE(verdict(good() + end_blocks()).has_index);
  std::string other = good() + end_blocks();
  for (const size_t place : {512, 512 + 1024, 512 + 2048}) other[place] = '7';
  const Verdict same_length = verdict(other);
  ASSERT_EQ(same_length.problem_count, 1U);
  EXPECT_EQ(same_length.problems[0].fault, Fault::kStaleIndex);
  const Verdict longer = verdict(good() + raw_file("d.cls", "4") + end_blocks());
  ASSERT_EQ(longer.problem_count, 1U);
  EXPECT_EQ(longer.problems[0].fault, Fault::kStaleIndex);
}

TEST_F(VerifyTest, AFieldThatHasChangedSinceItWasIndexedIsNamed) {
  ASSERT_EQ(verdict(good() + end_blocks()).problem_count, 0U);
  ASSERT_TRUE(make_index(path(), {}));
  std::string rotten = good() + end_blocks();
  rotten[512 + 3 * 1024] ^= 1;  // in b.txt
  const Verdict result = verdict(rotten);
  ASSERT_EQ(result.problem_count, 1U);
  EXPECT_EQ(result.problems[0].fault, Fault::kDamaged);
  EXPECT_EQ(result.problems[0].offset, 512U + 3 * 1024);
  EXPECT_EQ(result.problems[0].text,
            "field txt of sample 1 at byte 3584: its bytes are not those that were indexed");
}

TEST_F(VerifyTest, SparseMembersAreUnreadable) {
  const Verdict result = verdict(raw_file("a.cls", "1") +
                                 raw_member({.name = "s.txt",
                                             .data = "x",
                                             .type = tar::kTypeGnuSparse,
                                             .flavour = tar::testing::Flavour::kGnu}) +
                                 raw_file("b.cls", "2") + end_blocks());
  ASSERT_EQ(result.problem_count, 1U);
  EXPECT_EQ(result.problems[0].fault, Fault::kUnreadable);
  EXPECT_EQ(result.samples, 2U);
}

TEST_F(VerifyTest, RepairGathersScatteredSamples) {
  RepairReport report;
  EXPECT_EQ(repaired(raw_file("a.cls", "1") + raw_file("b.cls", "2") + raw_file("b.txt", "B") +
                         raw_file("a.txt", "A") + end_blocks(),
                     report),
            (Texts{"a cls=1 txt=A", "b cls=2 txt=B"}));
  EXPECT_EQ(report.gathered_samples, 1U);
  EXPECT_TRUE(report.lost.empty());
}

TEST_F(VerifyTest, RepairDropsWhatTheDamageHalvedAndSaysSo) {
  std::string bytes = good() + end_blocks();
  bytes[2048 + 5] ^= 1;
  RepairReport report;
  EXPECT_EQ(repaired(bytes, report), (Texts{"a cls=1 txt=A", "c cls=3 txt=C"}));
  EXPECT_EQ(report.kept_samples, 2U);
  ASSERT_EQ(report.lost.size(), 2U);
  EXPECT_NE(report.lost[1].find("sample \"b\": its field cls"), std::string::npos);
}

TEST_F(VerifyTest, RepairKeepsWholeSamplesOfACutShard) {
  const std::string whole = good() + end_blocks();
  RepairReport report;
  EXPECT_EQ(repaired(whole.substr(0, 4096 + 512 + 512 + 512), report),
            (Texts{"a cls=1 txt=A", "b cls=2 txt=B"}));
  EXPECT_FALSE(report.lost.empty());
  // Only the end blocks are gone: every sample is whole.
  EXPECT_EQ(repaired(good(), report).size(), 3U);
}

TEST_F(VerifyTest, ZerosOverAHeaderLoseThatSampleOnly) {
  for (const size_t zeros : {512, 1024, 4096, 40960}) {
    const std::string bytes =
        raw_file("0.cls", "0") + raw_file("0.txt", "Z") + std::string(zeros, '\0') + good() + end_blocks();
    RepairReport report;
    EXPECT_EQ(repaired(bytes, report),
              (Texts{"0 cls=0 txt=Z", "a cls=1 txt=A", "b cls=2 txt=B", "c cls=3 txt=C"}))
        << zeros;
    std::filesystem::remove(directory_.path("b.tar"));
    EXPECT_GE(verdict(bytes).problem_count, 1U);
  }
}

TEST_F(VerifyTest, MegabytesOfZerosBehindTheEndAreACopyCutShort) {
  EXPECT_EQ(verdict(good() + std::string(20'480, '\0')).problem_count, 0U);
  const Verdict result = verdict(good() + std::string(2 << 20, '\0'));
  ASSERT_EQ(result.problem_count, 1U);
  EXPECT_EQ(result.problems[0].fault, Fault::kTruncated);
}

TEST_F(VerifyTest, NothingToSaveIsAnErrorAndLeavesNoFile) {
  ASSERT_TRUE(write_file_atomically(path(), std::string(5000, 'x')));
  EXPECT_FALSE(repair_shard(path(), directory_.path("b.tar"), {}));
  EXPECT_FALSE(file_exists(directory_.path("b.tar")));
}

TEST_F(VerifyTest, RepairKeepsTheFirstOfADoubledField) {
  RepairReport report;
  EXPECT_EQ(repaired(raw_file("a.txt", "first") + raw_file("a.txt", "second") + end_blocks(), report),
            (Texts{"a txt=first"}));
  ASSERT_EQ(report.lost.size(), 1U);
}

TEST_F(VerifyTest, AFileThatIsNoTarAtAllIsBad) {
  EXPECT_GE(verdict(std::string(5000, 'x')).problem_count, 1U);
  EXPECT_GE(verdict("").problem_count, 1U);
}

}  // namespace
}  // namespace millrace::shard
