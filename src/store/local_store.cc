// The parts of the store, wired together, started and stopped in the right order.
#include "store/local_store.h"

#include "store/attach.h"
#include "store/core.h"
#include "store/housekeeping.h"
#include "store/local_drives.h"
#include "store/local_objects.h"
#include "store/multipart.h"
#include "store/read.h"
#include "store/scrub.h"
#include "store/shards.h"

namespace millrace::store {

class LocalStore::Parts {
 public:
  Parts(StoreOptions options, Log& log) : core(std::move(options), log) {}
  ~Parts() {
    objects.stop();
    core.unpackers.stop();
    shards.stop();
    scrubber.stop();
    housekeeper.stop();
    attach.close();
  }
  Status start() {
    core.on_pending_shard = [this] { shards.wake(); };
    MR_TRY(attach.open_all());
    housekeeper.start();
    shards.start();
    scrubber.start();
    return {};
  }

  Core core;
  Attach attach{core};
  Multipart multipart{core};
  ObjectReader reader{core};
  ShardIndexes shards{core};
  Scrubber scrubber{core};
  Housekeeper housekeeper{core, multipart};
  LocalObjects objects{core, multipart, reader, shards};
  Slices slices{core, reader};
  LocalDrives drives{{core, attach, scrubber, housekeeper, shards}};
};

LocalStore::LocalStore(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
LocalStore::~LocalStore() = default;

Result<std::unique_ptr<LocalStore>> LocalStore::open(StoreOptions options, Log& log) {
  auto parts = std::make_unique<Parts>(std::move(options), log);
  MR_TRY(parts->start());
  return std::unique_ptr<LocalStore>(new LocalStore(std::move(parts)));
}

Objects& LocalStore::objects() {
  return parts_->objects;
}
Drives& LocalStore::drives() {
  return parts_->drives;
}
Slices& LocalStore::slices() {
  return parts_->slices;
}
RequestMemory& LocalStore::memory() {
  return parts_->core.memory;
}
const std::string& LocalStore::node_id() const {
  return parts_->core.node_id;
}

}  // namespace millrace::store
