// Encoder and Decoder: how the store writes numbers and texts into bytes. Little-endian, lengths in front.
//
// The decoder trusts nothing: after any read beyond the end it gives zeros and `good()` is false, so that a
// whole structure is read first and judged once. Values, one thread each.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::store {

class Encoder {
 public:
  void u8(uint8_t value) { bytes_.push_back(static_cast<char>(value)); }
  void u16(uint16_t value) { number(value); }
  void u32(uint32_t value) { number(value); }
  void u64(uint64_t value) { number(value); }
  void raw(std::string_view bytes) { bytes_.append(bytes); }
  void text(std::string_view bytes) {
    u32(static_cast<uint32_t>(bytes.size()));
    raw(bytes);
  }
  void pairs(const std::vector<std::pair<std::string, std::string>>& values) {
    u32(static_cast<uint32_t>(values.size()));
    for (const auto& [name, value] : values) {
      text(name);
      text(value);
    }
  }

  const std::string& bytes() const { return bytes_; }
  std::string take() && { return std::move(bytes_); }

 private:
  template <typename T>
  void number(T value) {
    static_assert(std::endian::native == std::endian::little);
    char raw_bytes[sizeof(T)];
    std::memcpy(raw_bytes, &value, sizeof(T));
    bytes_.append(raw_bytes, sizeof(T));
  }

  std::string bytes_;
};

class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : bytes_(bytes) {}

  uint8_t u8() { return number<uint8_t>(); }
  uint16_t u16() { return number<uint16_t>(); }
  uint32_t u32() { return number<uint32_t>(); }
  uint64_t u64() { return number<uint64_t>(); }
  std::string_view raw(size_t size) {
    if (size > bytes_.size()) {
      good_ = false;
      bytes_ = {};
      return {};
    }
    const std::string_view part = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return part;
  }
  std::string_view text() { return raw(u32()); }
  std::vector<std::pair<std::string, std::string>> pairs() {
    std::vector<std::pair<std::string, std::string>> values;
    for (uint32_t left = u32(); left > 0 && good_; --left) {
      std::string name(text());
      std::string value(text());
      values.emplace_back(std::move(name), std::move(value));
    }
    return values;
  }
  void skip_pairs() {
    for (uint32_t left = u32(); left > 0 && good_; --left) {
      text();
      text();
    }
  }

  bool good() const { return good_; }
  size_t left() const { return bytes_.size(); }

 private:
  template <typename T>
  T number() {
    const std::string_view part = raw(sizeof(T));
    T value = 0;
    if (part.size() == sizeof(T)) std::memcpy(&value, part.data(), sizeof(T));
    return value;
  }

  std::string_view bytes_;
  bool good_ = true;
};

}  // namespace millrace::store
