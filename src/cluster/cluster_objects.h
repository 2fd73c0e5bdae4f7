// ClusterObjects: the objects of a whole cluster, as every node serves them.
//
// Each object is spread over the drives that the map gives it. Promises of Objects hold while no more drives
// are lost than the bucket's redundancy allows; beyond that calls fail, and nothing wrong is given.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "cluster/cluster_buckets.h"
#include "cluster/cluster_shards.h"
#include "cluster/cluster_uploads.h"
#include "cluster/hidden_sweep.h"
#include "store/objects.h"
#include "store/request_memory.h"

namespace millrace::cluster {

class ClusterObjects final : public store::Objects {
 public:
  // All of them outlive it.
  struct Links {
    Cluster& cluster;
    ClusterBuckets& buckets;
    Workers& callers;  // wait for answers of nodes, this one among them: not those that make the answers
    HiddenSweep& sweep;
    store::RequestMemory& memory;
    // Whether a node may be sent clients, as far as this node can tell.
    std::function<bool(uint32_t)> answers;
  };
  explicit ClusterObjects(Links links)
      : cluster_(links.cluster),
        buckets_(links.buckets),
        callers_(links.callers),
        answers_(std::move(links.answers)),
        uploads_(cluster_, links.sweep),
        shards_(cluster_, *this, hidden_source(), callers_, links.memory) {}

  void start() { shards_.start(); }
  // Before the strand ends.
  void stop() { shards_.stop(); }

  std::shared_ptr<const store::Bucket> find_bucket(std::string_view name) const override;
  std::vector<std::shared_ptr<const store::Bucket>> buckets() const override;
  void create_bucket(const std::string& name, store::BucketSettings settings, Done<void> done) override;
  void change_bucket(const std::string& name, store::BucketSettings settings, Done<void> done) override;
  void remove_bucket(const std::string& name, Done<void> done) override;

  store::ObjectPointer find(std::string_view bucket, std::string_view key) override;
  void get(const std::string& bucket, const std::string& key, Done<store::ObjectPointer> done) override;
  std::unique_ptr<store::Reader> open(store::ObjectPointer object, store::Comparing comparing) override;
  std::string where(const store::Object& object) const override;
  std::string place(const std::string& bucket, const std::string& key, uint64_t size) const override;
  std::string nodes(const store::Object& object) const override;
  std::optional<std::string> find_holder(const store::Object& object, uint64_t offset,
                                         uint64_t size) const override;
  void shard_index(store::ObjectPointer object, Done<std::shared_ptr<const std::string>> done) override;
  void list(const std::string& bucket, store::ListOptions options, Done<store::ListPage> done) override;

  Result<std::unique_ptr<store::Writer>> put(store::PutOptions options) override;
  void remove(const std::string& bucket, const std::string& key, store::Condition condition,
              Done<void> done) override;
  void set_tags(const std::string& bucket, const std::string& key, std::vector<store::NameValue> tags,
                Done<store::ObjectPointer> done) override;

  void create_upload(store::PutOptions options, Done<std::string> done) override;
  Result<std::unique_ptr<store::Writer>> put_part(store::PartOptions options) override;
  void parts(store::UploadName name, Done<std::vector<store::PartStatus>> done) override;
  void upload(store::UploadName name, Done<store::UploadStatus> done) override;
  void uploads(const std::string& bucket, Done<std::vector<store::UploadStatus>> done) override;
  void complete_upload(store::Completion completion, Done<store::ObjectPointer> done) override;
  void abort_upload(store::UploadName name, Done<void> done) override;

  // Returns when all nodes that serve have read buckets, keys and transforms again. Blocks.
  Status refresh_everywhere();

 private:
  // Runs on a worker, then tells the other nodes to read the buckets again, then answers.
  void change_buckets(std::function<Status()> work, Done<void> done);
  uint32_t epoch() const { return cluster_.membership().maps()->back()->epoch(); }
  Result<bool> is_empty(const std::string& bucket) const;
  // Enough drives are there for the objects of the bucket to be encoded anew, or it has none.
  Status check_placeable(const std::string& bucket, const store::Redundancy& wanted) const;
  // Until this node's map says it. Blocks.
  Status wait_for_redundancy(const std::string& bucket, const store::Redundancy& wanted) const;
  Status remove_empty_bucket(const std::string& name);
  Status empty_closed_bucket(const std::string& name);
  ClusterShards::Get hidden_source();
  // Also of hidden buckets.
  void get_object(const ObjectName& name, Done<store::ObjectPointer> done, unsigned turn = 0);
  void show(const ObjectName& name, FoundObject found, Done<store::ObjectPointer> done, unsigned turn = 0);
  // Asks the holders of a small object for its bytes, one after the other.
  struct SmallRead;
  void fetch_small(const std::shared_ptr<SmallRead>& read);

  std::string where_of(const store::Spread& spread) const;
  // The address of the node that holds a slot; empty: it is away.
  std::string address_of(const store::Spread& spread, size_t slot) const;
  bool can_be_asked(const MapNode& node) const;

  Cluster& cluster_;
  ClusterBuckets& buckets_;
  Workers& callers_;
  const std::function<bool(uint32_t)> answers_;
  mutable std::atomic<size_t> turn_ = 0;  // which copy the next client is sent to
  ClusterUploads uploads_;
  ClusterShards shards_;
};

}  // namespace millrace::cluster
