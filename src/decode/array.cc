// The element types that arrays may have.
#include "decode/array.h"

#include <array>

namespace millrace::decode {

namespace {

struct Row {
  DType dtype;
  size_t bytes;
  std::string_view short_name;
  std::string_view numpy_name;
};

constexpr std::array<Row, 14> kRows{{
    {DType::kFloat16, 2, "f2", "float16"},
    {DType::kFloat32, 4, "f4", "float32"},
    {DType::kFloat64, 8, "f8", "float64"},
    {DType::kInt8, 1, "i1", "int8"},
    {DType::kInt16, 2, "i2", "int16"},
    {DType::kInt32, 4, "i4", "int32"},
    {DType::kInt64, 8, "i8", "int64"},
    {DType::kUint8, 1, "u1", "uint8"},
    {DType::kUint16, 2, "u2", "uint16"},
    {DType::kUint32, 4, "u4", "uint32"},
    {DType::kUint64, 8, "u8", "uint64"},
    {DType::kBool, 1, "b1", "bool"},
    {DType::kComplex64, 8, "c8", "complex64"},
    {DType::kComplex128, 16, "c16", "complex128"},
}};

// In the order of the enumeration.
const Row& row_of(DType dtype) {
  return kRows[static_cast<size_t>(dtype)];
}

}  // namespace

size_t item_bytes(DType dtype) {
  return row_of(dtype).bytes;
}

std::string_view short_name(DType dtype) {
  return row_of(dtype).short_name;
}

std::string_view numpy_name(DType dtype) {
  return row_of(dtype).numpy_name;
}

std::optional<DType> find_dtype(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.short_name == name) return row.dtype;
  }
  return std::nullopt;
}

Result<uint64_t> array_bytes(DType dtype, const std::vector<uint64_t>& shape) {
  if (shape.size() > kMaxDimensions) {
    return make_error(Code::kTooLarge, "array has {} dimensions; at most {} are possible", shape.size(),
                      kMaxDimensions);
  }
  uint64_t bytes = item_bytes(dtype);
  bool empty = false;
  for (const uint64_t side : shape) empty = empty || side == 0;
  if (empty) return uint64_t{0};
  for (const uint64_t side : shape) {
    if (__builtin_mul_overflow(bytes, side, &bytes)) {
      return make_error(Code::kTooLarge, "array of shape ({}) is larger than any memory",
                        fmt::join(shape, ", "));
    }
  }
  return bytes;
}

}  // namespace millrace::decode
