// Who is slow, who is silent, and how they come back.
#include "cluster/answer_times.h"

#include <gtest/gtest.h>

namespace millrace::cluster {
namespace {

using Outcome = AnswerTimes::Outcome;
using Standing = AnswerTimes::Standing;

constexpr uint64_t kMs = 1000;
constexpr uint64_t kSecond = 1'000'000;

class AnswerTimesTest : public ::testing::Test {
 protected:
  void ask(uint64_t whom, uint64_t took_us, Outcome outcome = Outcome::kAnswered) {
    times_.begin(whom, now_us_);
    times_.end(whom, now_us_, now_us_ + took_us, outcome);
    now_us_ += kSecond;
  }
  // Everybody once.
  void ask_all(uint64_t took_of_three_us) {
    for (const uint64_t whom : {1, 2, 4}) ask(whom, 2 * kMs);
    ask(3, took_of_three_us);
  }
  Standing standing(uint64_t whom) const { return times_.standing(whom, now_us_); }

  AnswerTimes times_{AnswerTimes::Limits{}};
  uint64_t now_us_ = 10 * kSecond;
};

TEST_F(AnswerTimesTest, WhoeverWasNeverAskedIsPrompt) {
  EXPECT_EQ(standing(7), Standing::kPrompt);
  EXPECT_EQ(times_.read(7, now_us_).mean_us, 0u);
}

TEST_F(AnswerTimesTest, OneThatTakesManyTimesAsLongAsMostIsSlowAndComesBack) {
  for (int i = 0; i < 5; ++i) ask_all(2 * kMs);
  EXPECT_EQ(standing(3), Standing::kPrompt);
  for (int i = 0; i < 5; ++i) ask_all(300 * kMs);
  EXPECT_EQ(standing(3), Standing::kSlow);
  EXPECT_EQ(standing(1), Standing::kPrompt);
  EXPECT_NE(why_grey(times_.read(3, now_us_)).find("most others in 2.0 ms"), std::string::npos);
  int rounds = 0;
  for (; standing(3) != Standing::kPrompt && rounds < 30; ++rounds) ask_all(2 * kMs);
  EXPECT_LT(rounds, 15);
  EXPECT_EQ(why_grey(times_.read(3, now_us_)), "");
}

TEST_F(AnswerTimesTest, WhereAllAreSlowNobodyIs) {
  for (int i = 0; i < 5; ++i) {
    for (const uint64_t whom : {1, 2, 3, 4}) ask(whom, 800 * kMs + whom);
  }
  for (const uint64_t whom : {1, 2, 3, 4}) EXPECT_EQ(standing(whom), Standing::kPrompt);
}

TEST_F(AnswerTimesTest, QuickAnswersAreNeverSlow) {
  for (int i = 0; i < 5; ++i) {
    for (const uint64_t whom : {1, 2, 4}) ask(whom, 100);
    ask(3, 15 * kMs);
  }
  EXPECT_EQ(standing(3), Standing::kPrompt);
}

TEST_F(AnswerTimesTest, AQuestionThatWaitsForLongMakesSilentUntilAnythingIsHeard) {
  ask_all(2 * kMs);
  times_.begin(3, now_us_);
  EXPECT_EQ(standing(3), Standing::kPrompt);
  now_us_ += 600 * kMs;
  EXPECT_EQ(standing(3), Standing::kSilent);
  EXPECT_EQ(times_.read(3, now_us_).silent_us, 600 * kMs);
  EXPECT_EQ(why_grey(times_.read(3, now_us_)), "no answer for 600.0 ms");
  // Another question is answered: the first one waits on, but not in silence.
  times_.begin(3, now_us_);
  times_.end(3, now_us_, now_us_ + kMs, Outcome::kAnswered);
  now_us_ += 2 * kMs;
  EXPECT_EQ(standing(3), Standing::kPrompt);
}

TEST_F(AnswerTimesTest, AFailureIsBelievedForSomeSecondsOrUntilAnAnswer) {
  ask(3, kMs, Outcome::kFailed);
  EXPECT_EQ(standing(3), Standing::kSilent);
  now_us_ += AnswerTimes::kFailingUs;
  EXPECT_EQ(standing(3), Standing::kPrompt);
  ask(3, kMs, Outcome::kFailed);
  ask(3, kMs);
  EXPECT_EQ(standing(3), Standing::kPrompt);
}

TEST_F(AnswerTimesTest, OneProbeASecond) {
  EXPECT_TRUE(times_.take_probe(3, now_us_));
  EXPECT_FALSE(times_.take_probe(3, now_us_ + kSecond - 1));
  EXPECT_TRUE(times_.take_probe(3, now_us_ + kSecond));
  EXPECT_TRUE(times_.take_probe(4, now_us_));
}

}  // namespace
}  // namespace millrace::cluster
