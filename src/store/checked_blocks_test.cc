// Which blocks need no second look.
#include "store/checked_blocks.h"

#include <gtest/gtest.h>

namespace millrace::store {
namespace {

TEST(CheckedBlocksTest, ABlockIsCheckedOnlyAsItsFileWas) {
  CheckedBlocks blocks({3, 100, 1});
  EXPECT_EQ(blocks.first_of(2), 103U);
  EXPECT_FALSE(blocks.is_checked(1, 70, 5));
  blocks.set_checked(1, 70, 5);
  EXPECT_TRUE(blocks.is_checked(1, 70, 5));
  EXPECT_FALSE(blocks.is_checked(1, 69, 5));
  EXPECT_FALSE(blocks.is_checked(1, 71, 5));
  EXPECT_FALSE(blocks.is_checked(0, 2, 5));
  // The file was written: nothing of it counts any more, and the others are as they were.
  blocks.set_checked(2, 0, 1);
  EXPECT_FALSE(blocks.is_checked(1, 70, 6));
  blocks.set_checked(1, 0, 6);
  EXPECT_FALSE(blocks.is_checked(1, 70, 6));
  EXPECT_TRUE(blocks.is_checked(1, 0, 6));
  EXPECT_TRUE(blocks.is_checked(2, 0, 1));
}

}  // namespace
}  // namespace millrace::store
