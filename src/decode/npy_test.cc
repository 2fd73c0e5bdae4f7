// Headers written by hand, and what is wrong with each. That numpy's own files are read is tested in
// tests/decode.
#include "decode/npy.h"

#include <gtest/gtest.h>

namespace millrace::decode {
namespace {

std::string make_npy(std::string header, std::string_view elements) {
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  return bytes + header + std::string(elements);
}

TEST(NpyTest, ReadsTypeShapeAndOrder) {
  const std::string bytes =
      make_npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", std::string(24, 'x'));
  const auto array = parse_npy(bytes);
  ASSERT_TRUE(array) << array.error().message();
  EXPECT_EQ(array->dtype, DType::kFloat32);
  EXPECT_EQ(array->shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_TRUE(array->fortran);
  EXPECT_EQ(array->bytes.data(), bytes.data() + bytes.size() - 24);
}

TEST(NpyTest, EntriesMayComeInAnyOrderAndSpacing) {
  const std::string bytes = make_npy("{\"shape\":(4L,),'fortran_order':False , 'descr':'|u1'}", "abcd");
  const auto array = parse_npy(bytes);
  ASSERT_TRUE(array) << array.error().message();
  EXPECT_EQ(array->shape, std::vector<uint64_t>{4});
  EXPECT_EQ(array->bytes, "abcd");
}

TEST(NpyTest, WhatIsWrongIsSaid) {
  const std::vector<std::tuple<std::string, Code, std::string>> wrong{
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)", Code::kCorrupt, "} expected"},
      {"{'descr': '<f4', 'fortran_order': False}", Code::kCorrupt, "lacks"},
      {"{'descr': '<f4', 'fortran_order': 1, 'shape': (2,)}", Code::kCorrupt, "True or False"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", Code::kCorrupt, "a number"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x", Code::kCorrupt, "nothing expected"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", Code::kTruncated, "needs 12 bytes"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", Code::kCorrupt, "needs 4 bytes"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551615, 8)}", Code::kTooLarge,
       "larger"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", Code::kUnsupported, "Python objects"},
      {"{'descr': '', 'fortran_order': False, 'shape': (1,)}", Code::kUnsupported, "elements of type"},
      {"{'extra': 'x'}", Code::kCorrupt, "entry \"extra\""},
      {"", Code::kCorrupt, "{ expected"},
  };
  for (const auto& [header, code, said] : wrong) {
    const auto array = parse_npy(make_npy(header, "8 bytes."));
    ASSERT_FALSE(array) << header;
    EXPECT_EQ(array.error().code(), code) << array.error().message();
    EXPECT_NE(array.error().message().find(said), std::string::npos) << array.error().message();
  }
}

TEST(NpyTest, EveryCutIsAnError) {
  const std::string bytes =
      make_npy("{'descr': '<i8', 'fortran_order': False, 'shape': (2,)}", std::string(16, 'x'));
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(parse_npy(bytes.substr(0, length))) << length;
  EXPECT_TRUE(parse_npy(bytes));
}

TEST(NpyTest, AnEndlessHeaderIsRefused) {
  std::string bytes("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12);
  const auto array = parse_npy(bytes);
  ASSERT_FALSE(array);
  EXPECT_EQ(array.error().code(), Code::kTooLarge);
}

TEST(NpyTest, MoreDimensionsThanNumpyHasAreRefused) {
  std::string shape;
  for (int i = 0; i < 40; ++i) shape += "1, ";
  const auto array =
      parse_npy(make_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (" + shape + ")}", "x"));
  ASSERT_FALSE(array);
  EXPECT_EQ(array.error().message(), "array has 40 dimensions; at most 32 are possible");
}

}  // namespace
}  // namespace millrace::decode
