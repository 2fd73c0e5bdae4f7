// Opens what a bucket's settings name, and asks it.
#include "upstream/remote.h"

#include <algorithm>

#include "base/hash.h"
#include "base/text.h"
#include "net/stream.h"
#include "store/reasons.h"

namespace millrace::upstream {

namespace {

// The one who reads waits meanwhile; what the upstream does not answer twice it does not answer soon.
constexpr int kAttempts = 3;
constexpr int64_t kConnectMs = 5'000;
constexpr uint64_t kMostIndexBytes = 256 << 20;
constexpr size_t kMaxKeptHeader = 2048;
constexpr size_t kMaxKeptHeaders = 8192;

constexpr std::string_view kKept[] = {"content-type",     "content-encoding", "content-disposition",
                                      "content-language", "cache-control",    "expires"};

Error bad_upstream(const store::UpstreamSettings& settings, std::string_view why) {
  return make_error(Code::kInvalid, "the upstream {}: {}", printable(settings.url, 200), why)
      .with_hint("for example s3://bucket/prefix, mr://HOST:PORT/bucket/prefix or https://host/path");
}

// mr://HOST:PORT/bucket/prefix names another Millrace; the address of an object says only bucket and key.
struct Address {
  std::string url;
  std::string endpoint;
};
Address split_address(const store::UpstreamSettings& settings) {
  constexpr std::string_view kScheme = "mr://";
  Address address{settings.url, settings.endpoint};
  if (!settings.url.starts_with(kScheme)) return address;
  const std::string_view rest = std::string_view(settings.url).substr(kScheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  if (rest.substr(0, slash).find(':') == std::string_view::npos) return address;
  address.endpoint = "http://" + std::string(rest.substr(0, slash));
  address.url = std::string(kScheme) + std::string(rest.substr(std::min(slash + 1, rest.size())));
  return address;
}

// Addresses are shown, so they are refused without being repeated where they may hold a secret.
Status check_no_secrets(const store::UpstreamSettings& settings) {
  for (const std::string* address : {&settings.url, &settings.endpoint}) {
    const size_t scheme = address->find("://");
    const size_t begin = scheme == std::string::npos ? 0 : scheme + 3;
    const std::string authority = address->substr(begin, address->find('/', begin) - begin);
    if (authority.find('@') == std::string::npos && address->find('?') == std::string::npos) continue;
    return make_error(Code::kInvalid, "the address of an upstream has a user name, a password or a query")
        .with_hint("keys are given by --keys FILE, and never in the address");
  }
  return {};
}

Status check_settings(const store::UpstreamSettings& settings, const net::Url& url, const Address& address) {
  const bool is_http = url.scheme == "http" || url.scheme == "https";
  if (url.scheme.starts_with("mr+"))
    return bad_upstream(settings, "an alias is known to one user's machine, not to nodes");
  if (url.scheme == "mr" && address.endpoint.empty())
    return bad_upstream(settings, "mr:// without a host says no node");
  if (is_http && !settings.access_key.empty())
    return bad_upstream(settings,
                        "requests to plain HTTP servers are not signed, so there is no use for keys");
  if (is_http && !settings.endpoint.empty())
    return bad_upstream(settings, "the address says the host already; an endpoint is for s3:// and mr://");
  if (is_http && settings.writes == store::UpstreamWrites::kThrough)
    return bad_upstream(settings, "nothing can be written to a plain HTTP server");
  return {};
}

transfer::Settings store_settings(const store::UpstreamSettings& settings, const Address& address,
                                  const RemoteOptions& options) {
  transfer::Settings wanted;
  std::optional<net::Credentials> keys;
  const std::string region = settings.region.empty() ? wanted.aws_region : settings.region;
  if (!settings.access_key.empty())
    keys = net::Credentials{settings.access_key, settings.secret_key, settings.session_token, region};
  wanted.endpoint = address.endpoint;
  wanted.credentials = keys;
  wanted.aws_endpoint = address.endpoint;
  wanted.aws_credentials = keys;
  wanted.aws_region = region;
  wanted.ca_file = options.ca_file;
  wanted.timeouts = {std::min(kConnectMs, options.timeout_ms), 0, options.timeout_ms};
  wanted.patience_ms = 0;
  wanted.most_attempts = kAttempts;
  return wanted;
}

// For questions whose answer one can do without.
transfer::Settings hasty(transfer::Settings settings) {
  constexpr int64_t kMost = 2'000;
  settings.timeouts.connect_ms = std::min(settings.timeouts.connect_ms, kMost);
  settings.timeouts.io_ms = std::min(settings.timeouts.io_ms, kMost);
  settings.most_attempts = 1;
  return settings;
}

bool is_kept(std::string_view name) {
  return name.starts_with("x-amz-meta-") || std::ranges::find(kKept, name) != std::end(kKept);
}

std::vector<store::NameValue> kept_headers(const std::vector<net::HeaderField>& headers) {
  std::vector<store::NameValue> kept;
  size_t bytes = 0;
  for (const auto& [name, value] : headers) {
    // It goes into answers: nothing may break out of its line.
    if (!is_kept(name) || value.size() > kMaxKeptHeader || printable(value) != value) continue;
    bytes += name.size() + value.size();
    if (bytes > kMaxKeptHeaders) break;
    kept.emplace_back(name, value);
  }
  return kept;
}

}  // namespace

void add_tagging(std::vector<net::HeaderField>& headers, const std::vector<store::NameValue>& tags) {
  std::string text;
  for (const auto& [name, value] : tags) {
    text += (text.empty() ? "" : "&") + net::percent_encode(name, net::Encode::kAll) + "=" +
            net::percent_encode(value, net::Encode::kAll);
  }
  if (!text.empty()) headers.emplace_back("x-amz-tagging", std::move(text));
}

RemoteHead read_remote_head(const transfer::ObjectHead& head, Etags etags) {
  RemoteHead read;
  read.size = head.size.value_or(0);
  const bool usable = head.etag.size() <= 256 && printable(head.etag) == head.etag;
  read.etag = usable ? head.etag : "";
  read.version = read.etag;
  if (read.version.empty() && head.modified_ms != 0)
    read.version = fmt::format("{} {}", head.modified_ms, read.size);
  read.headers = kept_headers(head.headers);
  read.checksum = find_checksum(head.headers, etags);
  const auto ranges = std::ranges::find(head.headers, "accept-ranges", &net::HeaderField::first);
  read.ranged = ranges != head.headers.end() && ranges->second == "bytes";
  return read;
}

Result<std::shared_ptr<Remote>> Remote::open(const store::UpstreamSettings& settings,
                                             const RemoteOptions& options) {
  MR_TRY(check_no_secrets(settings));
  const Address address = split_address(settings);
  auto url = net::parse_url(address.url);
  if (!url) return bad_upstream(settings, url.error().message());
  MR_TRY(check_settings(settings, *url, address));
  const transfer::Settings usual = store_settings(settings, address, options);
  std::shared_ptr<Remote> remote(new Remote(settings.url, usual, hasty(usual), options.lifeline));
  for (Way* way : {&remote->usual_, &remote->short_}) {
    const Status opened = remote->open_way(*way, address.url);
    if (!opened) return bad_upstream(settings, opened.error().message());
  }
  remote->is_store_ = url->scheme == "s3" || url->scheme == "mr";
  remote->is_millrace_ = url->scheme == "mr";
  if (remote->is_store_) {
    remote->prefix_ = remote->usual_.base.key;
    if (!remote->prefix_.empty() && !remote->prefix_.ends_with('/')) remote->prefix_ += '/';
  }
  return remote;
}

Remote::Remote(std::string name, const transfer::Settings& usual, const transfer::Settings& hasty_ones,
               std::shared_ptr<net::Lifeline> lifeline)
    : name_(std::move(name)),
      usual_{transfer::Stores(usual, lifeline)},
      short_{transfer::Stores(hasty_ones, lifeline)} {}

Status Remote::open_way(Way& way, const std::string& url) const {
  way.base = MR_TRY(way.stores.find(url));
  if (!way.base.url.path.ends_with('/')) way.base.url.path += '/';
  return {};
}

transfer::Location Remote::location(const std::string& key, Patience patience) const {
  const transfer::Location& base = patience == Patience::kShort ? short_.base : usual_.base;
  if (is_store_) return base.with_key(prefix_ + key);
  transfer::Location object = base;
  object.url.path += net::percent_encode(key, net::Encode::kPath);
  return object;
}

Error Remote::told(Error error) const {
  const std::string message = fmt::format("upstream {}: {}", name_, error.message());
  if (error.code() == Code::kCancelled) return make_error(Code::kCancelled, "{}", message);
  if (error.code() == Code::kNotFound) return make_error(store::kNoSuchObject, "{}", message);
  if (error.is(net::kChangedMeanwhile) || error.is(store::kUpstreamChanged))
    return make_error(store::kUpstreamChanged, "{}", message)
        .with_hint("ask again: the new version is fetched");
  if (error.is(net::kSilent))
    return make_error(store::kUpstreamSilent, "{}", message)
        .with_hint("try again; is it overloaded? what is stored here is served meanwhile");
  if (error.code() == Code::kUnavailable)
    return make_error(store::kUpstreamAway, "{}", message)
        .with_hint("is it running, and can this node reach it? what is stored here is served meanwhile");
  if (error.code() == Code::kDenied)
    return make_error(store::kUpstreamRefused, "{}", message)
        .with_hint("millrace bucket NAME --upstream URL --keys FILE gives the bucket other keys");
  return make_error(store::kUpstreamRefused, "{}", message)
      .with_hint("millrace bucket NAME shows the upstream's address: does it answer there as it should?");
}

Result<std::optional<RemoteHead>> Remote::find_head(const std::string& key, Patience patience) {
  auto found = transfer::find_head(location(key, patience));
  if (!found) return told(found.take_error());
  if (!*found) return std::optional<RemoteHead>();
  if (!(*found)->size) {
    return told(make_error(Code::kUnsupported, "it does not say how long {} is", printable(key, 256)));
  }
  return std::optional(read_remote_head(**found, is_store_ ? Etags::kMayBeMd5 : Etags::kOpaque));
}

Result<std::unique_ptr<net::RangedReader>> Remote::read(const std::string& key, net::ByteRange range,
                                                        const RemoteHead& head) {
  const transfer::Location object = location(key);
  return net::RangedReader::open(object.store->client(), object.url, {range, head.etag, {}});
}

std::optional<std::string> Remote::find_index(const std::string& key, const RemoteHead& head) {
  if (!is_millrace_ || head.etag.empty()) return std::nullopt;
  const transfer::Location object = location(key);
  net::Request request;
  request.url = object.url;
  request.url.query = "index";
  request.headers.emplace_back("if-match", head.etag);
  auto response = object.store->client().send(request);
  if (!response || response->status() != 200) return std::nullopt;
  auto index = response->read_all(kMostIndexBytes);
  return index ? std::optional(index.take()) : std::nullopt;
}

Result<transfer::ListedPage> Remote::list(const store::ListOptions& options) {
  transfer::PageOptions page;
  page.delimiter = options.delimiter;
  page.limit = options.limit;
  if (!options.after.empty()) page.after = prefix_ + options.after;
  auto listed = transfer::list_page(location(options.prefix), page);
  if (!listed) {
    Error error = listed.take_error();
    if (error.code() == Code::kNotFound) error = make_error(Code::kUnsupported, "{}", error.message());
    return told(std::move(error));
  }
  const auto strip = [&](std::string& name) { name.erase(0, std::min(prefix_.size(), name.size())); };
  // Names that are none here cannot be asked for.
  std::erase_if(listed->listing.objects, [&](const transfer::ObjectSummary& object) {
    return !object.key.starts_with(prefix_) || !store::check_key(object.key.substr(prefix_.size()));
  });
  for (transfer::ObjectSummary& object : listed->listing.objects) strip(object.key);
  for (std::string& prefix : listed->listing.prefixes) strip(prefix);
  return listed;
}

Status Remote::put(const std::string& key, net::RequestBody body, std::vector<net::HeaderField> headers) {
  net::Request request;
  const transfer::Location object = location(key);
  request.method = "PUT";
  request.url = object.url;
  request.headers = std::move(headers);
  request.body = std::move(body);
  request.repeat = net::Repeat::kNever;
  auto response = object.store->client().send(request);
  if (!response) return told(response.take_error());
  if (response->status() == 412)
    return make_error(store::kConditionFailed,
                      "upstream {}: the object is not the one that the condition names", name_);
  if (!response->is_success()) return told(net::answer_error(request, *response));
  response->finish();
  return {};
}

Status Remote::remove(const std::string& key) {
  const Status removed = transfer::remove_object(location(key));
  if (removed || removed.error().code() == Code::kNotFound) return {};
  return told(removed.error().copy());
}

}  // namespace millrace::upstream
