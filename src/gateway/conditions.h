// RFC 9110's conditions, judged once for reads and for the sources of copies. Pure.
#pragma once

#include <string_view>

#include "base/result.h"
#include "net/http.h"
#include "store/record.h"

namespace millrace::gateway {

enum class Verdict { kGo, kNotModified, kFailed };

// Which headers hold the conditions: If-Match, …, or x-amz-copy-source-if-match, ….
enum class ConditionHeaders { kPlain, kCopySource };

// kGo: all conditions hold; kFailed: If-Match or If-Unmodified-Since does not; kNotModified: If-None-Match or
// If-Modified-Since does not. A date that cannot be read is passed over in plain headers, as the RFC says,
// and is an error for a copy, which must not be made by mistake.
Result<Verdict> judge_conditions(const net::RequestHead& request, const store::Record& record,
                                 ConditionHeaders headers);

// Whether a range still counts: only while the object is the one the client began with (If-Range).
bool range_applies(const net::RequestHead& request, const store::Record& record);

std::string quoted_etag(std::string_view etag);
// "\"abc\"", "W/\"abc\"" or abc -> abc
std::string_view unquoted_etag(std::string_view text);
// Does an If-Match or If-None-Match list name this etag?
bool etag_listed(std::string_view list, std::string_view etag);

}  // namespace millrace::gateway
