// ArrayView: an array as it lies in a sample's bytes: its type, its shape and its elements.
//
// An ArrayView owns no elements: `bytes` points into what was parsed. Elements are little-endian, and `bytes`
// is exactly as long as type and shape say; it need not be aligned. Immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace::decode {

enum class DType : uint8_t {
  kFloat16,
  kFloat32,
  kFloat64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kBool,
  kComplex64,
  kComplex128,
};

size_t item_bytes(DType dtype);
std::string_view short_name(DType dtype);  // "f4", as numpy writes it after the byte order; bool is "b1"
std::string_view numpy_name(DType dtype);  // "float32"
std::optional<DType> find_dtype(std::string_view short_name);

// More dimensions than this are refused; numpy's own limit.
constexpr size_t kMaxDimensions = 32;

struct ArrayView {
  DType dtype = DType::kUint8;
  std::vector<uint64_t> shape;  // empty: one element
  std::string_view bytes;
  bool fortran = false;  // the first dimension is the one that lies together
};

// Bytes of all elements; an error where that exceeds 64 bits.
Result<uint64_t> array_bytes(DType dtype, const std::vector<uint64_t>& shape);

}  // namespace millrace::decode
