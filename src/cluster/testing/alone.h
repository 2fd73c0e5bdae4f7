// Alone: the surroundings of a node that is asked things in a test: nobody else is there, and time stands
// still.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "cluster/peers.h"

namespace millrace::testing {

class Alone : public cluster::Strand,
              public cluster::Peers,
              public cluster::Membership,
              public cluster::Shelf {
 public:
  explicit Alone(std::vector<cluster::MapNode> nodes = {})
      : maps_(std::make_shared<const cluster::Maps>(
            cluster::Maps{std::make_shared<const cluster::Map>("c", 5, 1, std::move(nodes))})) {}

  void post(std::function<void()> work) override { work(); }
  void after(uint64_t, std::function<void()>) override {}
  uint64_t now_us() const override { return 0; }
  uint64_t random() override { return 0; }
  void call(uint32_t, cluster::Request, store::Done<cluster::Reply>) override {
    FAIL() << "nobody is to be asked";
  }
  uint32_t self() const override { return 1; }
  std::shared_ptr<const cluster::Maps> maps() const override { return maps_; }
  bool has_lease() const override { return lease; }
  void look_again() override {}
  Result<store::Redundancy> redundancy(const std::string&) const override { return store::Redundancy(); }
  void note_walked(cluster::Walked) override {}
  bool in_service(cluster::DriveId) const override { return true; }
  void read(cluster::DriveId, const cluster::ObjectName&, store::Done<cluster::Ledger> done) override {
    done(cluster::Ledger());
  }
  void write(cluster::DriveId, const cluster::ObjectName&, const cluster::Ledger&, Haste,
             store::Done<void> done) override {
    done({});
  }
  void list(cluster::DriveId, const cluster::ObjectName&, size_t,
            store::Done<std::vector<Row>> done) override {
    done(std::vector<Row>());
  }
  void put_slice(cluster::DriveId, const store::Spread&, std::string, store::Done<void> done) override {
    done({});
  }
  void drop_slice(cluster::DriveId, const store::Spread&) override {}
  bool is_dropped(cluster::DriveId, const store::Spread&) const override { return false; }
  uint32_t promised() const override { return promise_made; }
  void promise(uint32_t, store::Done<void> done) override { done({}); }

  bool lease = true;
  uint32_t promise_made = 0;

 private:
  const std::shared_ptr<const cluster::Maps> maps_;  // one, of epoch 5
};

}  // namespace millrace::testing
