// Ranges as clients write them.
#include "gateway/get_object.h"

#include <gtest/gtest.h>

namespace millrace::gateway {
namespace {

void expect_part(std::string_view text, uint64_t size, uint64_t offset, uint64_t count) {
  const ParsedRange parsed = parse_range(text, size);
  EXPECT_EQ(parsed.kind, RangeKind::kPart) << text;
  EXPECT_EQ(parsed.range.offset, offset) << text;
  EXPECT_EQ(parsed.range.size, count) << text;
}

TEST(RangeTest, RangesAreCutToWhatIsThere) {
  expect_part("bytes=0-0", 10, 0, 1);
  expect_part("bytes=0-9", 10, 0, 10);
  expect_part("bytes=9-9", 10, 9, 1);
  expect_part("bytes=3-", 10, 3, 7);
  expect_part("bytes=-3", 10, 7, 3);
  expect_part("bytes=-30", 10, 0, 10);
  expect_part("bytes=5-99", 10, 5, 5);
  expect_part("bytes=0-18446744073709551615", 10, 0, 10);
  expect_part("bytes=-18446744073709551615", 10, 0, 10);
  expect_part("bytes=18446744073709551614-18446744073709551615", UINT64_MAX, UINT64_MAX - 1, 1);
}

TEST(RangeTest, RangesWithoutAByteAreUnsatisfiable) {
  for (const std::string_view text :
       {"bytes=10-", "bytes=10-10", "bytes=11-20", "bytes=-0", "bytes=18446744073709551615-"}) {
    EXPECT_EQ(parse_range(text, 10).kind, RangeKind::kUnsatisfiable) << text;
  }
  for (const std::string_view text : {"bytes=0-", "bytes=0-0", "bytes=-1", "bytes=-0"}) {
    EXPECT_EQ(parse_range(text, 0).kind, RangeKind::kUnsatisfiable) << text;
  }
}

TEST(RangeTest, WhatIsNotUnderstoodMeansTheWhole) {
  for (const std::string_view text :
       {"", "bytes", "bytes=", "bytes=-", "bytes=5", "bytes=5-4", "bytes=a-b", "bytes=1-b", "bytes=+1-2",
        "bytes=--2", "bytes= 1-2", "bytes=1-2 ", "bytes=0-1,3-4", "items=0-1", "Bytes=0-1",
        "bytes=99999999999999999999-"}) {
    EXPECT_EQ(parse_range(text, 10).kind, RangeKind::kWhole) << text;
  }
}

}  // namespace
}  // namespace millrace::gateway
