// .npz: a zip of .npy members, stored or deflated.
//
// The archive's directory, at its end, decides what is in it. Every member's checksum is compared.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "decode/array.h"

namespace millrace::decode {

// More members than this are refused.
constexpr size_t kMaxNpzMembers = 65'536;

struct NpzArrays {
  std::vector<NamedArray> arrays;  // in the archive's order, names without ".npy"
  // Elements of deflated members; those of stored ones point into the parsed bytes.
  std::vector<std::unique_ptr<std::string>> inflated;
};

// `most`: inflated bytes of all members together.
Result<NpzArrays> parse_npz(std::string_view bytes, uint64_t most);

}  // namespace millrace::decode
