// Parses grants, judges rights, makes keys.
#include "gateway/access.h"

#include <algorithm>
#include <utility>

#include "net/digest.h"

namespace millrace::gateway {

namespace {

std::string random_text(size_t length, std::string_view alphabet) {
  std::string text;
  while (text.size() < length) {
    for (const char c : net::random_bytes(length)) {
      const auto value = static_cast<unsigned char>(c);
      // Only whole multiples of the alphabet, so that every letter is as likely.
      if (value < 256 / alphabet.size() * alphabet.size() && text.size() < length)
        text += alphabet[value % alphabet.size()];
    }
  }
  return text;
}

}  // namespace

Result<Grant> parse_grant(std::string_view text) {
  const size_t colon = text.rfind(':');
  const std::string_view rights =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  Grant grant;
  grant.bucket = text.substr(0, colon);
  grant.read = rights == "read" || rights == "read-write";
  grant.write = rights == "write" || rights == "read-write";
  if (grant.bucket.empty() || (!grant.read && !grant.write)) {
    return make_error(Code::kInvalid, "\"{}\" does not say who may do what", text)
        .with_hint("BUCKET:read, BUCKET:write or BUCKET:read-write; * is every bucket");
  }
  return grant;
}

bool Key::may(Right right, std::string_view bucket) const {
  if (admin) return true;
  return std::any_of(grants.begin(), grants.end(), [&](const Grant& grant) {
    if (grant.bucket != "*" && grant.bucket != bucket) return false;
    return right == Right::kRead ? grant.read : right == Right::kWrite && grant.write;
  });
}

Key make_key() {
  Key key;
  key.access_key = "MR" + random_text(18, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567");
  key.secret_key = random_text(40, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
  return key;
}

const Key* KeyRing::find(std::string_view access_key) const {
  const auto found =
      std::find_if(keys_.begin(), keys_.end(), [&](const Key& key) { return key.access_key == access_key; });
  return found == keys_.end() ? nullptr : &*found;
}

void KeyRing::add(Key key) {
  keys_.push_back(std::move(key));
}

bool KeyRing::remove(std::string_view access_key) {
  return std::erase_if(keys_, [&](const Key& key) { return key.access_key == access_key; }) > 0;
}

}  // namespace millrace::gateway
