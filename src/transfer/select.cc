// Lists objects and files and keeps those that a name or glob means.
#include "transfer/select.h"

#include <fnmatch.h>

#include "base/text.h"

namespace millrace::transfer {

namespace {
constexpr std::string_view kGlobCharacters = "*?[";

std::string below(const std::string& key, size_t prefix) {
  return key.substr(std::min(prefix, key.size()));
}
}  // namespace

bool has_glob(std::string_view key) {
  return key.find_first_of(kGlobCharacters) != std::string_view::npos;
}

bool matches_glob(std::string_view key, const std::string& pattern) {
  return ::fnmatch(pattern.c_str(), std::string(key).c_str(), FNM_PATHNAME) == 0;
}

Result<std::vector<Choice>> choose_objects(const Location& address, Recursion recursion) {
  std::vector<Choice> choices;
  const std::string& key = address.key;
  const bool glob = has_glob(key);
  if (!glob && recursion == Recursion::kNo) {
    // Servers that are no object stores may keep files at their root.
    const bool file_at_root =
        key.empty() && address.url.path.size() > 1 && address.bucket.find('.') != std::string::npos;
    if (file_at_root) return std::vector<Choice>{{address, address.bucket, 0}};
    if (key.empty())
      return make_error(Code::kInvalid, "{} is not an object", address.text())
          .with_hint("name a key, or everything with -r");
    choices.push_back({address, below(key, key.rfind('/') + 1), 0});
    return choices;
  }
  std::string prefix = key.substr(0, key.find_first_of(kGlobCharacters));
  // "-r mr://b/train" means what is in train, and not train2 beside it.
  if (!glob && !prefix.empty() && !prefix.ends_with('/')) prefix += '/';
  const size_t kept = glob ? prefix.rfind('/') + 1 : prefix.size();
  MR_TRY(list_objects(address.with_key(prefix), Depth::kAll, [&](Listing& page) -> Status {
    for (const ObjectSummary& object : page.objects) {
      const bool chosen =
          !glob || matches_glob(object.key, key) ||
          (recursion == Recursion::kYes && matches_glob(object.key.substr(0, object.key.rfind('/')), key));
      // Some clients make "directories" as empty objects; there is nothing in them to fetch.
      if (!chosen || object.key.ends_with('/')) continue;
      choices.push_back({address.with_key(object.key), below(object.key, kept), object.size, true});
    }
    return {};
  }));
  if (choices.empty()) {
    return make_error(Code::kNotFound, "no object matches {}", address.text())
        .with_hint("millrace ls shows what there is");
  }
  return choices;
}

Status check_relative(std::string_view relative) {
  const auto bad = [whole = relative] {
    return make_error(Code::kInvalid, "the key {} cannot be a file name below a directory", printable(whole));
  };
  if (relative.empty() || relative.find('\0') != std::string_view::npos) return bad();
  while (true) {
    const size_t slash = relative.find('/');
    const std::string_view part = relative.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return bad();
    if (slash == std::string_view::npos) return {};
    relative.remove_prefix(slash + 1);
  }
}

}  // namespace millrace::transfer
