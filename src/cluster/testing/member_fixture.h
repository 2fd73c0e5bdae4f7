// MemberFixture: members of one cluster over a registry in memory, whose clock the test sets.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cluster/member.h"
#include "cluster/testing/memory_registry.h"

namespace millrace::cluster {

inline MapDrive drive(const std::string& id) {
  MapDrive made;
  made.id = id;
  return made;
}

class MemberFixture : public ::testing::Test {
 protected:
  struct Joined {
    explicit Joined(millrace::testing::MemoryStore& store) : registry(store) {}
    millrace::testing::MemoryRegistry registry;
    std::unique_ptr<Member> member;
    std::vector<uint32_t> epochs;  // that its observer was told
  };

  std::unique_ptr<Joined> start(const std::string& id, MemberOptions options = {}) {
    auto joined = std::make_unique<Joined>(*store_);
    options.node = id;
    options.address = id + ":9000";
    if (options.drives.empty()) options.drives = {drive(id + "-d1"), drive(id + "-d2")};
    MemberSurroundings surroundings;
    surroundings.now_us = [this] { return now_us_; };
    surroundings.wall_ms = [this] { return static_cast<int64_t>(now_us_ / 1000); };
    surroundings.make_id = [this] { return "id" + std::to_string(++ids_); };
    Joined* const raw = joined.get();
    joined->member =
        std::make_unique<Member>(joined->registry, options, surroundings,
                                 [raw](const Maps& maps) { raw->epochs.push_back(maps.back()->epoch()); });
    return joined;
  }
  static void turn(Joined& joined) {
    joined.member->renew();
    joined.member->step();
  }
  // A second of everyone's life.
  void live(const std::vector<Joined*>& all, int seconds = 1) {
    for (int second = 0; second < seconds; ++second) {
      now_us_ += 1'000'000;
      for (Joined* joined : all) turn(*joined);
    }
  }
  static NodeState state_of(const Joined& asked, const std::string& id) {
    return asked.member->map()->find_node(id)->state;
  }

  uint64_t now_us_ = 1'000'000;
  uint64_t ids_ = 0;
  std::unique_ptr<millrace::testing::MemoryStore> store_ =
      std::make_unique<millrace::testing::MemoryStore>([this] { return now_us_; });
};

}  // namespace millrace::cluster
