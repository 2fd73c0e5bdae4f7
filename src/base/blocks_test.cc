// Blocks come back, and their bytes stay while anybody holds them.
#include "base/blocks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace millrace {
namespace {

TEST(BlocksTest, ABlockIsUsedAgain) {
  Blocks blocks;
  const std::byte* first = nullptr;
  {
    const Block block = blocks.take(1 << 20);
    first = block.span().data();
    EXPECT_EQ(blocks.kept(), 0u);
  }
  EXPECT_EQ(blocks.kept(), 1u);
  const Block again = blocks.take(600 << 10);
  EXPECT_EQ(again.span().data(), first);
  EXPECT_EQ(again.size(), 600u << 10);
}

TEST(BlocksTest, BytesKeepTheirBlock) {
  Blocks blocks;
  Bytes part;
  {
    const Block block = blocks.take(1 << 20);
    std::memcpy(block.span().data(), "head and tail", 13);
    const Bytes all = block.share(13);
    part = all.part(all.view().substr(9));
  }
  EXPECT_EQ(blocks.kept(), 0u);
  EXPECT_EQ(part.view(), "tail");
  part = {};
  EXPECT_EQ(blocks.kept(), 1u);
}

TEST(BlocksTest, SmallAndLargeOnesAreNotKept) {
  Blocks blocks;
  EXPECT_EQ(blocks.take(100 << 10).size(), 100u << 10);
  EXPECT_EQ(blocks.take(8 << 20).size(), 8u << 20);
  EXPECT_EQ(blocks.kept(), 0u);
}

TEST(BlocksTest, NoMoreAreKeptThanTheLimit) {
  Blocks blocks;
  {
    std::vector<Block> many;
    for (size_t i = 0; i < Blocks::kMostKept + 5; ++i) many.push_back(blocks.take(1 << 20));
  }
  EXPECT_EQ(blocks.kept(), Blocks::kMostKept);
}

TEST(BlocksTest, ABlockMayOutliveThem) {
  Block block;
  {
    Blocks blocks;
    block = blocks.take(1 << 20);
  }
  std::memset(block.span().data(), 1, block.size());
  EXPECT_EQ(block.view(1), "\x01");
}

}  // namespace
}  // namespace millrace
