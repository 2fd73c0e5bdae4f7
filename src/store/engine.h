// Engine: the store as a whole: its parts wired together behind store.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "store/attach.h"
#include "store/core.h"
#include "store/housekeeping.h"
#include "store/multipart.h"
#include "store/read.h"
#include "store/scrub.h"
#include "store/shards.h"
#include "store/store.h"

namespace millrace::store {

class Engine final : public Store {
 public:
  Engine(StoreOptions options, Log& log);
  ~Engine() override;
  Status start();

  const std::string& node_id() const override { return core_.node_id; }
  RequestMemory& memory() override { return core_.memory; }

  std::shared_ptr<const Bucket> find_bucket(std::string_view name) const override;
  std::vector<std::shared_ptr<const Bucket>> buckets() const override;
  Status create_bucket(const std::string& name, BucketSettings settings) override;
  Status change_bucket(const std::string& name, BucketSettings settings) override;
  Status remove_bucket(const std::string& name) override;

  std::shared_ptr<const Object> find_object(std::string_view bucket, std::string_view key) override;
  Result<std::shared_ptr<const Object>> get_object(const std::string& bucket,
                                                   const std::string& key) override;
  std::optional<Extent> find_ready(const Object& object, uint64_t offset, uint64_t size) override;
  void prepare(std::shared_ptr<const Object> object, uint64_t offset, uint64_t size,
               std::function<void(Result<Extent>)> done) override;
  uint64_t read_window() const override { return core_.options.read_window; }
  Result<std::string> read(const Object& object, uint64_t offset, uint64_t size, Verified verified) override;
  Result<std::shared_ptr<const std::string>> shard_index(std::shared_ptr<const Object> object) override;

  Result<std::unique_ptr<Writer>> put(PutOptions options) override;
  void remove(const std::string& bucket, const std::string& key, Condition condition,
              std::function<void(Status)> done) override;
  Result<std::shared_ptr<const Object>> set_tags(const std::string& bucket, const std::string& key,
                                                 std::vector<NameValue> tags) override;

  Result<std::string> create_upload(PutOptions options) override;
  Result<std::unique_ptr<Writer>> put_part(PartOptions options) override;
  Result<std::vector<PartStatus>> parts(const std::string& bucket, const std::string& key,
                                        const std::string& upload) override;
  Result<UploadStatus> upload(const std::string& bucket, const std::string& key,
                              const std::string& upload) override;
  Result<std::vector<UploadStatus>> uploads(const std::string& bucket) override;
  Result<std::shared_ptr<const Object>> complete_upload(Completion completion) override;
  Status abort_upload(const std::string& bucket, const std::string& key, const std::string& upload) override;

  Result<ListPage> list(const std::string& bucket, const ListOptions& options) override;

  Readiness readiness() const override;
  std::vector<DriveStatus> drives() override;
  Status add_drive(const std::string& path) override;
  Status drain_drive(const std::string& path) override;
  Status remove_drive(const std::string& path) override;

  ScrubStatus scrub_status() override;
  void scrub_now() override;

 private:
  Status save_bucket(const BucketRecord& record);
  Status remove_empty_bucket(const std::string& name);

  Core core_;
  Attach attach_;
  Multipart multipart_;
  ObjectReader reader_;
  ShardIndexes shards_;
  Scrubber scrubber_;
  Housekeeper housekeeper_;
};

}  // namespace millrace::store
