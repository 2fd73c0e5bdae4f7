// Jobs in a real registry: the files of one machine, and etcd where it is installed.
#include "jobs/job_book.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/testing/temporary_directory.h"
#include "cluster/open_registry.h"
#include "cluster/testing/etcd_process.h"

namespace millrace::jobs {
namespace {

using millrace::testing::EtcdMembers;
using millrace::testing::has_etcd;
using millrace::testing::TemporaryDirectory;

class JobBookTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == std::string("files")) {
      where_ = directory_.path("registry");
    } else {
      if (!has_etcd()) GTEST_SKIP() << "etcd is not installed: nothing was tested";
      etcd_ = std::make_unique<EtcdMembers>(1);
      ASSERT_TRUE(etcd_->wait_until_ready(0));
      where_ = "etcd://" + etcd_->hosts() + "/jobs";
    }
    registry_ = cluster::open_registry(where_, {}).take();
  }
  static Job job_of(size_t tasks) {
    Job job;
    job.id = JobBook::make_job_id();
    job.description.inputs = {"mr://in/*.tar"};
    job.description.output = "mr://out/";
    job.stages = {{"copy", StageKind::kTasks, tasks, 0, 0}};
    return job;
  }
  static std::vector<Task> tasks_of(size_t count) {
    std::vector<Task> tasks;
    for (size_t i = 0; i < count; ++i)
      tasks.push_back({fmt::format("mr://in/{:06}.tar", i), fmt::format("mr://out/{:06}.tar", i), i, i});
    return tasks;
  }

  TemporaryDirectory directory_;
  std::unique_ptr<EtcdMembers> etcd_;
  std::string where_;
  std::unique_ptr<cluster::Registry> registry_;
};

TEST_P(JobBookTest, KeepsAJobWithAllItsTasks) {
  JobBook book(*registry_);
  const Job made = book.create(job_of(2500), tasks_of(2500)).take();
  EXPECT_EQ(made.stages[0].tables, 3U);
  const Job read = book.get(made.id).take();
  EXPECT_EQ(encode(read), encode(made));
  EXPECT_EQ(book.list().take().size(), 1U);
  EXPECT_EQ(book.all_tasks(made.id, 0).take(), tasks_of(2500));
  EXPECT_EQ(book.tables(made.id, 0).take().size(), 3U);
}

TEST_P(JobBookTest, LetsOneOfSeveralChangesWin) {
  JobBook book(*registry_);
  Job one = book.create(job_of(1), tasks_of(1)).take();
  Job other = book.get(one.id).take();
  one.state = JobState::kStopping;
  other.state = JobState::kDone;
  EXPECT_TRUE(book.replace(one).take());
  EXPECT_FALSE(book.replace(other).take());
  EXPECT_EQ(book.get(one.id).take().state, JobState::kStopping);
}

// Threads in the roles of nodes, each with a connection of its own.
TEST_P(JobBookTest, GivesEveryTaskToExactlyOneOfManyNodes) {
  constexpr size_t kTasks = 1500;
  const Job job = JobBook(*registry_).create(job_of(kTasks), tasks_of(kTasks)).take();
  std::vector<std::atomic<int>> done(kTasks);
  {
    std::vector<std::jthread> nodes;
    for (int node = 0; node < 4; ++node) {
      nodes.emplace_back([&, node] {
        const auto own = cluster::open_registry(where_, {}).take();
        JobBook book(*own);
        const std::string self = fmt::format("{}:process", node);
        for (bool open = true; open;) {
          open = false;
          for (KnownTable table : book.tables(job.id, 0).take()) {
            open = open || table.table.count().done < table.table.size();
            if (table.table.claim(self, 100, [](size_t) { return true; }).empty()) continue;
            if (!book.replace_table(job.id, 0, table).take()) continue;
            const auto claimed = table.table.claimed_by(self);
            while (true) {
              for (const size_t task : claimed) table.table.finish(self, task, {{"tasks", 1}});
              if (book.replace_table(job.id, 0, table).take()) break;
              table = book.table(job.id, 0, table.number).take();
            }
            for (const size_t task : claimed) ++done[table.number * kMostTasks + task];
          }
        }
      });
    }
  }
  int64_t sum = 0;
  for (const KnownTable& table : JobBook(*registry_).tables(job.id, 0).take())
    sum += table.table.sums().at("tasks");
  EXPECT_EQ(sum, static_cast<int64_t>(kTasks));
  for (const auto& count : done) EXPECT_EQ(count, 1);
}

TEST_P(JobBookTest, ForgetsTheOldestOfThoseThatEnded) {
  JobBook book(*registry_);
  std::string first;
  for (size_t i = 0; i <= kMostKeptJobs; ++i) {
    Job job = book.create(job_of(1), tasks_of(1)).take();
    if (i == 0) first = job.id;
    job.state = JobState::kDone;
    ASSERT_TRUE(book.replace(job).take());
  }
  Job one_more = book.create(job_of(1), tasks_of(1)).take();
  EXPECT_EQ(book.get(first).error().code(), Code::kNotFound);
  EXPECT_TRUE(registry_->list("job-lists/" + first).take().empty());
  EXPECT_EQ(book.list().take().size(), kMostKeptJobs);
  EXPECT_EQ(book.remove(one_more.id).error().code(), Code::kInvalid);
}

TEST_P(JobBookTest, KeepsTheEndOfALongLog) {
  JobBook book(*registry_);
  const Job job = book.create(job_of(1), tasks_of(1)).take();
  ASSERT_TRUE(book.note_log(job.id, 0, "0", std::string(3 * kMostLogBytes, 'a') + "the end"));
  const auto logs = book.logs(job.id).take();
  ASSERT_EQ(logs.size(), 1U);
  EXPECT_EQ(logs.at("0-0").size(), kMostLogBytes);
  EXPECT_TRUE(logs.at("0-0").ends_with("the end"));
}

TEST_P(JobBookTest, PassesOverJobsThatItCannotRead) {
  JobBook book(*registry_);
  ASSERT_TRUE(registry_->swap("jobs/future", 0, R"({"job": {}, "state": "dreaming"})").take());
  const Job job = book.create(job_of(1), tasks_of(1)).take();
  EXPECT_EQ(book.list().take().size(), 1U);
  EXPECT_EQ(book.get("future").error().code(), Code::kCorrupt);
  EXPECT_EQ(book.get("../keys").error().code(), Code::kNotFound);
  EXPECT_TRUE(book.get(job.id));
}

TEST_P(JobBookTest, KeepsRanks) {
  JobBook book(*registry_);
  RankTable table = book.ranks("a", 1).take();
  EXPECT_EQ(table.revision, 0U);
  table.attempt = 2;
  table.secret = "s";
  table.ranks = {{"1:p", "127.0.0.1:99", RankState::kListening, ""}, {"2:q", "", RankState::kFailed, "lost"}};
  table.sums = {{"shards", 3}};
  ASSERT_TRUE(book.replace_ranks("a", 1, table).take());
  const RankTable read = book.ranks("a", 1).take();
  EXPECT_EQ(read.ranks, table.ranks);
  EXPECT_EQ(read.sums, table.sums);
  EXPECT_EQ(read.attempt, 2U);
}

INSTANTIATE_TEST_SUITE_P(Registries, JobBookTest, ::testing::Values("files", "etcd"),
                         [](const auto& name) { return std::string(name.param); });

}  // namespace
}  // namespace millrace::jobs
