// Tests that arrays survive writing and reading, and that wrong chunks are refused.
#include "decode/tenbin.h"

#include <gtest/gtest.h>

namespace millrace::decode {
namespace {

std::vector<NamedArray> make_arrays(std::string_view bytes) {
  return {{"image", {DType::kUint8, {2, 3}, bytes.substr(0, 6), false}},
          {"", {DType::kFloat32, {}, bytes.substr(0, 4), false}},
          {"eightlen", {DType::kInt64, {0, 7}, bytes.substr(0, 0), false}},
          {"u4", {DType::kUint32, {16}, bytes.substr(0, 64), false}}};
}

TEST(TenbinTest, WhatIsEncodedIsReadAgain) {
  const std::string elements(64, 'e');
  const auto arrays = make_arrays(elements);
  const auto bytes = encode_tenbin(arrays);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->size(), (16U + 64) * 4 + (16 + 64) * 2 + 16 + 16 + 64);
  const auto found = parse_tenbin(*bytes);
  ASSERT_TRUE(found) << found.error().message();
  ASSERT_EQ(found->size(), arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    EXPECT_EQ((*found)[i].name, arrays[i].name);
    EXPECT_EQ((*found)[i].array.dtype, arrays[i].array.dtype);
    EXPECT_EQ((*found)[i].array.shape, arrays[i].array.shape);
    EXPECT_EQ((*found)[i].array.bytes, arrays[i].array.bytes);
  }
}

TEST(TenbinTest, EveryCutIsAnErrorUnlessItFallsBetweenArrays) {
  const std::string elements(64, 'e');
  const std::string bytes = encode_tenbin(make_arrays(elements)).take();
  size_t whole = 0;
  for (size_t length = 0; length <= bytes.size(); ++length) {
    if (parse_tenbin(bytes.substr(0, length))) ++whole;
  }
  EXPECT_EQ(whole, 5U);
}

TEST(TenbinTest, ChunksThatLieAreErrors) {
  const std::string elements(64, 'e');
  const std::string good = encode_tenbin(make_arrays(elements)).take();
  const std::vector<std::tuple<size_t, std::string, Code>> changes{
      {0, "~TenBix~", Code::kCorrupt},
      {8, std::string(8, '\xff'), Code::kTruncated},
      {8, std::string("\x17\0\0\0\0\0\0\0", 8), Code::kCorrupt},
      {16, "O8", Code::kUnsupported},
      {32, std::string(8, '\x7f'), Code::kCorrupt},
      {40, std::string(8, '\x7f'), Code::kTooLarge},
      {40, std::string("\x03\0\0\0\0\0\0\0", 8), Code::kCorrupt},
  };
  for (const auto& [at, with, code] : changes) {
    std::string bytes = good;
    bytes.replace(at, with.size(), with);
    const auto found = parse_tenbin(bytes);
    ASSERT_FALSE(found) << at;
    EXPECT_EQ(found.error().code(), code) << found.error().message();
  }
}

TEST(TenbinTest, WhatTheFormatCannotHoldIsRefused) {
  const std::vector<NamedArray> wrong{
      {"ninechars", {DType::kUint8, {1}, "x", false}},
      {"\xc3\xa4", {DType::kUint8, {1}, "x", false}},
      {"b", {DType::kBool, {1}, "x", false}},
      {"f", {DType::kUint8, {1}, "x", true}},
      {"short", {DType::kUint32, {1}, "x", false}},
      {"deep", {DType::kUint8, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, "x", false}},
  };
  for (const NamedArray& array : wrong) EXPECT_FALSE(encode_tenbin({&array, 1})) << array.name;
}

}  // namespace
}  // namespace millrace::decode
