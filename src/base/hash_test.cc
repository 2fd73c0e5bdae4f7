// hash64 and Hasher: fixed values, because they are stored, and one stream equals one string.
#include "base/hash.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/random.h"

namespace millrace {
namespace {

std::string random_bytes(Random& random, size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.next());
  return bytes;
}

TEST(HashTest, GivesTheValuesOfXxh3ForEver) {
  EXPECT_EQ(hash64(""), 0x2d06800538d394c2u);
  EXPECT_EQ(hash64("abc"), 0x78af5f94892f3950u);
}

TEST(HashTest, ASeedChangesTheValueAndZeroIsNoSeed) {
  EXPECT_EQ(hash64("train/000001", 0), hash64("train/000001"));
  EXPECT_NE(hash64("train/000001", 1), hash64("train/000001"));
  EXPECT_NE(hash64("train/000001", 1), hash64("train/000001", 2));
}

TEST(HashTest, SeesEveryByteAndTheLength) {
  EXPECT_NE(hash64("a"), hash64("b"));
  EXPECT_NE(hash64(std::string_view("\0", 1)), hash64(std::string_view("\0\0", 2)));
}

TEST(HasherTest, AnEmptyStreamEqualsAnEmptyString) {
  EXPECT_EQ(Hasher().value(), hash64(""));
}

TEST(HasherTest, EqualsHash64HoweverTheBytesAreCut) {
  constexpr uint64_t kSeed = 21;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  for (const size_t size : {1, 16, 17, 128, 240, 241, 1023, 1024, 1025, 70'000}) {
    const std::string bytes = random_bytes(random, size);
    Hasher hasher;
    for (size_t at = 0; at < size;) {
      const size_t step = std::min<size_t>(size - at, 1 + random.below(size));
      hasher.add(std::string_view(bytes).substr(at, step));
      at += step;
    }
    EXPECT_EQ(hasher.value(), hash64(bytes)) << size;
  }
}

TEST(HasherTest, ValueMayBeAskedForOnTheWay) {
  Hasher hasher;
  hasher.add("one");
  EXPECT_EQ(hasher.value(), hash64("one"));
  hasher.add("two");
  EXPECT_EQ(hasher.value(), hash64("onetwo"));
}

TEST(HasherTest, GoesOnAfterAMove) {
  Hasher first;
  first.add("one");
  Hasher second = std::move(first);
  second.add("two");
  EXPECT_EQ(second.value(), hash64("onetwo"));
}

}  // namespace
}  // namespace millrace
