// Stores: addresses of objects turned into a store that answers and the bucket and key in it.
//
//   http(s)://host/bucket/key  that host; keys from MILLRACE_ACCESS_KEY and MILLRACE_SECRET_KEY, if set
//   mr://bucket/key            the store at MILLRACE_ENDPOINT (http://127.0.0.1:9400); the same keys
//   mr+prod://bucket/key       the store that the alias prod stands for (aliases.h)
//   s3://bucket/key            AWS_ENDPOINT_URL or Amazon; keys from the environment or ~/.aws
//
// TLS: MILLRACE_CA_FILE names authorities to trust, MILLRACE_INSECURE_TLS trusts any certificate.
// MILLRACE_TIMEOUT: how long a store may be silent. MILLRACE_PATIENCE: how long one that answered may be
// away. A Store keeps its connections; all threads share it. Stores is thread-safe and outlives its
// locations.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "net/client.h"
#include "transfer/aliases.h"

namespace millrace::transfer {

// What the environment says about stores.
struct Settings {
  std::string endpoint = "http://127.0.0.1:9400";
  std::optional<net::Credentials> credentials;
  std::vector<Alias> aliases;
  std::string aws_endpoint;  // empty: Amazon
  std::optional<net::Credentials> aws_credentials;
  std::string aws_region = "us-east-1";
  net::Verify verify = net::Verify::kPeer;
  std::string ca_file;
  std::string user_agent = net::ClientOptions().user_agent;
  net::Timeouts timeouts;
  int64_t patience_ms = net::ClientOptions().patience_ms;
  int most_attempts = net::ClientOptions().most_attempts;
  // What is learnt of clusters; copies of the settings share it.
  std::shared_ptr<net::Neighbours> neighbours = std::make_shared<net::Neighbours>();
};
Result<Settings> read_settings();
// The settings of one section in the text of ~/.aws/credentials or ~/.aws/config.
using Profile = std::map<std::string, std::string>;
Profile read_profile(std::string_view text, std::string_view section);
std::map<std::string, Profile> read_profiles(std::string_view text);  // by section

class Store {
 public:
  net::Client& client() { return *client_; }
  // Whether it is worth asking where a large object would lie: not after the store has said nothing once.
  bool tells_places() const { return tells_places_; }
  void note_no_places() { tells_places_ = false; }
  // What requests are signed with.
  const std::optional<net::Credentials>& credentials() const { return credentials_; }
  // Buckets are the first part of the path, or of the host name as Amazon wants it.
  net::Url url(const std::string& bucket, const std::string& key, std::string query = {}) const;
  // The address as a person would write it.
  std::string text(const std::string& bucket, const std::string& key) const;

 private:
  friend class Stores;
  enum class BucketIn { kPath, kHost };
  net::Url endpoint_;
  BucketIn bucket_in_ = BucketIn::kPath;
  std::string shown_;  // "mr://", "http://host:9400/"
  std::optional<net::Credentials> credentials_;
  std::unique_ptr<net::Client> client_;
  std::atomic<bool> tells_places_ = true;
};

struct Location {
  Store* store = nullptr;
  std::string bucket;  // empty: the store itself
  std::string key;     // empty: the bucket
  // The address as given, for servers that are no object stores and for presigned addresses.
  net::Url url;
  std::string text() const { return store->text(bucket, key); }
  Location with_key(const std::string& other) const;
};

class Stores {
 public:
  // Cutting the lifeline, where there is one, ends every call to any of the stores.
  explicit Stores(Settings settings, std::shared_ptr<net::Lifeline> lifeline = nullptr)
      : settings_(std::move(settings)), lifeline_(std::move(lifeline)) {}
  const Settings& settings() const { return settings_; }

  Result<Location> find(std::string_view address);
  Result<Location> find_default();  // the store of mr://, no bucket

 private:
  Result<Location> find_store(const net::Url& url);  // of an address that names a bucket
  Result<Store*> open(const std::string& shown, const net::Url& endpoint,
                      std::optional<net::Credentials> credentials);

  const Settings settings_;
  const std::shared_ptr<net::Lifeline> lifeline_;
  Mutex mutex_;
  std::map<std::string, std::unique_ptr<Store>> stores_ MR_GUARDED_BY(mutex_);  // by what is shown
};

}  // namespace millrace::transfer
