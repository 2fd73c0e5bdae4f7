// Reads and writes the file of aliases.
#include "transfer/aliases.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "net/url.h"
#include "transfer/stores.h"

namespace millrace::transfer {

namespace {

constexpr uint64_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxNameBytes = 32;

Status check_name(const std::string& name) {
  const bool good = !name.empty() && name.size() <= kMaxNameBytes &&
                    name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_") == std::string::npos &&
                    name.front() != '-';
  if (good) return {};
  return make_error(Code::kInvalid, "\"{}\" cannot be an alias", name)
      .with_hint("up to 32 small letters, digits, - and _");
}

}  // namespace

std::string aliases_path() {
  if (const char* config = std::getenv("XDG_CONFIG_HOME"); config != nullptr && *config != '\0')
    return std::string(config) + "/millrace/aliases";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? std::string(home) + "/.config/millrace/aliases" : "";
}

Result<Alias> make_alias(const std::string& name, const std::string& endpoint,
                         std::optional<net::Credentials> credentials) {
  MR_TRY(check_name(name));
  net::Url url = MR_TRY(net::parse_url(endpoint));
  if ((url.scheme != "http" && url.scheme != "https") || url.path != "/" || !url.query.empty()) {
    return make_error(Code::kInvalid, "{} is not the address of a store", endpoint)
        .with_hint("scheme, host and port, for example https://store:9400");
  }
  return Alias{name, url.text(), std::move(credentials)};
}

Result<std::vector<Alias>> read_aliases() {
  const std::string path = aliases_path();
  std::vector<Alias> aliases;
  struct stat facts = {};
  if (path.empty() || ::stat(path.c_str(), &facts) != 0) return aliases;
  if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return make_error(Code::kDenied, "{} has keys in it, and other users can read or change it", path)
        .with_hint("chmod 600 " + path);
  }
  const std::string text = MR_TRY(read_file(path, kMaxFileBytes));
  for (auto& [name, values] : read_profiles(text)) {
    std::optional<net::Credentials> keys;
    if (values["access_key"].empty() != values["secret_key"].empty())
      return make_error(Code::kInvalid, "{}: alias {} has one key of two", path, name)
          .with_hint("millrace alias set writes both");
    if (!values["access_key"].empty())
      keys = net::Credentials{values["access_key"], values["secret_key"], "", "us-east-1"};
    aliases.push_back(MR_TRY(make_alias(name, values["endpoint"], std::move(keys)).within(path)));
  }
  return aliases;
}

Status write_aliases(const std::vector<Alias>& aliases) {
  const std::string path = aliases_path();
  if (path.empty())
    return make_error(Code::kInvalid, "aliases have no place: HOME is not set").with_hint("set HOME");
  std::string text = "# Stores by name, written by millrace alias. Keep it readable to its owner alone.\n";
  for (const Alias& alias : aliases) {
    text += fmt::format("\n[{}]\nendpoint = {}\n", alias.name, alias.endpoint);
    if (alias.credentials) {
      text += fmt::format("access_key = {}\nsecret_key = {}\n", alias.credentials->access_key,
                          alias.credentials->secret_key);
    }
  }
  std::error_code failure;
  std::filesystem::create_directories(directory_of(path), failure);
  if (failure) return make_system_error(failure.value(), "making " + directory_of(path));
  return write_secret_file(path, text);
}

std::optional<std::string> resolve_alias(const std::vector<Alias>& aliases, std::string_view word) {
  const size_t slash = std::min(word.find('/'), word.size());
  const std::string_view name = word.substr(0, slash);
  if (std::ranges::none_of(aliases, [&](const Alias& alias) { return alias.name == name; }))
    return std::nullopt;
  return fmt::format("{}{}://{}", kAliasScheme, name, word.substr(std::min(slash + 1, word.size())));
}

}  // namespace millrace::transfer
