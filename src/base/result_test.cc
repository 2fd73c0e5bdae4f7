// Error and Result: codes and their faces, context put in front, and what MR_TRY does on each side.
#include "base/result.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <set>
#include <string>

namespace millrace {
namespace {

constexpr Code kAllCodes[] = {Code::kInvalid,   Code::kNotFound,    Code::kExists,      Code::kCorrupt,
                              Code::kTruncated, Code::kUnsupported, Code::kTooLarge,    Code::kNoSpace,
                              Code::kDenied,    Code::kIo,          Code::kUnavailable, Code::kCancelled};

Result<int> half(int number) {
  if (number % 2 != 0) return make_error(Code::kInvalid, "{} is odd", number);
  return number / 2;
}

Result<std::string> quarter_as_text(int number) {
  const int first = MR_TRY(half(number));
  const int second = MR_TRY(half(first).within("second half"));
  return std::to_string(second);
}

Status check_even(int number) {
  MR_TRY(half(number));
  return {};
}

TEST(ErrorTest, KeepsTheNearestPlace) {
  const Error error =
      make_error(Code::kCorrupt, "no header").at("a.jpg", 512).within("x.tar").at("b.jpg", 1024);
  ASSERT_TRUE(error.place());
  EXPECT_EQ(error.place()->member, "a.jpg");
  EXPECT_EQ(error.copy().place()->offset, 512U);
  EXPECT_FALSE(make_error(Code::kIo, "gone").place());
}

TEST(ErrorTest, EveryCodeHasItsOwnNameAndAnHttpStatusAndAnExitCode) {
  std::set<std::string_view> names;
  for (const Code code : kAllCodes) {
    EXPECT_TRUE(names.insert(code_name(code)).second) << code_name(code);
    EXPECT_GE(http_status(code), 400);
    EXPECT_LT(http_status(code), 600);
    EXPECT_TRUE(exit_code(code) == 1 || exit_code(code) == 2);
  }
}

TEST(ErrorTest, OnlyAWrongRequestExitsWithTwo) {
  for (const Code code : kAllCodes)
    EXPECT_EQ(exit_code(code), code == Code::kInvalid ? 2 : 1) << code_name(code);
}

TEST(ErrorTest, WithinPutsWhatTheCallerDidInFront) {
  const Error error = make_error(Code::kIo, "drive {}", 3).within("reading block 12").within("get x.tar");
  EXPECT_EQ(error.message(), "get x.tar: reading block 12: drive 3");
  EXPECT_EQ(error.code(), Code::kIo);
}

TEST(ErrorTest, KeepsItsHintWhenItGetsMoreContext) {
  const Error error = make_error(Code::kIo, "broken").with_hint("try again").within("reading");
  EXPECT_EQ(error.hint(), "try again");
}

TEST(ErrorTest, CopyIsEqualAndIndependent) {
  Error error = make_error(Code::kDenied, "no").with_hint("ask");
  const Error copy = error.copy();
  error = std::move(error).within("later");
  EXPECT_EQ(copy.message(), "no");
  EXPECT_EQ(copy.hint(), "ask");
  EXPECT_EQ(copy.code(), Code::kDenied);
}

TEST(ErrorTest, SystemErrorsGetTheCodeOfTheirErrno) {
  EXPECT_EQ(make_system_error(ENOENT, "x").code(), Code::kNotFound);
  EXPECT_EQ(make_system_error(EEXIST, "x").code(), Code::kExists);
  EXPECT_EQ(make_system_error(ENOSPC, "x").code(), Code::kNoSpace);
  EXPECT_EQ(make_system_error(EACCES, "x").code(), Code::kDenied);
  EXPECT_EQ(make_system_error(EISDIR, "x").code(), Code::kInvalid);
  EXPECT_EQ(make_system_error(EIO, "x").code(), Code::kIo);
  EXPECT_EQ(make_system_error(EIO, "reading a").message(), "reading a: Input/output error");
}

TEST(ResultTest, IsOnePointerWideAsAnError) {
  EXPECT_EQ(sizeof(Error), sizeof(void*));
}

TEST(ResultTest, HoldsAValue) {
  Result<int> result = half(8);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(*result, 4);
  EXPECT_EQ(result.take(), 4);
}

TEST(ResultTest, HoldsAnError) {
  Result<int> result = half(7);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message(), "7 is odd");
  EXPECT_EQ(result.take_error().code(), Code::kInvalid);
}

TEST(ResultTest, StartsAsADefaultValue) {
  Result<std::string> result;
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->empty());
  EXPECT_TRUE(Status().has_value());
}

TEST(ResultTest, CarriesMoveOnlyValues) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  const std::unique_ptr<int> taken = result.take();
  EXPECT_EQ(*taken, 5);
}

TEST(ResultTest, TryUnwrapsValues) {
  EXPECT_EQ(*quarter_as_text(12), "3");
}

TEST(ResultTest, TryReturnsTheFirstErrorAsItIs) {
  EXPECT_EQ(quarter_as_text(5).error().message(), "5 is odd");
  EXPECT_EQ(quarter_as_text(6).error().message(), "second half: 3 is odd");
}

TEST(ResultTest, TryWorksInAFunctionThatReturnsNoValue) {
  EXPECT_TRUE(check_even(2));
  EXPECT_EQ(check_even(3).error().code(), Code::kInvalid);
}

TEST(ResultTest, WithinLeavesAValueAlone) {
  EXPECT_EQ(*half(4).within("halving"), 2);
}

TEST(ResultTest, WithinAddsToAStatusToo) {
  EXPECT_TRUE(check_even(4).within("checking"));
  EXPECT_EQ(check_even(3).within("checking").error().message(), "checking: 3 is odd");
}

TEST(ResultDeathTest, ReadingTheValueOfAnErrorStopsTheProgramWithItsMessage) {
  Result<int> result = half(7);
  EXPECT_DEATH(static_cast<void>(*result), "7 is odd");
}

TEST(ResultDeathTest, ReadingTheErrorOfAValueStopsTheProgram) {
  const Result<int> result = half(8);
  EXPECT_DEATH(static_cast<void>(result.error().code()), "does not hold");
}

TEST(AssertDeathTest, PrintsTheConditionAndTheValuesThatBrokeIt) {
  const int left = 3;
  EXPECT_DEATH(MR_ASSERT(left == 4, left, "four"), "left == 4 does not hold \\[3, four\\]");
}

TEST(AssertTest, AConditionThatHoldsCostsNothingButItself) {
  int evaluated = 0;
  MR_ASSERT(++evaluated == 1, evaluated);
  EXPECT_EQ(evaluated, 1);
}

}  // namespace
}  // namespace millrace
