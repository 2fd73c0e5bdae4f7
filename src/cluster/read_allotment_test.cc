// Readers that share little memory.
#include "cluster/read_allotment.h"

#include <gtest/gtest.h>

#include <optional>

namespace millrace::cluster {
namespace {

using Allotment = std::shared_ptr<ReadAllotment>;

struct ReadAllotmentTest : ::testing::Test {
  Allotment make() { return std::make_shared<ReadAllotment>(budget); }
  // With its answer, once it is there.
  std::shared_ptr<std::optional<Status>> ask(const Allotment& allotment) {
    auto answer = std::make_shared<std::optional<Status>>();
    allotment->when_allotted([answer](Status status) { answer->emplace(std::move(status)); });
    return answer;
  }

  const std::shared_ptr<Budget> budget = std::make_shared<Budget>(2 * ReadAllotment::kWholeBytes);
};

TEST_F(ReadAllotmentTest, ReadersGetShortStretchesWhereMemoryIsScarceAndThenWaitInTurn) {
  Allotment first = make();
  ASSERT_TRUE(*ask(first));
  EXPECT_EQ(first->bytes(), ReadAllotment::kWholeBytes);
  EXPECT_EQ(first->take_ahead(1).bytes(), 0u) << "half of it is used";

  std::vector<Allotment> slow;
  while (budget->used() < budget->limit()) {
    slow.push_back(make());
    ASSERT_TRUE(*ask(slow.back()));
    EXPECT_EQ(slow.back()->bytes(), ReadAllotment::kShortBytes);
  }
  const Allotment late = make();
  const auto answer = ask(late);
  EXPECT_FALSE(*answer);
  EXPECT_TRUE(*ask(slow.front())) << "whoever has begun goes on";
  slow.pop_back();
  ASSERT_TRUE(*answer && **answer);
  EXPECT_EQ(late->bytes(), ReadAllotment::kShortBytes);

  first.reset();
  slow.clear();
  EXPECT_TRUE(*ask(late));
  EXPECT_EQ(late->bytes(), ReadAllotment::kWholeBytes) << "there is plenty again";
  EXPECT_EQ(late->take_ahead(0).bytes(), 0u);
}

TEST_F(ReadAllotmentTest, OneTooManyToWaitIsToldSo) {
  const Charge all = budget->take(budget->limit()).take();
  std::vector<Allotment> waiting;
  for (size_t i = 0; i < Budget::kMostWaiting; ++i) {
    waiting.push_back(make());
    EXPECT_FALSE(*ask(waiting.back()));
  }
  const auto refused = ask(make());
  ASSERT_TRUE(*refused && !**refused);
  EXPECT_EQ((*refused)->error().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace millrace::cluster
