// The clock of versions never goes back.
#include "store/version.h"

#include <gtest/gtest.h>

namespace millrace::store {
namespace {

TEST(VersionTest, NeverGoesBack) {
  VersionClock clock;
  const uint64_t first = clock.next();
  EXPECT_GT(clock.next(), first);
  const uint64_t ahead = first + (uint64_t{1} << 40);
  clock.observe(ahead);
  EXPECT_EQ(clock.next(), ahead + 1);
  clock.observe(first);
  EXPECT_EQ(clock.next(), ahead + 2);
}

}  // namespace
}  // namespace millrace::store
