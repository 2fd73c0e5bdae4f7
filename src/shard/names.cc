// Expands braces, counts, unions and globs.
#include "shard/names.h"

#include <glob.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/file.h"
#include "base/number.h"
#include "base/text.h"
#include "net/url.h"
#include "shard/command.h"
#include "transfer/select.h"

namespace millrace::shard {

namespace {

using Names = std::vector<std::string>;

Error bad_names(std::string_view specification, std::string_view why) {
  return make_error(Code::kInvalid, "shard names \"{}\": {}", specification, why)
      .with_hint("for example train-{000000..000099}.tar, train-@000100.tar, {train,val}.tar or data/*.tar");
}

// The alternatives inside one pair of braces.
Result<Names> alternatives(std::string_view inside, std::string_view specification) {
  const size_t dots = inside.find("..");
  if (dots == std::string_view::npos) {
    Names names;
    while (true) {
      const size_t comma = inside.find(',');
      names.emplace_back(inside.substr(0, comma));
      if (comma == std::string_view::npos) return names;
      inside.remove_prefix(comma + 1);
    }
  }
  const std::string_view low_text = inside.substr(0, dots);
  const auto low = parse_number<uint64_t>(low_text);
  const auto high = parse_number<uint64_t>(inside.substr(dots + 2));
  if (!low || !high) return bad_names(specification, "a range is two whole numbers");
  if (*high < *low) return bad_names(specification, "a range runs from the smaller number to the larger");
  if (*high - *low >= kMaxNames) return bad_names(specification, "names too many shards");
  // Padded to the wider of the two where the first is written with leading zeros.
  const bool is_padded = low_text.starts_with('0') && low_text.size() > 1;
  const size_t width = is_padded ? std::max(low_text.size(), inside.size() - dots - 2) : 0;
  Names names;
  for (uint64_t step = 0; step <= *high - *low; ++step) {
    names.push_back(fmt::format("{:0{}}", *low + step, width));
  }
  return names;
}

Status append_product(Names& heads, const Names& middles, std::string_view specification) {
  if (heads.size() * middles.size() > kMaxNames) return bad_names(specification, "names too many shards");
  Names joined;
  joined.reserve(heads.size() * middles.size());
  for (const std::string& head : heads) {
    for (const std::string& middle : middles) joined.push_back(head + middle);
  }
  heads = std::move(joined);
  return {};
}

// "@000124" outside braces is the range of that many numbers, padded to as many digits.
std::optional<Names> counted(std::string_view text, size_t at, size_t& end) {
  end = at + 1;
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
  const auto count = parse_number<uint64_t>(text.substr(at + 1, end - at - 1));
  if (!count || *count == 0 || *count > kMaxNames) return std::nullopt;
  Names names;
  const size_t width = end - at - 1;
  for (uint64_t number = 0; number < *count; ++number) names.push_back(fmt::format("{:0{}}", number, width));
  return names;
}

// `specials` says what is undone: braces, or counts too.
Result<Names> expand_one(std::string_view text, std::string_view specials) {
  Names names = {""};
  const std::string_view whole = text;
  while (!text.empty()) {
    const size_t special = text.find_first_of(specials);
    if (special != 0) {
      MR_TRY(append_product(names, {std::string(text.substr(0, special))}, whole));
      text.remove_prefix(std::min(special, text.size()));
      continue;
    }
    if (text[0] == '@') {
      size_t end = 0;
      const std::optional<Names> numbers = counted(text, 0, end);
      MR_TRY(append_product(names, numbers.value_or(Names{std::string(text.substr(0, end))}), whole));
      text.remove_prefix(end);
      continue;
    }
    const size_t close = text.find('}');
    if (close == std::string_view::npos) return bad_names(whole, "a { has no }");
    const Names inside = MR_TRY(alternatives(text.substr(1, close - 1), whole));
    MR_TRY(append_product(names, inside, whole));
    text.remove_prefix(close + 1);
  }
  return names;
}

Result<Names> expand_glob(const std::string& pattern) {
  glob_t found = {};
  const int code = ::glob(pattern.c_str(), 0, nullptr, &found);
  Names names(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (code == GLOB_NOMATCH) return make_error(Code::kNotFound, "no file matches {}", pattern);
  if (code != 0) return make_error(Code::kIo, "looking for files that match {}", pattern);
  return names;
}

}  // namespace

namespace {

// "::" parts a union; the one inside http://[::1]/ does not.
size_t find_union(std::string_view specification) {
  const size_t authority = net::is_url(specification) ? specification.find("://") + 3 : 0;
  const bool bracketed = authority > 0 && specification.substr(authority).starts_with('[');
  return specification.find("::", bracketed ? specification.find(']', authority) : authority);
}

Result<Names> match_in_store(const std::string& address, transfer::Stores* stores) {
  if (stores == nullptr)
    return make_error(Code::kInvalid, "{}: a glob in an address is not expanded here", address);
  const transfer::Location pattern = MR_TRY(stores->find(address));
  if (!pattern.url.query.empty() || !transfer::has_glob(pattern.key)) return Names{address};
  Names names;
  for (const transfer::Choice& choice : MR_TRY(transfer::choose_objects(pattern, transfer::Recursion::kNo))) {
    // Written so that it is read back as the same key.
    const net::Url& url = choice.location.url;
    names.push_back(address.starts_with("http") ? url.text() : choice.location.text());
  }
  return names;
}

Status expand_globs(Names& names, const Names& expanded, transfer::Stores* stores) {
  for (const std::string& name : expanded) {
    // A command's own globs are its shell's.
    if (is_pipe(name) || name.find_first_of("*?[") == std::string::npos) {
      names.push_back(name);
      continue;
    }
    const Names matches = MR_TRY(net::is_url(name) ? match_in_store(name, stores) : expand_glob(name));
    names.insert(names.end(), matches.begin(), matches.end());
  }
  return {};
}

}  // namespace

namespace {

// The letters before "://", lower case; nothing where it is no address.
std::string scheme_of(std::string_view name) {
  const size_t colon = name.find("://");
  if (colon == std::string_view::npos || colon == 0) return {};
  const std::string scheme = lower_case(name.substr(0, colon));
  const bool is_scheme = std::ranges::all_of(scheme, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-';
  });
  return is_scheme ? scheme : std::string();
}

std::string hint_for(const std::string& scheme) {
  if (scheme == "gs") {
    return "Google's store speaks S3: s3://bucket/key with AWS_ENDPOINT_URL=https://storage.googleapis.com "
           "and "
           "an HMAC key";
  }
  if (scheme == "ftp" || scheme == "ftps" || scheme == "sftp" || scheme == "scp") {
    return "copy the shards to a drive or a store first, or stream them: pipe:curl -s ADDRESS with "
           "MILLRACE_ALLOW_PIPE=1 and no index (indexed=False, --stream)";
  }
  return "there are paths and the addresses http://, https://, s3:// and mr://; other sources by a command: "
         "pipe:…";
}

Result<std::string> find_home(std::string_view name) {
  const std::string user(name.substr(1, std::min(name.find('/'), name.size()) - 1));
  const char* own = std::getenv("HOME");
  if (user.empty() && own != nullptr && *own != '\0') return std::string(own);
  const passwd* entry = user.empty() ? ::getpwuid(::geteuid()) : ::getpwnam(user.c_str());
  if (entry != nullptr) return std::string(entry->pw_dir);
  return make_error(Code::kNotFound, "{}: there is no home of {}", name, user.empty() ? "this user" : user)
      .with_hint("a file whose name begins with ~ is written ./~name");
}

}  // namespace

Result<std::string> plain_name(std::string_view name) {
  if (net::is_url(name) || is_pipe(name) || file_exists(std::string(name))) return std::string(name);
  if (name.starts_with('~')) {
    const std::string home = MR_TRY(find_home(name));
    return home + std::string(name.substr(std::min(name.find('/'), name.size())));
  }
  const std::string scheme = scheme_of(name);
  if (scheme.empty()) return std::string(name);
  const std::string_view rest = name.substr(scheme.size() + 3);
  if (scheme == "file" && rest.starts_with('/')) return std::string(rest);
  if (scheme == "file") return make_error(Code::kInvalid, "{}: a file's address is file:///path", name);
  return make_error(Code::kUnsupported, "{}: {} addresses are not opened here", name, scheme)
      .with_hint(hint_for(scheme));
}

Result<Names> expand_braces(std::string_view address) {
  if (address.empty()) return bad_names(address, "is empty");
  return expand_one(address, "{");
}

Result<Names> expand_names(std::string_view specification, transfer::Stores* stores) {
  if (specification.empty()) return bad_names(specification, "is empty");
  // A file that is really called so is meant itself, as a whole or as a part: a::b, me@2.tar, a[1].tar.
  if (!net::is_url(specification) && file_exists(std::string(specification)))
    return Names{std::string(specification)};
  Names names;
  while (true) {
    const size_t separator = find_union(specification);
    const std::string literal(specification.substr(0, separator));
    if (!net::is_url(literal) && file_exists(literal)) {
      names.push_back(literal);
    } else {
      const std::string plain = MR_TRY(plain_name(literal));
      const Names expanded = MR_TRY(expand_one(plain, "{@"));
      MR_TRY(expand_globs(names, expanded, stores));
    }
    if (names.size() > kMaxNames) return bad_names(specification, "names too many shards");
    if (separator == std::string_view::npos) return names;
    specification.remove_prefix(separator + 2);
  }
}

Result<Names> expand_names(const std::vector<std::string>& specifications, transfer::Stores* stores) {
  Names names;
  for (const std::string& specification : specifications) {
    const Names some = MR_TRY(expand_names(specification, stores));
    names.insert(names.end(), some.begin(), some.end());
  }
  return names;
}

Result<OutputName> OutputName::parse(std::string_view pattern) {
  const auto bad = [&](std::string_view why) {
    return make_error(Code::kInvalid, "output name \"{}\": {}", pattern, why)
        .with_hint("for example train-%06d.tar");
  };
  if (pattern.empty()) return bad("is empty");
  OutputName name;
  const std::string plain = MR_TRY(plain_name(pattern));
  pattern = plain;
  for (size_t at = 0; at < pattern.size(); ++at) {
    std::string& part = name.numbered_ ? name.after_ : name.before_;
    if (pattern[at] != '%') {
      part += pattern[at];
      continue;
    }
    if (pattern.substr(at + 1, 1) == "%") {
      part += '%';
      ++at;
      continue;
    }
    if (name.numbered_) return bad("has two places for the number");
    size_t end = at + 1;
    while (end < pattern.size() && pattern[end] >= '0' && pattern[end] <= '9') ++end;
    if (end >= pattern.size() || pattern[end] != 'd' || end - at > 3)
      return bad("a number is written %d or %06d");
    name.numbered_ = true;
    name.width_ = static_cast<int>(parse_number<uint64_t>(pattern.substr(at + 1, end - at - 1)).value_or(0));
    at = end;
  }
  return name;
}

std::string OutputName::at(uint64_t number) const {
  if (!numbered_) return before_;
  return before_ + fmt::format("{:0{}}", number, width_) + after_;
}

}  // namespace millrace::shard
