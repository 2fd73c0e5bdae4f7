// UploadRow: what the record of an upload's row says. Pure.
#pragma once

#include <string>

#include "store/objects.h"
#include "store/record.h"

namespace millrace::cluster {

inline constexpr std::string_view kOpenEtag = "open";

store::Record make_row(const store::PutOptions& options);
// Its headers as they were given.
std::vector<store::NameValue> given_headers(const store::Record& row);
// The row as whoever completes the upload writes it. Its etag is new each time.
store::Record closed_row(store::Record row);
store::Record open_row(store::Record row);
bool is_open(const store::Record& row);

}  // namespace millrace::cluster
