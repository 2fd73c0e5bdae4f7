// Makes a client for an address, with keys and endpoints from the environment.
#include "transfer/stores.h"

#include <algorithm>
#include <cstdlib>

#include "base/file.h"
#include "base/mutex.h"
#include "base/text.h"
#include "base/units.h"

namespace millrace::transfer {

namespace {

constexpr std::string_view kBlanks = " \t\r";  // lines are cut at the line feed

constexpr size_t kMaxConnections = 512;
constexpr uint64_t kMaxProfileBytes = 1 << 20;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string file_text(const char* variable, const std::string& usual) {
  const std::string named = environment(variable);
  auto text = read_file(named.empty() ? environment("HOME") + usual : named, kMaxProfileBytes);
  return text ? text.take() : "";
}

// What the files of Amazon's tools say of the profile that is chosen; the one with keys in it comes first.
Profile find_profile() {
  const std::string chosen = environment("AWS_PROFILE");
  const std::string name = chosen.empty() ? "default" : chosen;
  Profile profile = read_profile(file_text("AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials"), name);
  const std::string config = file_text("AWS_CONFIG_FILE", "/.aws/config");
  profile.merge(read_profile(config, name == "default" ? name : "profile " + name));
  return profile;
}

std::string first_of(std::initializer_list<std::string> values) {
  for (const std::string& value : values) {
    if (!value.empty()) return value;
  }
  return "";
}

void read_aws_settings(Settings& settings) {
  Profile profile = find_profile();
  settings.aws_endpoint = first_of(
      {environment("AWS_ENDPOINT_URL_S3"), environment("AWS_ENDPOINT_URL"), profile["endpoint_url"]});
  settings.aws_region = first_of(
      {environment("AWS_REGION"), environment("AWS_DEFAULT_REGION"), profile["region"], settings.aws_region});
  net::Credentials keys{environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"),
                        environment("AWS_SESSION_TOKEN"), settings.aws_region};
  if (keys.access_key.empty() || keys.secret_key.empty()) {
    keys = {profile["aws_access_key_id"], profile["aws_secret_access_key"], profile["aws_session_token"],
            settings.aws_region};
  }
  if (!keys.access_key.empty() && !keys.secret_key.empty()) settings.aws_credentials = std::move(keys);
}

// A span of time from the environment, if it is there.
Result<std::optional<int64_t>> read_ms(const char* name, uint64_t least_seconds, std::string_view meaning) {
  const std::string text = environment(name);
  if (text.empty()) return std::optional<int64_t>();
  const auto seconds = parse_seconds(text);
  constexpr uint64_t kMostSeconds = 366 * 86400;
  if (!seconds || *seconds < least_seconds || *seconds > kMostSeconds)
    return make_error(Code::kInvalid, "{} is {}: {}", name, text, meaning);
  return std::optional(static_cast<int64_t>(*seconds) * 1000);
}

}  // namespace

std::map<std::string, Profile> read_profiles(std::string_view text) {
  std::map<std::string, Profile> profiles;
  Profile* inside = nullptr;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end), kBlanks);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with('[')) {
      const bool closed = line.ends_with(']');
      inside = closed ? &profiles[std::string(line.substr(1, line.size() - 2))] : nullptr;
      continue;
    }
    const size_t equals = line.find('=');
    if (inside == nullptr || line.starts_with('#') || equals == std::string_view::npos) continue;
    inside->insert_or_assign(std::string(trim(line.substr(0, equals), kBlanks)),
                             std::string(trim(line.substr(equals + 1), kBlanks)));
  }
  return profiles;
}

Profile read_profile(std::string_view text, std::string_view section) {
  return read_profiles(text)[std::string(section)];
}

Result<Settings> read_settings() {
  Settings settings;
  if (const std::string endpoint = environment("MILLRACE_ENDPOINT"); !endpoint.empty())
    settings.endpoint = endpoint;
  const std::string access = environment("MILLRACE_ACCESS_KEY");
  const std::string secret = environment("MILLRACE_SECRET_KEY");
  if (access.empty() != secret.empty()) {
    return make_error(Code::kInvalid, "only one of MILLRACE_ACCESS_KEY and MILLRACE_SECRET_KEY is set")
        .with_hint("set both, or neither");
  }
  if (!access.empty()) settings.credentials = net::Credentials{access, secret, "", "us-east-1"};
  settings.aliases = MR_TRY(read_aliases());
  read_aws_settings(settings);
  settings.ca_file = environment("MILLRACE_CA_FILE");
  if (const auto ms = MR_TRY(read_ms("MILLRACE_TIMEOUT", 1, "how long a store may be silent, such as 30s"))) {
    settings.timeouts.io_ms = *ms;
    settings.timeouts.connect_ms = std::min(settings.timeouts.connect_ms, *ms);
  }
  if (const auto ms =
          MR_TRY(read_ms("MILLRACE_PATIENCE", 0, "how long a store may be away, such as 5m, or 0")))
    settings.patience_ms = *ms;
  if (!environment("MILLRACE_INSECURE_TLS").empty()) settings.verify = net::Verify::kInsecure;
  return settings;
}

