// Judges If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since and If-Range.
#include "gateway/conditions.h"

#include <optional>

#include "base/clock.h"
#include "base/text.h"

namespace millrace::gateway {

namespace {

struct Names {
  std::string_view match;
  std::string_view unmodified_since;
  std::string_view none_match;
  std::string_view modified_since;
};
constexpr Names kPlainNames = {"if-match", "if-unmodified-since", "if-none-match", "if-modified-since"};
constexpr Names kCopyNames = {"x-amz-copy-source-if-match", "x-amz-copy-source-if-unmodified-since",
                              "x-amz-copy-source-if-none-match", "x-amz-copy-source-if-modified-since"};

// Seconds; nothing: there is no such header, or one that is passed over.
Result<std::optional<int64_t>> find_date(const net::RequestHead& request, std::string_view name,
                                         ConditionHeaders headers) {
  const auto text = request.find(name);
  if (!text) return std::optional<int64_t>();
  const auto date = parse_http_date(*text);
  if (date) return std::optional(*date / 1000);
  if (headers == ConditionHeaders::kPlain) return std::optional<int64_t>();
  return make_error(Code::kInvalid, "{}: {}", name, date.error().message());
}

}  // namespace

Result<Verdict> judge_conditions(const net::RequestHead& request, const store::Record& record,
                                 ConditionHeaders headers) {
  const Names& names = headers == ConditionHeaders::kPlain ? kPlainNames : kCopyNames;
  const int64_t modified = record.modified_ms / 1000;
  if (const auto match = request.find(names.match)) {
    if (!etag_listed(*match, record.etag)) return Verdict::kFailed;
  } else {
    const auto since = MR_TRY(find_date(request, names.unmodified_since, headers));
    if (since && modified > *since) return Verdict::kFailed;
  }
  if (const auto none = request.find(names.none_match)) {
    if (etag_listed(*none, record.etag)) return Verdict::kNotModified;
  } else {
    const auto since = MR_TRY(find_date(request, names.modified_since, headers));
    if (since && modified <= *since) return Verdict::kNotModified;
  }
  return Verdict::kGo;
}

bool range_applies(const net::RequestHead& request, const store::Record& record) {
  const auto condition = request.find("if-range");
  if (!condition) return true;
  if (condition->starts_with('"') || condition->starts_with("W/")) {
    return !condition->starts_with("W/") && unquoted_etag(*condition) == record.etag;
  }
  const auto date = parse_http_date(*condition);
  return date && *date / 1000 == record.modified_ms / 1000;
}

std::string quoted_etag(std::string_view etag) {
  std::string quoted;
  quoted.reserve(etag.size() + 2);
  quoted += '"';
  quoted += etag;
  quoted += '"';
  return quoted;
}

std::string_view unquoted_etag(std::string_view text) {
  if (text.starts_with("W/")) text.remove_prefix(2);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  return text;
}

bool etag_listed(std::string_view list, std::string_view etag) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    std::string_view item = list.substr(0, comma);
    while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
    while (!item.empty() && item.back() == ' ') item.remove_suffix(1);
    if (item == "*" || unquoted_etag(item) == etag) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
  return false;
}
}  // namespace millrace::gateway
