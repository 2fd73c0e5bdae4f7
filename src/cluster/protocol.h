// Protocol: everything one node does about keys: as holder, as home, and for those who ask it. On its strand.
#pragma once

#include "cluster/holder.h"
#include "cluster/home.h"
#include "cluster/mender.h"
#include "cluster/message.h"
#include "cluster/peers.h"
#include "cluster/requester.h"
#include "cluster/walker.h"

namespace millrace::cluster {

// They outlive the protocol.
struct Surroundings {
  Strand& strand;
  Peers& peers;
  Membership& membership;
  Shelf& shelf;
};

class Protocol {
 public:
  explicit Protocol(Surroundings around)
      : holder_(around.shelf, around.membership),
        home_(around.strand, around.peers, around.membership, holder_),
        requester_(around.strand, around.peers, around.membership),
        mender_(around.strand, around.peers, around.membership, home_),
        walker_(around.strand, around.peers, around.membership, around.shelf, mender_) {}

  // A request of a peer about a key; kUnsupported for those that move bytes (cluster/slice_service.h).
  void handle(Request request, Done<Reply> done);
  void adopt_map() {
    home_.adopt_map();
    mender_.adopt_map();
    walker_.adopt_map();
  }
  Requester& requester() { return requester_; }
  const Requester& requester() const { return requester_; }
  Holder& holder() { return holder_; }
  Home& home() { return home_; }
  Mender& mender() { return mender_; }
  const Mender& mender() const { return mender_; }
  Walker& walker() { return walker_; }
  const Walker& walker() const { return walker_; }

 private:
  Holder holder_;
  Home home_;
  Requester requester_;
  Mender mender_;
  Walker walker_;
};

}  // namespace millrace::cluster