net::Url Store::url(const std::string& bucket, const std::string& key, std::string query) const {
  net::Url url = endpoint_;
  if (!url.path.ends_with('/')) url.path += '/';
  if (!bucket.empty()) {
    if (bucket_in_ == BucketIn::kHost) {
      url.host = bucket + "." + url.host;
    } else {
      url.path += bucket;
      if (!key.empty()) url.path += '/';
    }
    url.path += net::percent_encode(key, net::Encode::kPath);
  }
  url.query = std::move(query);
  return url;
}

std::string Store::text(const std::string& bucket, const std::string& key) const {
  if (bucket.empty()) return shown_;
  return shown_ + bucket + (key.empty() ? "" : "/" + key);
}

Location Location::with_key(const std::string& other) const {
  return {store, bucket, other, store->url(bucket, other)};
}

Result<Store*> Stores::open(const std::string& shown, const net::Url& endpoint,
                            std::optional<net::Credentials> credentials) {
  const MutexLock lock(mutex_);
  std::unique_ptr<Store>& store = stores_[shown + (credentials ? "+" : "")];
  if (store) return store.get();
  net::ClientOptions options;
  options.user_agent = settings_.user_agent;
  options.verify = settings_.verify;
  options.ca_file = settings_.ca_file;
  options.timeouts = settings_.timeouts;
  options.patience_ms = settings_.patience_ms;
  options.most_attempts = settings_.most_attempts;
  options.connections_per_host = kMaxConnections;
  options.credentials = credentials;
  options.lifeline = lifeline_;
  options.neighbours = settings_.neighbours;
  auto made = std::make_unique<Store>();
  made->credentials_ = std::move(credentials);
  made->client_ = MR_TRY(net::Client::make(options));
  made->endpoint_ = endpoint;
  made->endpoint_.query.clear();
  made->shown_ = shown;
  const bool amazon = endpoint.host.starts_with("s3.") && endpoint.host.ends_with(".amazonaws.com");
  made->bucket_in_ = amazon ? Store::BucketIn::kHost : Store::BucketIn::kPath;
  store = std::move(made);
  return store.get();
}

Result<Location> Stores::find_default() {
  const net::Url endpoint = MR_TRY(net::parse_url(settings_.endpoint).within("MILLRACE_ENDPOINT"));
  Store* store = MR_TRY(open("mr://", endpoint, settings_.credentials));
  return Location{store, "", "", endpoint};
}

Result<Location> Stores::find_store(const net::Url& url) {
  if (url.scheme == "mr") return find_default();
  Location location;
  if (url.scheme == "s3") {
    const std::string endpoint = settings_.aws_endpoint.empty()
                                     ? fmt::format("https://s3.{}.amazonaws.com", settings_.aws_region)
                                     : settings_.aws_endpoint;
    const net::Url parsed = MR_TRY(net::parse_url(endpoint).within("AWS_ENDPOINT_URL"));
    location.store = MR_TRY(open("s3://", parsed, settings_.aws_credentials));
    return location;
  }
  const std::string name = url.scheme.substr(kAliasScheme.size());
  const auto alias = std::ranges::find(settings_.aliases, name, &Alias::name);
  if (alias == settings_.aliases.end()) {
    return make_error(Code::kNotFound, "there is no alias {}", name)
        .with_hint("millrace alias list shows them, millrace alias set makes one");
  }
  const net::Url endpoint = MR_TRY(net::parse_url(alias->endpoint));
  location.store = MR_TRY(
      open(url.scheme + "://", endpoint, alias->credentials ? alias->credentials : settings_.credentials));
  return location;
}

Result<Location> Stores::find(std::string_view address) {
  const net::Url url = MR_TRY(net::parse_url(address));
  Location location;
  if (url.scheme != "http" && url.scheme != "https") {
    location = MR_TRY(find_store(url));
    location.bucket = url.host;
    if (url.path.size() > 1) location.key = MR_TRY(net::percent_decode(url.path.substr(1)));
    location.url = location.store->url(location.bucket, location.key, url.query);
    return location;
  }
  net::Url endpoint = url;
  endpoint.path = "/";
  endpoint.query.clear();
  // Whoever made a presigned address has signed already.
  const bool presigned = url.query.find("X-Amz-Signature=") != std::string::npos;
  location.store = MR_TRY(open(endpoint.text(), endpoint, presigned ? std::nullopt : settings_.credentials));
  const std::string path = MR_TRY(net::percent_decode(url.path.substr(1)));
  const size_t slash = std::min(path.find('/'), path.size());
  location.bucket = path.substr(0, slash);
  location.key = path.substr(std::min(slash + 1, path.size()));
  location.url = url;
  return location;
}

}  // namespace millrace::transfer
