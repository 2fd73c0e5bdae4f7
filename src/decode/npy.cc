// Parses .npy. The header is a Python dictionary of three entries; numpy writes them sorted, but any order is
// read.
#include "decode/npy.h"

#include <cstring>
#include <optional>

#include "base/number.h"
#include "base/text.h"
#include "decode/first_bytes.h"

namespace millrace::decode {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran;
  std::optional<std::vector<uint64_t>> shape;
};

// Reads the literal from its front; what cannot be read becomes an error that shows the place.
class Literal {
 public:
  explicit Literal(std::string_view text) : text_(text), left_(text) {}

  Result<Header> read() {
    Header header;
    MR_TRY(expect('{'));
    while (!next_is('}')) {
      const std::string name = MR_TRY(read_string());
      MR_TRY(expect(':'));
      MR_TRY(read_value(name, header));
      if (!take(',')) break;
    }
    MR_TRY(expect('}'));
    skip_blanks();
    if (!left_.empty()) return failure("nothing");
    return header;
  }

 private:
  Status read_value(const std::string& name, Header& header) {
    if (name == "descr") {
      if (next_is('[') || next_is('(')) {
        return make_error(Code::kUnsupported, "npy holds records, not numbers: {}", printable(text_, 200));
      }
      header.descr = MR_TRY(read_string());
    } else if (name == "fortran_order") {
      header.fortran = MR_TRY(read_bool());
    } else if (name == "shape") {
      header.shape = MR_TRY(read_shape());
    } else {
      return make_error(Code::kCorrupt, "npy header has an entry \"{}\"", printable(name, 40));
    }
    return {};
  }

  Result<std::string> read_string() {
    skip_blanks();
    const char quote = left_.empty() ? '\0' : left_.front();
    const size_t end = quote == '\'' || quote == '"' ? left_.find(quote, 1) : left_.npos;
    if (end == left_.npos) return failure("a quoted word");
    std::string word(left_.substr(1, end - 1));
    left_.remove_prefix(end + 1);
    return word;
  }

  Result<bool> read_bool() {
    skip_blanks();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!left_.starts_with(word)) continue;
      left_.remove_prefix(word.size());
      return value;
    }
    return failure("True or False");
  }

  Result<std::vector<uint64_t>> read_shape() {
    std::vector<uint64_t> shape;
    MR_TRY(expect('('));
    while (!next_is(')')) {
      const auto side = take_number<uint64_t>(left_);
      if (!side) return failure("a number");
      take('L');  // numpy under Python 2 wrote long integers so
      shape.push_back(*side);
      if (!take(',')) break;
    }
    MR_TRY(expect(')'));
    return shape;
  }

  void skip_blanks() {
    while (!left_.empty() && (left_.front() == ' ' || left_.front() == '\n')) left_.remove_prefix(1);
  }
  bool next_is(char wanted) {
    skip_blanks();
    return left_.starts_with(wanted);
  }
  bool take(char wanted) {
    if (!next_is(wanted)) return false;
    left_.remove_prefix(1);
    return true;
  }
  Status expect(char wanted) {
    if (!take(wanted)) return failure(std::string_view(&wanted, 1));
    return {};
  }
  Error failure(std::string_view wanted) const {
    return make_error(Code::kCorrupt, "npy header: {} expected at character {}: {}", wanted,
                      text_.size() - left_.size(), printable(text_, 200));
  }

  std::string_view text_;
  std::string_view left_;
};

Result<DType> read_dtype(std::string_view descr) {
  const char order = descr.empty() ? '\0' : descr.front();
  const auto dtype = find_dtype(descr.empty() ? descr : descr.substr(1));
  if (descr.substr(0, 2) == "|O") {
    return make_error(Code::kUnsupported,
                      "npy holds Python objects; reading them would run code from the data")
        .with_hint("save numbers: array.astype(numpy.float32)");
  }
  if (order == '>' && dtype) {
    return make_error(Code::kUnsupported, "npy holds big-endian numbers ({})", printable(descr, 16))
        .with_hint("save them little-endian: array.astype('<" + std::string(descr.substr(1)) + "')");
  }
  if (!dtype || (order != '<' && order != '|' && order != '=')) {
    return make_error(Code::kUnsupported, "npy holds elements of type \"{}\"", printable(descr, 16));
  }
  return *dtype;
}

struct Parts {
  std::string_view header;
  std::string_view elements;
};

Result<Parts> split(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) {
    return make_error(Code::kCorrupt, "not an npy: it begins with \"{}\"", first_bytes(bytes));
  }
  const Error cut = make_error(Code::kTruncated, "npy ends after {} bytes, inside its header", bytes.size());
  if (bytes.size() < 12) return cut.copy();
  const auto version = static_cast<uint8_t>(bytes[6]);
  if (version < 1 || version > 3) return make_error(Code::kUnsupported, "npy is of version {}", version);
  const size_t width = version == 1 ? 2 : 4;
  size_t length = 0;
  for (size_t i = width; i > 0; --i) length = length << 8 | static_cast<uint8_t>(bytes[7 + i]);
  if (length > kMaxNpyHeader) {
    return make_error(Code::kTooLarge, "npy header of {} bytes; at most {} are read", length, kMaxNpyHeader);
  }
  const size_t start = 8 + width;
  if (bytes.size() - start < length) return cut.copy();
  return Parts{bytes.substr(start, length), bytes.substr(start + length)};
}

}  // namespace

Result<ArrayView> parse_npy(std::string_view bytes) {
  const Parts parts = MR_TRY(split(bytes));
  Header header = MR_TRY(Literal(parts.header).read());
  if (!header.descr || !header.fortran || !header.shape) {
    return make_error(Code::kCorrupt, "npy header lacks descr, fortran_order or shape: {}",
                      printable(parts.header, 200));
  }
  ArrayView array;
  array.dtype = MR_TRY(read_dtype(*header.descr));
  const uint64_t expected = MR_TRY(array_bytes(array.dtype, *header.shape));
  if (parts.elements.size() != expected) {
    return make_error(parts.elements.size() < expected ? Code::kTruncated : Code::kCorrupt,
                      "npy of {} ({}) needs {} bytes of elements and has {}", numpy_name(array.dtype),
                      fmt::join(*header.shape, ", "), expected, parts.elements.size());
  }
  array.shape = std::move(*header.shape);
  array.bytes = parts.elements;
  array.fortran = *header.fortran;
  return array;
}

}  // namespace millrace::decode
