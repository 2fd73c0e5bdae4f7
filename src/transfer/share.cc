// Makes links with the signature in the query.
#include "transfer/share.h"

#include "base/units.h"
#include "net/client.h"
#include "net/signing.h"

namespace millrace::transfer {

Result<std::string> make_link(const Location& object, const ShareOptions& options, int64_t wall_ms) {
  if (object.bucket.empty() || object.key.empty())
    return make_error(Code::kInvalid, "{} names no object", object.text())
        .with_hint("links are for single objects: millrace ls shows them");
  const auto most = static_cast<uint64_t>(net::kMaxExpiresSeconds);
  if (options.expires_seconds == 0 || options.expires_seconds > most)
    return make_error(Code::kInvalid, "a link is good for 1 second to {} days, not for {} seconds",
                      most / 86400, options.expires_seconds)
        .with_hint("for example --expires 12h; millrace keys create gives rights for longer");
  const auto& credentials = object.store->credentials();
  if (!credentials)
    return make_error(Code::kDenied, "there are no keys to sign a link to {} with", object.text())
        .with_hint(
            "set MILLRACE_ACCESS_KEY and MILLRACE_SECRET_KEY (AWS_… for s3://), or millrace alias set");
  net::Url url = object.url;
  net::SignedRequest request;
  request.method = options.right == ShareOptions::Right::kRead ? "GET" : "PUT";
  request.path = url.path;
  request.query = url.query;
  request.headers.emplace_back("host", net::host_header(url));
  url.query =
      net::presign(std::move(request), *credentials, static_cast<int64_t>(options.expires_seconds), wall_ms);
  return url.text();
}

}  // namespace millrace::transfer
