// Orders and answers, and lines that are neither.
#include "jobs/worker_lines.h"

#include <gtest/gtest.h>

namespace millrace::jobs {
namespace {

TEST(WorkerLinesTest, ReadOrdersAsTheyWereWritten) {
  WorkSetup setup;
  setup.job = "1234";
  setup.stage = "reduce";
  setup.description.inputs = {"mr://in/a\nb.tar"};
  setup.description.output = "mr://out/";
  setup.directory = "/d";
  setup.program = "/p";
  setup.confinement = shard::Confinement::kNone;
  setup.readable = {"/opt/venv"};
  setup.sorted_shards = 9;
  const std::string line = encode(WorkOrder(setup));
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const WorkOrder read = decode_order(line).take();
  EXPECT_EQ(encode(read), line);
  EXPECT_EQ(std::get<WorkSetup>(read).description, setup.description);
  EXPECT_EQ(std::get<WorkSetup>(read).confinement, shard::Confinement::kNone);
  const WorkOrder ranks = decode_order(encode(WorkOrder(WorkRanks{1, {"a:1", "b:2"}, "s", {"x"}}))).take();
  EXPECT_EQ(std::get<WorkRanks>(ranks).addresses.size(), 2U);
  EXPECT_EQ(std::get<WorkTask>(decode_order(encode(WorkOrder(WorkTask{7, "i", "o"}))).take()).number, 7U);
}

TEST(WorkerLinesTest, ReadAnswersAsTheyWereWritten) {
  const WorkAnswer answer = WorkResult{Outcome::kHopeless, {{"bytes", 3}}, "no \"way\"\n"};
  const WorkAnswer read = decode_answer(encode(answer)).take();
  EXPECT_EQ(std::get<WorkResult>(read).outcome, Outcome::kHopeless);
  EXPECT_EQ(std::get<WorkResult>(read).message, "no \"way\"\n");
  EXPECT_EQ(std::get<WorkPort>(decode_answer(R"({"port": 99})").take()).port, 99);
}

TEST(WorkerLinesTest, RefuseWhatIsNeither) {
  for (const char* line : {"", "{}", "[]", R"({"task": {}, "more": 1})", R"({"task": {"number": -1}})",
                           R"({"setup": {"job": "1"}})", R"({"dance": {}})"})
    EXPECT_FALSE(decode_order(line)) << line;
  for (const char* line : {"", "{}", R"({"port": 65536})", R"({"result": {"outcome": "fine"}})", "segfault"})
    EXPECT_FALSE(decode_answer(line)) << line;
}

}  // namespace
}  // namespace millrace::jobs
