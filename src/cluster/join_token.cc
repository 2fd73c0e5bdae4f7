// Makes tokens, and looks for their hashes in the registry.
#include "cluster/join_token.h"

#include "net/digest.h"

namespace millrace::cluster {

namespace {

constexpr size_t kTokenBytes = 24;

std::string name_of_token(std::string_view token) {
  return "tokens/" + net::to_hex(net::digest(net::DigestKind::kSha256, token));
}

}  // namespace

Result<std::string> make_token(Registry& registry, std::chrono::milliseconds valid) {
  std::string token = net::to_hex(net::random_bytes(kTokenBytes));
  const LeaseId lease = MR_TRY(registry.grant(valid));
  const auto written = MR_TRY(registry.swap(name_of_token(token), 0, "{}", lease));
  if (!written) return make_error(Code::kExists, "this token exists already");
  return token;
}

Result<bool> check_token(Registry& registry, std::string_view token) {
  if (token.empty()) return false;
  return MR_TRY(registry.get(name_of_token(token))).has_value();
}

}  // namespace millrace::cluster
