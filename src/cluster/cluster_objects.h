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
#include "store/objects.h"

namespace millrace::cluster {

class ClusterObjects final : public store::Objects {
 public:
  // `callers` wait for answers of nodes, this one among them: not those that make the answers.
  // `answers` says whether a node may be sent clients, as far as this node can tell.
  ClusterObjects(Cluster& cluster, ClusterBuckets& buckets, Workers& callers,
                 std::function<bool(uint32_t)> answers)
      : cluster_(cluster), buckets_(buckets), callers_(callers), answers_(std::move(answers)) {}

  std::shared_ptr<const store::Bucket> find_bucket(std::string_view name) const override;
  std::vector<std::shared_ptr<const store::Bucket>> buckets() const override;
  void create_bucket(const std::string& name, store::BucketSettings settings, Done<void> done) override;
  void change_bucket(const std::string& name, store::BucketSettings settings, Done<void> done) override;
  void remove_bucket(const std::string& name, Done<void> done) override;

  store::ObjectPointer find(std::string_view bucket, std::string_view key) override;
  void get(const std::string& bucket, const std::string& key, Done<store::ObjectPointer> done) override;
  std::unique_ptr<store::Reader> open(store::ObjectPointer object, store::Comparing comparing) override;
  std::string where(const store::Object& object) const override;
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

 private:
  // Runs on a worker, then tells the other nodes to read the buckets again, then answers.
  void change_buckets(std::function<Status()> work, Done<void> done);
  uint32_t epoch() const { return cluster_.membership().maps()->back()->epoch(); }
  Result<bool> is_empty(const std::string& bucket);
  Status remove_empty_bucket(const std::string& name);
  void show(const ObjectName& name, FoundObject found, Done<store::ObjectPointer> done);
  // Asks the holders of a small object for its bytes, one after the other from `slot` on.
  void fetch_small(const ObjectName& name, FoundObject found, size_t slot, Done<store::ObjectPointer> done);

  // The address of the node that holds a slot; empty: it is away.
  std::string address_of(const store::Spread& spread, size_t slot) const;

  Cluster& cluster_;
  ClusterBuckets& buckets_;
  Workers& callers_;
  const std::function<bool(uint32_t)> answers_;
  mutable std::atomic<size_t> turn_ = 0;  // which copy the next client is sent to
};

}  // namespace millrace::cluster
