// Rows, open and closed.
#include "cluster/upload_row.h"

#include <algorithm>

#include "base/clock.h"
#include "base/ids.h"
#include "cluster/hidden_bucket.h"

namespace millrace::cluster {

store::Record make_row(const store::PutOptions& options) {
  store::Record row;
  row.modified_ms = wall_ms();
  row.etag = kOpenEtag;
  row.headers = options.headers;
  row.headers.emplace_back(kTargetHeader, options.key);
  row.tags = options.tags;
  return row;
}

std::vector<store::NameValue> given_headers(const store::Record& row) {
  std::vector<store::NameValue> headers = row.headers;
  std::erase_if(headers, [](const store::NameValue& header) { return header.first == kTargetHeader; });
  return headers;
}

store::Record closed_row(store::Record row) {
  row.etag = "closing-" + make_id();
  return row;
}

store::Record open_row(store::Record row) {
  row.etag = kOpenEtag;
  return row;
}

bool is_open(const store::Record& row) {
  return row.etag == kOpenEtag;
}

}  // namespace millrace::cluster
