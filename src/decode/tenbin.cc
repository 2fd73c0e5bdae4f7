// Reads and writes tenbin. Everything is 64 bits wide and little-endian.
#include "decode/tenbin.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/text.h"

namespace millrace::decode {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "~TenBin~";
constexpr uint64_t kRounding = 64;
// What the format's first implementation writes at most.
constexpr uint64_t kMostDimensions = 9;
constexpr size_t kMostNameBytes = 8;

uint64_t rounded_up(uint64_t bytes) {
  return (bytes + kRounding - 1) / kRounding * kRounding;
}

uint64_t read_word(std::string_view bytes, size_t word) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + word * 8, 8);
  return value;
}

bool is_beyond_ascii(char character) {
  return static_cast<uint8_t>(character) >= 0x80;
}

void append_word(std::string& out, uint64_t value) {
  out.append(reinterpret_cast<const char*>(&value), 8);
}

void append_name(std::string& out, std::string_view name) {
  out += name;
  out.append(8 - name.size(), '\0');
}

void append_chunk(std::string& out, std::string_view bytes) {
  out += kMagic;
  append_word(out, bytes.size());
  out += bytes;
  out.append(rounded_up(bytes.size()) - bytes.size(), '\0');
}

class Chunks {
 public:
  explicit Chunks(std::string_view bytes) : bytes_(bytes) {}

  bool at_end() const { return at_ == bytes_.size(); }
  size_t at() const { return at_; }

  Result<std::string_view> next() {
    const size_t start = at_;
    const std::string_view left = bytes_.substr(at_);
    if (left.size() < 16) return cut(start);
    if (!left.starts_with(kMagic)) {
      return make_error(Code::kCorrupt, "tenbin: no chunk begins at byte {}", start);
    }
    const uint64_t length = read_word(left, 1);
    const uint64_t room = left.size() - 16;
    if (length > room || rounded_up(length) > room) return cut(start);
    at_ += 16 + rounded_up(length);
    return left.substr(16, length);
  }

 private:
  Error cut(size_t start) const {
    return make_error(Code::kTruncated, "tenbin ends after {} bytes, inside the chunk at byte {}",
                      bytes_.size(), start);
  }

  std::string_view bytes_;
  size_t at_ = 0;
};

std::string_view read_name(std::string_view header, size_t word) {
  const std::string_view name = header.substr(word * 8, 8);
  return name.substr(0, name.find_last_not_of('\0') + 1);
}

Result<NamedArray> read_header(std::string_view header, size_t at) {
  const Error wrong = make_error(Code::kCorrupt, "tenbin: the header chunk at byte {} makes no sense", at);
  if (header.size() < 24 || header.size() % 8 != 0) return wrong.copy();
  const uint64_t dimensions = read_word(header, 2);
  if (dimensions > kMaxDimensions || header.size() != (3 + dimensions) * 8) return wrong.copy();
  const auto dtype = find_dtype(read_name(header, 0));
  if (!dtype) {
    return make_error(Code::kUnsupported, "tenbin: elements of type \"{}\" at byte {}",
                      printable(read_name(header, 0)), at);
  }
  NamedArray named;
  named.name = read_name(header, 1);
  named.array.dtype = *dtype;
  for (size_t i = 0; i < dimensions; ++i) named.array.shape.push_back(read_word(header, 3 + i));
  return named;
}

Status check_encodable(const NamedArray& named) {
  const ArrayView& array = named.array;
  if (named.name.size() > kMostNameBytes ||
      std::any_of(named.name.begin(), named.name.end(), is_beyond_ascii)) {
    return make_error(Code::kInvalid, "tenbin: name \"{}\" is not at most {} ASCII characters",
                      printable(named.name, 40), kMostNameBytes);
  }
  if (array.fortran || array.shape.size() > kMostDimensions) {
    return make_error(Code::kUnsupported,
                      "tenbin: array \"{}\" is in Fortran order or has more than {} dimensions", named.name,
                      kMostDimensions);
  }
  if (array.dtype >= DType::kBool) {
    return make_error(Code::kUnsupported, "tenbin: array \"{}\" is {}, for which the format has no name",
                      named.name, numpy_name(array.dtype));
  }
  if (MR_TRY(array_bytes(array.dtype, array.shape)) != array.bytes.size()) {
    return make_error(Code::kInvalid, "tenbin: array \"{}\" has {} bytes, which is not what its shape says",
                      named.name, array.bytes.size());
  }
  return {};
}

}  // namespace

Result<std::vector<NamedArray>> parse_tenbin(std::string_view bytes) {
  std::vector<NamedArray> arrays;
  Chunks chunks(bytes);
  while (!chunks.at_end()) {
    const size_t at = chunks.at();
    const std::string_view header = MR_TRY(chunks.next());
    NamedArray named = MR_TRY(read_header(header, at));
    const std::string_view elements = MR_TRY(chunks.next());
    const uint64_t expected = MR_TRY(array_bytes(named.array.dtype, named.array.shape));
    if (elements.size() != expected) {
      return make_error(Code::kCorrupt, "tenbin: the array at byte {} needs {} bytes of elements and has {}",
                        at, expected, elements.size());
    }
    named.array.bytes = elements;
    arrays.push_back(std::move(named));
  }
  return arrays;
}

Result<std::string> encode_tenbin(std::span<const NamedArray> arrays) {
  uint64_t total = 0;
  for (const NamedArray& named : arrays) total += 16 + 128 + 16 + rounded_up(named.array.bytes.size());
  std::string out;
  out.reserve(total);
  for (const NamedArray& named : arrays) {
    MR_TRY(check_encodable(named));
    std::string header;
    append_name(header, short_name(named.array.dtype));
    append_name(header, named.name);
    append_word(header, named.array.shape.size());
    for (const uint64_t side : named.array.shape) append_word(header, side);
    append_chunk(out, header);
    append_chunk(out, named.array.bytes);
  }
  return out;
}

}  // namespace millrace::decode
