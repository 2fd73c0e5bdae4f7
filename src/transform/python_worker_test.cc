// Tests that nothing of a worker's answer is believed.
#include "transform/python_worker.h"

#include <gtest/gtest.h>

namespace millrace::transform {
namespace {

TEST(PythonWorkerTest, AnAnswerBecomesSamples) {
  const auto answer =
      parse_python_answer(R"({"samples":[{"key":"a","fields":[["txt",2],["cls",1]]}],"cpu":1.5})", "hi7");
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(answer->made.samples, 1U);
  EXPECT_DOUBLE_EQ(answer->cpu_seconds, 1.5);
  tar::SampleParser parser(tar::KeyRule::kFirstDot);
  const auto sample = parser.parse(answer->made.blocks);
  ASSERT_TRUE(sample);
  EXPECT_EQ((*sample)->key, "a");
  EXPECT_EQ((*sample)->find("txt")->bytes, "hi");
  EXPECT_EQ((*sample)->find("cls")->bytes, "7");
}

TEST(PythonWorkerTest, NoSampleIsADroppedOne) {
  const auto answer = parse_python_answer(R"({"samples":[]})", "");
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->made.blocks.empty());
}

TEST(PythonWorkerTest, AnErrorIsTold) {
  const auto answer = parse_python_answer(R"({"error":"ValueError: no"})", "");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->error, "ValueError: no");
}

TEST(PythonWorkerTest, NonsenseIsRefused) {
  for (const std::string_view text :
       {"", "[]", "{}", R"({"error":1})", R"({"samples":1})", R"({"samples":[1]})",
        R"({"samples":[{"key":"a"}]})", R"({"samples":[{"key":1,"fields":[]}]})",
        R"({"samples":[{"key":"a","fields":[["txt",99]]}]})",
        R"({"samples":[{"key":"a","fields":[["txt",-1]]}]})",
        R"({"samples":[{"key":"a","fields":[["txt",2]]}]})",  // a byte is left
        R"({"samples":[{"key":"a","fields":[]}]})", R"({"samples":[{"key":"a.b","fields":[["txt",3]]}]})",
        R"({"samples":[{"key":"a","fields":[["TXT",3]]}]})",
        R"({"samples":[{"key":"__a__/b","fields":[["x",3]]}]})",
        R"({"samples":[{"key":"a","fields":[["x",1],["x",2]]}]})"}) {
    EXPECT_FALSE(parse_python_answer(text, "abc")) << text;
  }
}

}  // namespace
}  // namespace millrace::transform
