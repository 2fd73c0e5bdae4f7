// Poly1305: a code over many bytes that only those who know the key can make.
//
// A key is used for one message only: two messages with one key give it away. Several times as fast as
// SHA-256 where the processor has no instructions for that. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace millrace::net {

inline constexpr size_t kPoly1305KeyBytes = 32;

// 16 bytes. `more` follows the bytes.
std::string poly1305(std::string_view key, std::string_view bytes, std::string_view more = {});

}  // namespace millrace::net
