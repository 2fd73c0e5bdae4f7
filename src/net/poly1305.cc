// OpenSSL's Poly1305.
#include "net/poly1305.h"

#include <openssl/evp.h>

#include <memory>

#include "base/assert.h"

namespace millrace::net {

std::string poly1305(std::string_view key, std::string_view bytes, std::string_view more) {
  MR_ASSERT(key.size() == kPoly1305KeyBytes);
  struct Free {
    void operator()(EVP_MAC* mac) const { EVP_MAC_free(mac); }
    void operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }
  };
  static const std::unique_ptr<EVP_MAC, Free> algorithm(EVP_MAC_fetch(nullptr, "POLY1305", nullptr));
  const std::unique_ptr<EVP_MAC_CTX, Free> context(EVP_MAC_CTX_new(algorithm.get()));
  std::string tag(16, '\0');
  size_t size = 0;
  const auto raw = [](std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); };
  const bool done =
      context != nullptr && EVP_MAC_init(context.get(), raw(key), key.size(), nullptr) == 1 &&
      EVP_MAC_update(context.get(), raw(bytes), bytes.size()) == 1 &&
      EVP_MAC_update(context.get(), raw(more), more.size()) == 1 &&
      EVP_MAC_final(context.get(), reinterpret_cast<unsigned char*>(tag.data()), &size, tag.size()) == 1;
  MR_ASSERT(done && size == tag.size());
  return tag;
}

}  // namespace millrace::net
