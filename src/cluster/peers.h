// What the protocol needs of its surroundings: other nodes, time, membership, durable drives.
//
// A node of the product and a node of the simulator (cluster/simulation) give the same protocol code other
// surroundings. Everything of one node's protocol runs on its strand, one call at a time: no locks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/ledger.h"
#include "cluster/map.h"
#include "cluster/map_changes.h"
#include "cluster/message.h"
#include "store/objects.h"

namespace millrace::cluster {

using store::Done;
using store::Redundancy;

// Runs work one after another.
class Strand {
 public:
  virtual ~Strand() = default;
  virtual void post(std::function<void()> work) = 0;
  virtual void after(uint64_t us, std::function<void()> work) = 0;
  virtual uint64_t now_us() const = 0;  // steady
  virtual uint64_t random() = 0;        // not for secrets
};

// Other nodes, by number; the own one too.
class Peers {
 public:
  virtual ~Peers() = default;
  // `done` is called once, on the strand, after call() returned; kUnavailable where no answer came in time.
  virtual void call(uint32_t node, Request request, Done<Reply> done) = 0;
  // It serves, and answers so late or so rarely that others are asked first where there is a choice.
  virtual bool is_grey(uint32_t) const { return false; }
};

// What this node knows of the cluster.
class Membership {
 public:
  virtual ~Membership() = default;
  virtual uint32_t self() const = 0;  // this node's number
  virtual std::shared_ptr<const Maps> maps() const = 0;
  // No other node acts for this one.
  virtual bool has_lease() const = 0;
  // Somebody knows a newer map: look for it soon.
  virtual void look_again() = 0;
  virtual Result<Redundancy> redundancy(const std::string& bucket) const = 0;
  // The bucket is being removed: nothing new gets into it.
  virtual bool is_closing(const std::string&) const { return false; }
  // Everything that this node's drives know was found in its place.
  virtual void note_walked(Walked walked) = 0;
};

// The durable side of this node: ledgers and slices on its drives. Answers on the strand.
class Shelf {
 public:
  virtual ~Shelf() = default;
  virtual bool in_service(DriveId drive) const = 0;
  virtual void read(DriveId drive, const ObjectName& name, Done<Ledger> done) = 0;
  // Durable when done, unless `lazy`: then it may be lost with the power.
  enum class Haste : uint8_t { kDurable, kLazy };
  virtual void write(DriveId drive, const ObjectName& name, const Ledger& ledger, Haste haste,
                     Done<void> done) = 0;
  // Rows of the drive behind `after`, in order; fewer than `limit` only at the end.
  struct Row {
    ObjectName name;
    Ledger ledger;
  };
  virtual void list(DriveId drive, const ObjectName& after, size_t limit, Done<std::vector<Row>> done) = 0;
  virtual void put_slice(DriveId drive, const store::Spread& spread, std::string bytes, Done<void> done) = 0;
  // Once nobody reads it any more, unless it is put again before; nobody waits for it.
  virtual void drop_slice(DriveId drive, const store::Spread& spread) = 0;
  // It was dropped, and not put again since.
  virtual bool is_dropped(DriveId drive, const store::Spread& spread) const = 0;
  // The epoch below which marks are refused: durable when done, and kept over restarts.
  virtual uint32_t promised() const = 0;
  virtual void promise(uint32_t epoch, Done<void> done) = 0;
};

}  // namespace millrace::cluster
