// What descriptions say and what they refuse.
#include "jobs/description.h"

#include <gtest/gtest.h>

namespace millrace::jobs {
namespace {

Description copy_job() {
  Description job;
  job.kind = Kind::kCopy;
  job.inputs = {"mr://train/*.tar"};
  job.output = "mr://out/";
  return job;
}

std::string problem_of(const std::string& text) {
  const auto read = decode_description(text);
  return read ? "" : read.error().message();
}

TEST(DescriptionTest, ReadsWhatItWrote) {
  Description job;
  job.kind = Kind::kMapReduce;
  job.inputs = {"mr://train/{000..003}.tar", "mr://val/*.tar"};
  job.output = "mr://out/part-%06d.tar";
  job.mapper = {"/bin/sh", "-c", "cat"};
  job.combiner = {"a"};
  job.reducer = {"python3", "r.py"};
  job.files = {{"r.py", "print('ü')\n"}};
  job.max_bytes = 5;
  job.max_samples = 6;
  job.memory = 64 << 20;
  job.attempts = 2;
  job.note = "counts";
  EXPECT_EQ(decode_description(encode(job)).take(), job);
  EXPECT_EQ(decode_description(encode(copy_job())).take(), copy_job());
}

TEST(DescriptionTest, RefusesWhatItDoesNotKnow) {
  EXPECT_NE(problem_of(R"({"kind": "copy", "inputs": ["mr://a/b"], "output": "mr://c/", "speed": 9})")
                .find("\"speed\""),
            std::string::npos);
  EXPECT_NE(problem_of(R"({"kind": "fly", "inputs": ["mr://a/b"]})").find("\"fly\""), std::string::npos);
  EXPECT_NE(problem_of(R"({"kind": "copy", "inputs": "mr://a/b", "output": "mr://c/"})").find("\"inputs\""),
            std::string::npos);
  EXPECT_NE(problem_of("[]").find("not a JSON object"), std::string::npos);
}

TEST(DescriptionTest, RefusesSettingsOfOtherKinds) {
  Description job = copy_job();
  job.seed = 7;
  const Status checked = check(job);
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message().find("\"seed\" does not go with a job of kind copy"),
            std::string::npos);
}

TEST(DescriptionTest, RefusesOutputsThatDoNotFitTheKind) {
  Description job = copy_job();
  job.output = "mr://out/one.tar";
  EXPECT_FALSE(check(job));
  job.output = "";
  EXPECT_FALSE(check(job));
  job.kind = Kind::kShuffle;
  job.output = "mr://out/one.tar";
  EXPECT_FALSE(check(job));
  job.output = "mr://out/%03d.tar";
  EXPECT_TRUE(check(job));
  job.output = "http://elsewhere/out/%03d.tar";
  EXPECT_FALSE(check(job));
}

TEST(DescriptionTest, RefusesNamesOfFilesThatLeadElsewhere) {
  Description job;
  job.kind = Kind::kMap;
  job.inputs = {"mr://a/b.tar"};
  job.output = "mr://c/";
  job.command = {"true"};
  EXPECT_TRUE(check(job));
  for (const char* name : {"../x", "a/b", ".hidden", ""}) {
    job.files = {{name, ""}};
    EXPECT_FALSE(check(job)) << name;
  }
  job.files = {{"x", std::string(kMostFileBytes + 1, 'x')}};
  EXPECT_FALSE(check(job));
}

TEST(DescriptionTest, RefusesTransformsThatWouldBreakOutOfTheAddress) {
  Description job = copy_job();
  job.kind = Kind::kTransform;
  EXPECT_FALSE(check(job));
  job.transform = "small&delete=";
  EXPECT_FALSE(check(job));
  job.transform = "small-256";
  EXPECT_TRUE(check(job));
}

}  // namespace
}  // namespace millrace::jobs
