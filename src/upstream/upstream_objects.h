// UpstreamObjects: the objects of a store of which some buckets are in front of other storage.
//
// It stands before the objects of one machine or of a cluster. What is stored there is given from there; what
// is not is fetched from the bucket's upstream, stored, and given to all who read it while it comes. Buckets
// without an upstream are served as if this were not here.
//
// Promises of Objects hold for what is stored. What is only upstream has its promises. A bucket whose
// settings do not allow writes refuses them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/workers.h"
#include "net/lifeline.h"
#include "store/objects.h"
#include "upstream/eviction.h"
#include "upstream/fetches.h"
#include "upstream/lookups.h"
#include "upstream/read_times.h"
#include "upstream/through_writer.h"
#include "upstream/upstreams.h"

namespace millrace::upstream {

struct UpstreamOptions {
  uint64_t memory = 256 << 20;  // for bytes on their way
  int64_t timeout_ms = 20'000;  // of upstreams, without a byte
  std::string ca_file;          // by which their certificates are known; empty: the system's authorities
  std::string address;          // under which other nodes of the cluster reach this one; empty: alone
  unsigned evict_above_percent = 90;
  unsigned evict_to_percent = 85;
  std::function<std::vector<DriveFill>()> drives;  // may block; empty: nothing is evicted
};

class UpstreamObjects final : public store::Objects {
 public:
  // The objects and the log outlive it.
  UpstreamObjects(store::Objects& objects, const UpstreamOptions& options, Log& log);
  ~UpstreamObjects() override;
  // Ends what is under way. Before the objects are closed.
  void stop();

  FetchCounts counts() const { return fetches_.counts(); }
  EvictionCounts evicted() const { return eviction_.counts(); }

  std::shared_ptr<const store::Bucket> find_bucket(std::string_view name) const override;
  std::vector<std::shared_ptr<const store::Bucket>> buckets() const override;
  void create_bucket(const std::string& name, store::BucketSettings settings,
                     store::Done<void> done) override;
  void change_bucket(const std::string& name, store::BucketSettings settings,
                     store::Done<void> done) override;
  void remove_bucket(const std::string& name, store::Done<void> done) override;

  store::ObjectPointer find(std::string_view bucket, std::string_view key) override;
  void get(const std::string& bucket, const std::string& key,
           store::Done<store::ObjectPointer> done) override;
  std::unique_ptr<store::Reader> open(store::ObjectPointer object, store::Comparing comparing) override;
  store::Cached cached(const store::Object& object) const override;
  void prefetch(const std::string& bucket, std::vector<std::string> keys,
                store::Done<std::vector<store::Prefetched>> done) override;
  std::string where(const store::Object& object) const override;
  std::string place(const std::string& bucket, const std::string& key, uint64_t size) const override;
  std::string nodes(const store::Object& object) const override;
  std::optional<std::string> find_holder(const store::Object& object, uint64_t offset,
                                         uint64_t size) const override;
  void shard_index(store::ObjectPointer object,
                   store::Done<std::shared_ptr<const std::string>> done) override;
  void list(const std::string& bucket, store::ListOptions options,
            store::Done<store::ListPage> done) override;

  Result<std::unique_ptr<store::Writer>> put(store::PutOptions options) override;
  void remove(const std::string& bucket, const std::string& key, store::Condition condition,
              store::Done<void> done) override;
  void set_tags(const std::string& bucket, const std::string& key, std::vector<store::NameValue> tags,
                store::Done<store::ObjectPointer> done) override;

  void create_upload(store::PutOptions options, store::Done<std::string> done) override;
  Result<std::unique_ptr<store::Writer>> put_part(store::PartOptions options) override;
  void parts(store::UploadName name, store::Done<std::vector<store::PartStatus>> done) override;
  void upload(store::UploadName name, store::Done<store::UploadStatus> done) override;
  void uploads(const std::string& bucket, store::Done<std::vector<store::UploadStatus>> done) override;
  void complete_upload(store::Completion completion, store::Done<store::ObjectPointer> done) override;
  void abort_upload(store::UploadName name, store::Done<void> done) override;

 private:
  using Pointer = std::shared_ptr<const Upstream>;
  struct Name {
    std::string bucket;
    std::string key;
  };

  // Asks the upstream about an object that is not stored here, or cannot be read.
  void get_missing(const Pointer& upstream, const Name& name, Error why,
                   store::Done<store::ObjectPointer> done);
  void give_remote(std::shared_ptr<const RemoteObject> object, store::Done<store::ObjectPointer> done);
  // Asks it whether a stored object is still the one that it has, where the settings want that.
  void get_stored(const Pointer& upstream, const Name& name, store::ObjectPointer object,
                  store::Done<store::ObjectPointer> done);
  void take_check(const Pointer& upstream, const store::ObjectPointer& object, const Lookups::Found& found,
                  store::Done<store::ObjectPointer> done);
  bool needs_check(const Upstream& upstream, const store::Object& object) const;
  store::Prefetched begin_prefetch(const std::string& key, Result<store::ObjectPointer> found);
  using Index = std::shared_ptr<const std::string>;
  void index_when_stored(const std::shared_ptr<const RemoteObject>& object, store::Done<Index> done);
  // An error where the bucket takes no writes; null: it has no upstream.
  Result<Pointer> check_writable(const std::string& bucket);
  Status check_change(const std::string& name, const store::BucketSettings& settings);
  Status drop_stored(const std::string& bucket);
  Status remove_through(const Upstream& upstream, const Name& name);

  store::Objects& objects_;
  Log& log_;
  const std::string address_;
  const std::shared_ptr<net::Lifeline> lifeline_;
  const std::shared_ptr<FetchMemory> memory_;
  Workers streams_;  // take in what upstreams send
  Workers callers_;  // wait for answers of upstreams
  Workers senders_;  // send what is written through
  Upstreams upstreams_;
  Lookups lookups_;
  ReadTimes reads_;
  Eviction eviction_;
  Fetches fetches_;
  Writes writes_;
};

}  // namespace millrace::upstream
