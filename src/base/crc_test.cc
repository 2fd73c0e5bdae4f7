// Tests of the CRCs: published values, and the fast implementations against the definition.
#include "base/crc.h"

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"

namespace millrace {
namespace {

constexpr CrcKind kKinds[] = {CrcKind::kCrc32, CrcKind::kCrc32c, CrcKind::kCrc64Nvme};

std::string random_bytes(Random& random, size_t size) {
  std::string bytes(size, 0);
  for (char& c : bytes) c = static_cast<char>(random.next());
  return bytes;
}

// Bit by bit, as the definition says.
uint64_t slow_crc(CrcKind kind, std::string_view bytes) {
  const uint64_t polynomial = kind == CrcKind::kCrc32    ? 0xedb88320
                              : kind == CrcKind::kCrc32c ? 0x82f63b78
                                                         : 0x9a6c9329ac4bc9b5;
  const uint64_t ones = ~uint64_t{0} >> (64 - 8 * crc_bytes(kind));
  uint64_t value = ones;
  for (const char c : bytes) {
    value ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) value = (value & 1) != 0 ? value >> 1 ^ polynomial : value >> 1;
  }
  return value ^ ones;
}

TEST(CrcTest, GivesThePublishedValues) {
  EXPECT_EQ(crc_add(CrcKind::kCrc32, 0, "123456789"), 0xcbf43926);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283);
  EXPECT_EQ(crc_add(CrcKind::kCrc64Nvme, 0, "123456789"), 0xae8b14860a799888);
  for (const CrcKind kind : kKinds) EXPECT_EQ(crc_add(kind, 0, ""), 0);
}

TEST(CrcTest, IsThatOfTheDefinitionAtEveryLength) {
  Random random(2);
  const std::string bytes = random_bytes(random, 1000);
  for (const CrcKind kind : kKinds) {
    for (size_t size = 0; size <= bytes.size(); ++size) {
      const std::string_view part = std::string_view(bytes).substr(bytes.size() - size);
      ASSERT_EQ(crc_add(kind, 0, part), slow_crc(kind, part)) << size;
    }
  }
}

TEST(CrcTest, GoesOnAndJoins) {
  Random random(7);
  for (const CrcKind kind : kKinds) {
    for (int turn = 0; turn < 100; ++turn) {
      const std::string bytes = random_bytes(random, random.below(5000));
      const std::string_view first = std::string_view(bytes).substr(0, random.below(bytes.size() + 1));
      const std::string_view second = std::string_view(bytes).substr(first.size());
      const uint64_t whole = crc_add(kind, 0, bytes);
      EXPECT_EQ(crc_add(kind, crc_add(kind, 0, first), second), whole);
      EXPECT_EQ(crc_join(kind, crc_add(kind, 0, first), crc_add(kind, 0, second), second.size()), whole);
    }
  }
}

}  // namespace
}  // namespace millrace
