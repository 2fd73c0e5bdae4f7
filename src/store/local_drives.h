// LocalDrives: this machine's drives, as Drives.
#pragma once

#include <string>
#include <vector>

#include "store/attach.h"
#include "store/core.h"
#include "store/drives.h"
#include "store/housekeeping.h"
#include "store/scrub.h"
#include "store/shards.h"

namespace millrace::store {

class LocalDrives final : public Drives {
 public:
  // What works on drives; all of it outlives this.
  struct Parts {
    Core& core;
    Attach& attach;
    Scrubber& scrubber;
    Housekeeper& housekeeper;
    ShardIndexes& shards;
  };
  explicit LocalDrives(Parts parts) : parts_(parts) {}

  Readiness readiness() const override;
  std::vector<DriveStatus> status() override { return parts_.attach.status(); }
  Status add(const std::string& path, GivenUp given_up) override;
  Status drain(const std::string& path) override;
  Status remove(const std::string& path) override;
  Status forget(const std::string& id) override;
  ScrubStatus scrub_status() override { return parts_.scrubber.status(); }
  void scrub_now() override { parts_.scrubber.now(); }

 private:
  Parts parts_;
};

}  // namespace millrace::store
