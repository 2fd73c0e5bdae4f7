// Remote: the storage that a bucket is in front of: S3, plain HTTP(S), or another Millrace.
//
// Every error names the upstream and what to do next, and has one of the reasons of store/reasons.h. Keys
// never appear in a name or an error. Calls block; any thread. Cutting the lifeline ends all of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "net/lifeline.h"
#include "net/ranged.h"
#include "store/objects.h"
#include "store/upstream_settings.h"
#include "transfer/objects.h"
#include "transfer/stores.h"
#include "upstream/checksums.h"

namespace millrace::upstream {

struct RemoteOptions {
  int64_t timeout_ms = 20'000;  // without a byte
  std::string ca_file;          // empty: the system's authorities
  std::shared_ptr<net::Lifeline> lifeline;
};

// What the upstream says of one object.
struct RemoteHead {
  uint64_t size = 0;
  std::string etag;     // as it came, with quotes; empty: none
  std::string version;  // equal where the object is the same one; empty: the upstream says nothing
  std::vector<store::NameValue> headers;  // that are kept with the object
  std::optional<Checksum> checksum;       // of the whole content
  bool ranged = false;                    // parts of it can be asked for
};
RemoteHead read_remote_head(const transfer::ObjectHead& head, Etags etags);

// The header by which tags go with an object; nothing where there are none.
void add_tagging(std::vector<net::HeaderField>& headers, const std::vector<store::NameValue>& tags);

// kShort: of a question whose answer one can do without.
enum class Patience : uint8_t { kUsual, kShort };

class Remote {
 public:
  // After a question in vain no other one is asked with short patience.
  static constexpr uint64_t kRestUs = 5'000'000;

  // kInvalid where the settings name nothing that can be opened.
  static Result<std::shared_ptr<Remote>> open(const store::UpstreamSettings& settings,
                                              const RemoteOptions& options);

  const std::string& name() const { return name_; }  // as a person wrote it
  // Plain HTTP servers have no list, and take no writes.
  bool is_store() const { return is_store_; }
  bool is_ranged(const RemoteHead& head) const { return is_store_ || head.ranged; }

  // Nothing: the upstream has no such object.
  Result<std::optional<RemoteHead>> find_head(const std::string& key, Patience patience = Patience::kUsual);
  // Only the version of the head will do.
  Result<std::unique_ptr<net::RangedReader>> read(const std::string& key, net::ByteRange range,
                                                  const RemoteHead& head);
  // The shard index of that version, where the upstream is a Millrace and has one; nothing else.
  std::optional<std::string> find_index(const std::string& key, const RemoteHead& head);
  Result<transfer::ListedPage> list(const store::ListOptions& options);
  // A connection refused, a silence, a refusal: as whoever reads the bucket is told.
  Error told(Error error) const;

  Status put(const std::string& key, net::RequestBody body, std::vector<net::HeaderField> headers);
  Status remove(const std::string& key);
  transfer::Location location(const std::string& key, Patience patience = Patience::kUsual) const;

  void rest() { rest_until_us_.store(coarse_us() + kRestUs); }
  bool is_resting() const { return coarse_us() < rest_until_us_.load(); }

 private:
  // One set of connections, with its patience.
  struct Way {
    transfer::Stores stores;
    transfer::Location base = {};
  };
  Remote(std::string name, const transfer::Settings& usual, const transfer::Settings& hasty,
         std::shared_ptr<net::Lifeline> lifeline);
  Status open_way(Way& way, const std::string& url) const;

  const std::string name_;
  Way usual_;
  Way short_;
  std::string prefix_;  // of keys in a store; empty, or with a slash at its end
  bool is_store_ = false;
  bool is_millrace_ = false;
  std::atomic<uint64_t> rest_until_us_ = 0;
};

}  // namespace millrace::upstream
