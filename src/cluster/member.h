// Member: one node's membership in its cluster: lease, place in the map, knowledge of the map, and, where it
// is the leader, the map's changes when nodes come and go.
//
// A *session* is one lease and one random process id. The lease entry names the session, and so does the
// node's row in the map. A node acts only while its lease is valid by its own clock and the newest map that
// it knows names its session. A session whose lease ended never acts again: the node begins a new one and
// enters the map anew. So when the leader finds a session's lease entry gone and calls the node away, nobody
// acts for that node any more, even if it is just coming back.
//
// renew() and step() do all the work and block on the registry; each is called by one thread at a time.
// In the product MemberThreads calls them; in a simulator the simulator does. All other functions: any
// thread, never block.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/background.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/snapshot.h"
#include "cluster/map.h"
#include "cluster/map_changes.h"
#include "cluster/registry.h"

namespace millrace::cluster {

// The node's directory says that it belongs to another cluster than the registry's, or the registry lost it.
inline constexpr Reason kOtherCluster{Code::kDenied, "another cluster"};
// A living process holds the lease of this node.
inline constexpr Reason kNodeInUse{Code::kExists, "node in use"};
// A new node needs a join token that is good.
inline constexpr Reason kTokenNeeded{Code::kDenied, "join token needed"};

// Who may join: with the files of one machine, whoever may write them.
enum class Admission { kOpen, kToken };

struct MemberOptions {
  std::string node;                              // id
  std::string address;                           // host:port
  bool tls = false;                              // it speaks TLS there
  std::string zone;                              // empty: none
  std::vector<MapDrive> drives;                  // those in service
  std::string cluster;                           // whose the node's directory is; empty: nobody's yet
  std::string token;                             // of a new node
  Admission admission = Admission::kOpen;        // of new nodes
  std::chrono::milliseconds lease{6000};         // the design's default
  std::chrono::milliseconds read_every{10'000};  // the map, though no watch said that it changed
};

// Time and chance, which a simulator gives in its own way.
struct MemberSurroundings {
  std::function<uint64_t()> now_us;      // steady
  std::function<int64_t()> wall_ms;      // to be shown only
  std::function<std::string()> make_id;  // of sessions and of the cluster
  std::function<void()> wake;            // called from any thread: a step soon would be good; may be empty
  static MemberSurroundings real();
};

// The registry's `cluster`.
struct ClusterIdentity {
  std::string id;
  std::string secret;  // of the requests between nodes
};
std::string encode_identity(const ClusterIdentity& identity);
Result<ClusterIdentity> decode_identity(std::string_view text);

// Whether a process acts as this node, or did a moment ago: it has a lease entry.
Result<bool> has_session(Registry& registry, const std::string& node);

class Member {
 public:
  // `changed` is called after a newer map is known, by the thread of step(). The registry outlives the
  // member.
  Member(Registry& registry, MemberOptions options, MemberSurroundings surroundings,
         std::function<void(const Maps&)> changed);
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
  ~Member();

  // Keeps the lease; at pace().
  void renew();
  // Everything else: joins, learns the newest map, leads; at pace() and when look_again() was called. What
  // failed is told by problem() and tried again in the next step.
  void step();
  // Stops acting, says so in the map and ends the lease, so that others take over at once. After the last
  // renew() and step(). Where the registry cannot be reached, the lease ends by itself.
  Status leave();

  // How often to renew and to step: six times in a lease, and at least every second.
  std::chrono::milliseconds pace() const;
  // No other node acts for this one.
  bool has_lease() const;
  // Time since the lease was last renewed; nothing where there is none.
  std::optional<uint64_t> lease_age_us() const;
  // Of this node; 0 until it has joined.
  uint32_t self() const { return number_.load(std::memory_order_relaxed); }
  // The newest map and the open ones; null before the first.
  std::shared_ptr<const Maps> maps() const { return maps_.load(); }
  std::shared_ptr<const Map> map() const;
  // Null before the first step that reached the registry. Once self() is not 0, the node's directory is to
  // remember its id, for MemberOptions::cluster.
  std::shared_ptr<const ClusterIdentity> identity() const { return identity_.load(); }
  // There may be a newer map.
  void look_again();
  // This node changes the map when others come and go.
  bool is_leader() const;
  // The number of the node that does, as the last step saw it; 0: nobody knows. To be shown only.
  uint32_t leader() const;
  // Why the last step ended early; nothing if it did not.
  std::optional<Error> problem() const;
  // Drives that are in service from now on.
  void set_drives(std::vector<MapDrive> drives);
  // All that this node's drives know lies where the map of this epoch puts it. The leader is told by the
  // registry; when it has heard it of all nodes it closes older epochs.
  void note_walked(Walked walked);

 private:
  struct Session {
    LeaseId lease = LeaseId::kNone;
    std::string process;
    bool entered = false;  // the lease entry is written
    uint64_t valid_until_us = 0;
  };

  Status run_step();
  Status identify();
  Status begin_session();
  Status enter_lease();
  Status learn();
  Status learn_from(KnownMap newest);
  Status found_map();
  Status admit();
  Status take_place();
  Status campaign();
  Status lead();
  // Those whose leases ended.
  Status call_away();
  Status tell_walked();
  // Closes the epochs that all nodes have walked clean (find_closable).
  Status close_epochs();
  // Makes this the newest map; false: somebody was faster, and the next step looks again.
  Result<bool> replace(const Map& next);
  MapNode wanted() const;
  Status leave_map(const std::string& process);
  void end_session(LeaseId lease);
  void note_acting();
  std::optional<Session> session() const;

  Registry& registry_;
  const MemberOptions options_;
  const MemberSurroundings surroundings_;
  const std::function<void(const Maps&)> changed_;
  Snapshot<Maps> maps_;
  Snapshot<ClusterIdentity> identity_;
  std::atomic<uint32_t> number_ = 0;
  std::atomic<bool> look_ = true;
  Mutex walked_mutex_;
  Walked walked_ MR_GUARDED_BY(walked_mutex_);

  // Of step() alone.
  KnownMap newest_;
  uint64_t read_at_us_ = 0;
  bool admitted_ = false;
  uint32_t tidied_epoch_ = 0;
  Walked told_walked_;
  uint64_t newest_since_us_ = 0;  // when the newest map was first seen

  mutable Mutex mutex_;
  std::optional<Session> session_ MR_GUARDED_BY(mutex_);
  std::vector<MapDrive> drives_ MR_GUARDED_BY(mutex_);
  std::string acting_process_ MR_GUARDED_BY(mutex_);   // that the newest map names, alive
  std::string leading_process_ MR_GUARDED_BY(mutex_);  // of this node, where the leader entry names it
  std::string leading_node_ MR_GUARDED_BY(mutex_);     // id in the leader entry, when it was last read
  std::optional<Error> problem_ MR_GUARDED_BY(mutex_);

  std::unique_ptr<Watch> watch_;  // last: it calls look_again()
};

// Two threads: one renews and nothing else, so that nothing delays it; the other steps, at the member's pace
// and when there may be a newer map.
class MemberThreads {
 public:
  // The member outlives stop(), or this.
  void start(Member& member);
  // Waits for the calls under way.
  void stop();
  // For MemberSurroundings::wake.
  void wake() { steps_.wake(); }

 private:
  Background renewals_;
  Background steps_;
};

}  // namespace millrace::cluster
