// Lists of objects, and what all lists have in common.
#pragma once

#include <cstdint>
#include <string_view>

#include "gateway/call.h"
#include "gateway/s3_xml.h"

namespace millrace::gateway {

net::Task<Status> list_objects(Call& call);   // versions 1 and 2
net::Task<Status> list_versions(Call& call);  // GET bucket?versions: each object is its only version, "null"

// Numbers and encodings in the queries of lists, and who owns what.
Result<uint64_t> get_number(const Call& call, std::string_view name, uint64_t usual);
Result<uint64_t> get_limit(const Call& call, std::string_view name);  // at most 1000
Result<bool> is_url_encoded(const Call& call);
void add_owner(XmlWriter& xml, std::string_view element);

}  // namespace millrace::gateway
