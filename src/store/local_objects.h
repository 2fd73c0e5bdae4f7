// LocalObjects: the objects on this machine's drives, as Objects. It never opens a socket.
//
// What waits for a drive for a moment and what goes over many keys or bytes have a pool of threads each, so
// that a lookup never waits behind a list. Where too much waits, the answer is kUnavailable.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/workers.h"
#include "store/core.h"
#include "store/multipart.h"
#include "store/objects.h"
#include "store/read.h"
#include "store/shards.h"

namespace millrace::store {

// A reader of an object that this store gave away.
std::unique_ptr<Reader> open_local(ObjectReader& reader, ObjectPointer object, Comparing comparing);

class LocalObjects final : public Objects {
 public:
  LocalObjects(Core& core, Multipart& multipart, ObjectReader& reader, ShardIndexes& shards);
  // What is queued is finished, later calls are refused. Before the drives are closed.
  void stop();

  std::shared_ptr<const Bucket> find_bucket(std::string_view name) const override;
  std::vector<std::shared_ptr<const Bucket>> buckets() const override;
  void create_bucket(const std::string& name, BucketSettings settings, Done<void> done) override;
  void change_bucket(const std::string& name, BucketSettings settings, Done<void> done) override;
  void remove_bucket(const std::string& name, Done<void> done) override;

  ObjectPointer find(std::string_view bucket, std::string_view key) override;
  void get(const std::string& bucket, const std::string& key, Done<ObjectPointer> done) override;
  std::unique_ptr<Reader> open(ObjectPointer object, Comparing comparing) override;
  std::string where(const Object&) const override { return {}; }
  std::string place(const std::string&, const std::string&, uint64_t) const override { return {}; }
  std::string nodes(const Object&) const override { return {}; }
  std::optional<std::string> find_holder(const Object&, uint64_t, uint64_t) const override { return {}; }
  void shard_index(ObjectPointer object, Done<std::shared_ptr<const std::string>> done) override;
  void list(const std::string& bucket, ListOptions options, Done<ListPage> done) override;

  Result<std::unique_ptr<Writer>> put(PutOptions options) override;
  void remove(const std::string& bucket, const std::string& key, Condition condition,
              Done<void> done) override;
  void set_tags(const std::string& bucket, const std::string& key, std::vector<NameValue> tags,
                Done<ObjectPointer> done) override;

  void create_upload(PutOptions options, Done<std::string> done) override;
  Result<std::unique_ptr<Writer>> put_part(PartOptions options) override;
  void parts(UploadName name, Done<std::vector<PartStatus>> done) override;
  void upload(UploadName name, Done<UploadStatus> done) override;
  void uploads(const std::string& bucket, Done<std::vector<UploadStatus>> done) override;
  void complete_upload(Completion completion, Done<ObjectPointer> done) override;
  void abort_upload(UploadName name, Done<void> done) override;

 private:
  Status create_bucket_now(const std::string& name, BucketSettings settings);
  Status change_bucket_now(const std::string& name, BucketSettings settings);
  Status remove_bucket_now(const std::string& name);
  Status remove_empty_bucket(const std::string& name);
  Result<ListPage> list_now(const std::string& bucket, const ListOptions& options);
  Result<ObjectPointer> set_tags_now(const std::string& bucket, const std::string& key,
                                     const std::vector<NameValue>& tags);

  Core& core_;
  Multipart& multipart_;
  ObjectReader& reader_;
  ShardIndexes& shards_;
  Workers short_work_;
  Workers long_work_;
};

}  // namespace millrace::store
