// Salvage: reading an archive that may be damaged, without stopping at the damage.
//
// Gives every group that can be read and every problem met, in order. Used by verify and repair; one thread.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "shard/verify.h"
#include "tar/group.h"
#include "tar/reader.h"

namespace millrace::shard {

class Salvage {
 public:
  struct Calls {
    // `beside_damage`: bytes next to this sample were lost, so it may lack members.
    std::function<Status(const tar::Group&, bool beside_damage)> sample;
    std::function<void(Problem)> problem;
    std::function<Status(const tar::Member&)> member;  // optional; its bytes are in the window's sight
  };

  Salvage(tar::Window& window, std::string name, const tar::ReadOptions& options, Calls calls);

  Status run();

  // Behind the end blocks, or where reading stopped.
  uint64_t end_offset() const { return members_.offset(); }
  uint64_t members() const { return members_seen_; }
  uint64_t samples() const { return grouper_.samples(); }
  uint64_t loose_members() const { return grouper_.loose_members(); }

 private:
  Status finish_group(bool beside_damage);
  Result<bool> find_next_header(uint64_t at);

  tar::Window& window_;
  tar::MemberReader members_;
  tar::Grouper grouper_;
  const Calls calls_;
  uint64_t members_seen_ = 0;
  bool damage_before_ = false;
  bool resumed_ = false;  // the next member is the first behind damage
};

}  // namespace millrace::shard
