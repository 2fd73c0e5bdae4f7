// Makes identities from getrandom(2): never from the clock, so two starts in one second differ.
#include "base/ids.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <cstdint>

#include "base/assert.h"

namespace millrace {

std::string make_id() {
  uint64_t value = 0;
  const ssize_t got = getrandom(&value, sizeof value, 0);
  MR_ASSERT(got == sizeof value, got);
  return fmt::format("{:016x}", value);
}

}  // namespace millrace
