// Aliases: short names for stores, with their keys, in a file of the user's own.
//
//   [prod]                           in ~/.config/millrace/aliases (or below XDG_CONFIG_HOME), mode 0600
//   endpoint = https://store:9400/
//   access_key = …                   both keys, or neither: then those of every http address are used
//   secret_key = …
//
// On the command line prod/bucket/key is an address of that store. Everywhere else mr+prod://bucket/key is.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/signing.h"

namespace millrace::transfer {

inline constexpr std::string_view kAliasScheme = "mr+";  // mr+prod://bucket/key

struct Alias {
  std::string name;
  std::string endpoint;  // scheme, host and port, with a slash at its end
  std::optional<net::Credentials> credentials;
};

std::string aliases_path();  // empty: there is no home directory
// No file: no aliases. A file that others can read is refused.
Result<std::vector<Alias>> read_aliases();
Status write_aliases(const std::vector<Alias>& aliases);

// Small letters, digits, "-" and "_" for a name; an endpoint has no path.
Result<Alias> make_alias(const std::string& name, const std::string& endpoint,
                         std::optional<net::Credentials> credentials);

// prod/bucket/key as mr+prod://bucket/key; nothing where the word does not begin with an alias.
std::optional<std::string> resolve_alias(const std::vector<Alias>& aliases, std::string_view word);

}  // namespace millrace::transfer
