// Who may do what: keys with their rights, as requests are judged by them.
//
// A KeyRing is an immutable snapshot. Where the keys come from (a file, later a registry) is behind
// KeySource.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/signing.h"

namespace millrace::gateway {

enum class Right { kRead, kWrite, kAdmin };

struct Grant {
  std::string bucket;  // "*": all
  bool read = false;
  bool write = false;
};
// "train:read", "train:write", "train:read-write", "*:read".
Result<Grant> parse_grant(std::string_view text);

struct Key {
  std::string access_key;
  std::string secret_key;
  std::string note;
  bool admin = false;  // may do everything, also under /-/
  std::vector<Grant> grants;
  bool may(Right right, std::string_view bucket) const;
};
// A fresh pair from the kernel's generator.
Key make_key();

class KeyRing {
 public:
  const Key* find(std::string_view access_key) const;
  bool empty() const { return keys_.empty(); }
  const std::vector<Key>& keys() const { return keys_; }
  void add(Key key);
  bool remove(std::string_view access_key);

 private:
  std::vector<Key> keys_;
};

// Thread-safe.
class KeySource {
 public:
  virtual ~KeySource() = default;
  // The keys as they are now; never blocks for long.
  virtual std::shared_ptr<const KeyRing> current() = 0;
};

// Who asks. In open mode (no keys, loopback or --insecure) everyone may do everything.
struct Caller {
  bool open = false;
  std::shared_ptr<const KeyRing> ring;  // keeps `key` alive
  const Key* key = nullptr;             // nothing: anonymous
  std::optional<net::SignatureClaim> claim;
  bool may(Right right, std::string_view bucket) const {
    return open || (key != nullptr && key->may(right, bucket));
  }
};

}  // namespace millrace::gateway
