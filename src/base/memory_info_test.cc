// Compares the memory that is reported with other figures of the system.
#include "base/memory_info.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace millrace {
namespace {

TEST(MemoryInfoTest, IsSomeButNotMoreThanTheMachineHas) {
  const auto all =
      static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  EXPECT_GT(available_memory(), 1 << 20);
  EXPECT_LE(available_memory(), all);
}

}  // namespace
}  // namespace millrace
