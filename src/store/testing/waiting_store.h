// WaitingStore: a local store whose calls wait for their answers, for tests.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/local_store.h"
#include "store/waiting.h"

namespace millrace::store::testing {

class WaitingStore {
 public:
  static Result<std::unique_ptr<WaitingStore>> open(const StoreOptions& options, Log& log) {
    auto store = MR_TRY(LocalStore::open(options, log));
    return std::unique_ptr<WaitingStore>(new WaitingStore(std::move(store)));
  }

  Objects& objects() { return store_->objects(); }
  const std::string& node_id() const { return store_->node_id(); }

  std::shared_ptr<const Bucket> find_bucket(std::string_view name) { return objects().find_bucket(name); }
  Status create_bucket(const std::string& name, BucketSettings settings) {
    return wait<void>([&](auto done) { objects().create_bucket(name, settings, std::move(done)); });
  }
  Status change_bucket(const std::string& name, BucketSettings settings) {
    return wait<void>([&](auto done) { objects().change_bucket(name, settings, std::move(done)); });
  }
  Status remove_bucket(const std::string& name) {
    return wait<void>([&](auto done) { objects().remove_bucket(name, std::move(done)); });
  }

  ObjectPointer find_object(std::string_view bucket, std::string_view key) {
    return objects().find(bucket, key);
  }
  Result<ObjectPointer> get_object(const std::string& bucket, const std::string& key) {
    return wait<ObjectPointer>([&](auto done) { objects().get(bucket, key, std::move(done)); });
  }
  std::optional<Extent> find_ready(const ObjectPointer& object, uint64_t offset, uint64_t size) {
    return objects().open(object, Comparing::kAsBucketSays)->find_ready(offset, size);
  }
  Result<Extent> prepare(const ObjectPointer& object, uint64_t offset, uint64_t size) {
    const auto reader = objects().open(object, Comparing::kAsBucketSays);
    return wait<Extent>([&](auto done) { reader->prepare(offset, size, std::move(done)); });
  }
  Result<std::string> read(const ObjectPointer& object, uint64_t offset, uint64_t size) {
    return WaitingReader(objects(), object).read(offset, size);
  }
  Result<std::shared_ptr<const std::string>> shard_index(const ObjectPointer& object) {
    return wait<std::shared_ptr<const std::string>>(
        [&](auto done) { objects().shard_index(object, std::move(done)); });
  }
  Result<ListPage> list(const std::string& bucket, const ListOptions& options) {
    return wait<ListPage>([&](auto done) { objects().list(bucket, options, std::move(done)); });
  }

  Result<std::unique_ptr<Writer>> put(PutOptions options) { return objects().put(std::move(options)); }
  Status remove(const std::string& bucket, const std::string& key, Condition condition) {
    return wait<void>([&](auto done) { objects().remove(bucket, key, condition, std::move(done)); });
  }
  Result<ObjectPointer> set_tags(const std::string& bucket, const std::string& key,
                                 const std::vector<NameValue>& tags) {
    return wait<ObjectPointer>([&](auto done) { objects().set_tags(bucket, key, tags, std::move(done)); });
  }

  Result<std::string> create_upload(const PutOptions& options) {
    return wait<std::string>([&](auto done) { objects().create_upload(options, std::move(done)); });
  }
  Result<std::unique_ptr<Writer>> put_part(PartOptions options) {
    return objects().put_part(std::move(options));
  }
  Result<std::vector<PartStatus>> parts(const UploadName& name) {
    return wait<std::vector<PartStatus>>([&](auto done) { objects().parts(name, std::move(done)); });
  }
  Result<std::vector<UploadStatus>> uploads(const std::string& bucket) {
    return wait<std::vector<UploadStatus>>([&](auto done) { objects().uploads(bucket, std::move(done)); });
  }
  Result<ObjectPointer> complete_upload(const Completion& completion) {
    return wait<ObjectPointer>([&](auto done) { objects().complete_upload(completion, std::move(done)); });
  }
  Status abort_upload(const UploadName& name) {
    return wait<void>([&](auto done) { objects().abort_upload(name, std::move(done)); });
  }

  std::vector<DriveStatus> drives() { return store_->drives().status(); }
  Status add_drive(const std::string& path, GivenUp given_up = GivenUp::kRefuse) {
    return store_->drives().add(path, given_up);
  }
  Status drain_drive(const std::string& path) { return store_->drives().drain(path); }
  Status remove_drive(const std::string& path) { return store_->drives().remove(path); }
  ScrubStatus scrub_status() { return store_->drives().scrub_status(); }
  void scrub_now() { store_->drives().scrub_now(); }

 private:
  explicit WaitingStore(std::unique_ptr<LocalStore> store) : store_(std::move(store)) {}
  template <typename T, typename Start>
  static Result<T> wait(Start start) {
    return wait_for<T>([&](Done<T> done) { start(std::move(done)); });
  }

  std::unique_ptr<LocalStore> store_;
};

}  // namespace millrace::store::testing
