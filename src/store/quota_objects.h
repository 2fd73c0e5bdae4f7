// QuotaObjects: objects as they are, but for writes to buckets with a quota, which wait until there is room
// for them (store/quotas.h).
//
// A body may be sent while it is judged; where there is no room, the writer says so with the next bytes.
// Parts of an upload are judged one by one and count once the upload is completed. Any thread, as Objects.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/objects.h"
#include "store/quotas.h"

namespace millrace::store {

class QuotaObjects final : public Objects {
 public:
  // The objects outlive it.
  QuotaObjects(Objects& objects, Quotas::Surroundings around)
      : objects_(objects), quotas_(objects, std::move(around)) {}
  const Quotas& quotas() const { return quotas_; }
  void stop() { quotas_.stop(); }

  std::shared_ptr<const Bucket> find_bucket(std::string_view name) const override;
  std::vector<std::shared_ptr<const Bucket>> buckets() const override;
  void create_bucket(const std::string& name, BucketSettings settings, Done<void> done) override;
  void change_bucket(const std::string& name, BucketSettings settings, Done<void> done) override;
  void remove_bucket(const std::string& name, Done<void> done) override;
  ObjectPointer find(std::string_view bucket, std::string_view key) override;
  void get(const std::string& bucket, const std::string& key, Done<ObjectPointer> done) override;
  std::unique_ptr<Reader> open(ObjectPointer object, Comparing comparing) override;
  std::string where(const Object& object) const override;
  std::string place(const std::string& bucket, const std::string& key, uint64_t size) const override;
  std::string nodes(const Object& object) const override;
  std::optional<std::string> find_holder(const Object& object, uint64_t offset, uint64_t size) const override;
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
  // Null where it has no quota.
  std::shared_ptr<const Bucket> find_limited(const std::string& bucket) const;
  // With `parts`, as far as they are known.
  void complete_within(const std::shared_ptr<const Bucket>& bucket, const Completion& completion,
                       const std::vector<PartStatus>& parts, const Done<ObjectPointer>& done);

  Objects& objects_;
  Quotas quotas_;
};

}  // namespace millrace::store
