// The published value.
#include "net/poly1305.h"

#include <gtest/gtest.h>

#include "net/digest.h"

namespace millrace::net {
namespace {

TEST(Poly1305Test, GivesThePublishedValue) {
  const std::string key = *from_hex("85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af4149f51b");
  EXPECT_EQ(to_hex(poly1305(key, "Cryptographic Forum Research Group")), "a8061dc1305136c6c22b8baf0c0127a9");
}

TEST(Poly1305Test, BytesInTwoPartsHaveTheCodeOfTheWhole) {
  const std::string key(kPoly1305KeyBytes, 'k');
  EXPECT_EQ(poly1305(key, "head", " and tail"), poly1305(key, "head and tail"));
  EXPECT_EQ(poly1305(key, "", "tail"), poly1305(key, "tail"));
}

}  // namespace
}  // namespace millrace::net
