// StoreFixture: a store on real temporary directories, and the few calls every test makes.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/testing/temporary_directory.h"
#include "store/testing/waiting_store.h"

namespace millrace::store::testing {

// Bytes of a known seed, that do not compress.
inline std::string some_bytes(size_t size, uint64_t seed) {
  std::string bytes(size, '\0');
  uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (size_t i = 0; i < size; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    bytes[i] = static_cast<char>(state >> 32);
  }
  return bytes;
}

using ObjectResult = Result<ObjectPointer>;

inline ObjectResult finish(Writer& writer, Finish finish = {}) {
  return wait_for<ObjectPointer>(
      [&](Done<ObjectPointer> done) { writer.finish(std::move(finish), std::move(done)); });
}

inline ObjectResult put(WaitingStore& store, PutOptions options, std::string_view bytes) {
  auto writer = MR_TRY(store.put(std::move(options)));
  MR_TRY(fill(*writer, bytes));
  return finish(*writer);
}

inline ObjectResult put(WaitingStore& store, const std::string& bucket, const std::string& key,
                        std::string_view bytes) {
  PutOptions options;
  options.bucket = bucket;
  options.key = key;
  options.size = bytes.size();
  return put(store, std::move(options), bytes);
}

inline Status remove(WaitingStore& store, const std::string& bucket, const std::string& key,
                     Condition condition = {}) {
  return store.remove(bucket, key, std::move(condition));
}

inline Result<std::string> get(WaitingStore& store, const std::string& bucket, const std::string& key) {
  const auto object = MR_TRY(store.get_object(bucket, key));
  return store.read(object, 0, object->record().size);
}

inline Result<Extent> prepare(WaitingStore& store, const ObjectPointer& object, uint64_t offset,
                              uint64_t size) {
  return store.prepare(object, offset, size);
}

// Beside ::testing::Test: a test's own class inherits from both.
class StoreFixture {
 protected:
  StoreFixture() : log_(LogLevel::kWarn) {}

  StoreOptions options(size_t drives) {
    StoreOptions options;
    options.state_directory = directory_.path("state");
    for (size_t i = 0; i < drives; ++i) options.drives.push_back(drive_path(i));
    options.scrub_bytes_per_second = 0;
    return options;
  }
  std::string drive_path(size_t number) { return directory_.path("drive" + std::to_string(number)); }

  // Opens (again) and makes the bucket.
  void open(size_t drives = 1) { open(options(drives)); }
  void open(const StoreOptions& options) {
    store_.reset();
    auto opened = WaitingStore::open(options, log_);
    store_ = opened.take();
    if (store_->find_bucket("data") == nullptr) store_->create_bucket("data", {}).take();
  }

  millrace::testing::TemporaryDirectory directory_;
  Log log_;
  std::unique_ptr<WaitingStore> store_;
};

}  // namespace millrace::store::testing
