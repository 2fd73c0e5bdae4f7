// Home: one node as the judge of its keys. It orders the writes of a key and says what the object is.
//
// The first drive of a key's placement lies on its home. The first time a node acts as the home of a key in
// an epoch it syncs: it asks every drive that may know the key, and those promise to refuse older epochs.
// Then it takes one write at a time: judges its condition, gives it a version, marks it on the holders, and
// acknowledges it when so many have marked it that no later sync can overlook it. Reads wait meanwhile.
//
// A commit that an earlier home left half marked is finished before anyone sees it. Where too many drives are
// away to know the newest write, the answer is kUndecided, never an older object. On the strand.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "cluster/message.h"
#include "cluster/peers.h"

namespace millrace::cluster {

class Holder;

class Home {
 public:
  static constexpr uint64_t kPatienceUs = 10'000'000;  // how long a request waits for its key
  static constexpr uint64_t kRetryUs = 100'000;
  static constexpr size_t kMostKeys = 100'000;  // of which a state is kept; others sync again

  Home(Strand& strand, Peers& peers, Membership& membership, const Holder& holder)
      : strand_(strand), peers_(peers), membership_(membership), holder_(holder) {}

  void commit(CommitRequest request, Done<Reply> done);
  void find(FindRequest request, Done<Reply> done);
  // The newest write of a key of this node, tombstones too, as find() would know it.
  void look(const ObjectName& name, Done<std::optional<store::Record>> done);
  // A newer map is there: keys of older epochs sync again, or are somebody else's.
  void adopt_map();
  // The node is about to leave: new requests are told that it is not the home, so that they come again when
  // the map says who is. What is under way goes on.
  void retire() { retired_ = true; }
  // Nothing is under way.
  bool is_idle() const;
  // Called with every object that a write or a removal replaced. A home that dies forgets to.
  using Replaced = std::function<void(const ObjectName&, const store::Record&)>;
  void on_replaced(Replaced replaced) { replaced_ = std::move(replaced); }

 private:
  struct Waiting {
    std::optional<CommitRequest> commit;  // none: a read
    Done<Reply> done;
    Done<std::optional<store::Record>> look;  // of look(), in place of `done`
    uint64_t deadline = 0;
  };
  // A commit on its way to the holders.
  struct Busy {
    store::Record record;
    std::map<DriveId, bool> targets;  // whether a pointer is enough
    std::set<DriveId> asked;          // and no answer yet
    std::set<DriveId> marked;
    bool needs_all = false;  // of those targets; else enough of them
    Done<Reply> done;        // none: nobody waits
    uint64_t deadline = 0;
  };
  // A commit that was on its way when the next epoch began. The sync of that epoch finds it, or nobody knows.
  struct Unsettled {
    store::Version version;
    Done<Reply> done;
    uint64_t deadline = 0;
  };
  struct KeyState {
    uint32_t epoch = 0;
    bool synced = false;
    bool asking = false;
    uint64_t round = 0;   // of asking, so that late answers are known as such; no key has it twice
    size_t to_hear = 0;   // nodes that did not answer yet
    bool missed = false;  // one of them failed to
    std::map<DriveId, Ledger> heard;
    std::set<DriveId> also;             // holders of the newest write that no open map names
    std::optional<store::Record> last;  // the newest write, tombstones too
    std::optional<Busy> busy;
    std::optional<Unsettled> unsettled;
    std::deque<Waiting> waiting;

    bool is_idle() const { return !asking && !busy && !unsettled && waiting.empty(); }
  };

  // Why this node does not act for the key in this epoch, if so.
  Status check(uint32_t epoch, const ObjectName& name) const;
  // The same for a request that is new.
  Status check_new(uint32_t epoch, const ObjectName& name) const;
  void queue(const ObjectName& name, Waiting waiting);
  void step(const ObjectName& name);
  void forget_some();
  // Later, so that nothing here is called while it works.
  void answer(Done<Reply> done, Result<Reply> reply);
  void refuse(Waiting& waiting, const Error& error);
  void fail_all(KeyState& state, const Error& error);
  void drop_late(const ObjectName& name, KeyState& state);
  // The epoch is over. What is under way is looked for in the next one if this node is the home again.
  void be_overtaken(const ObjectName& name, KeyState old, const Error& why);
  void settle_old(const ObjectName& name, KeyState& state);

  // Sync.
  void ask(const ObjectName& name, KeyState& state);
  void hear(const ObjectName& name, uint64_t round, Result<Reply> reply);
  // What the drives said, judged. An error: it cannot be known now.
  Status decide(const ObjectName& name, KeyState& state);
  // Whether the object has holders that were not asked: a write that began under a map which was closed
  // meanwhile. They are asked next time.
  bool find_unasked(KeyState& state, const store::Record& object) const;
  // Whether a write that is newer than `last` may be known only to drives that were not heard.
  Status check_nothing_hides(const ObjectName& name, const KeyState& state) const;
  // Whether marks on all drives that were heard are enough for it to be met by every later sync.
  Status check_finishable(const ObjectName& name, const KeyState& state) const;
  void finish_commit(const ObjectName& name, KeyState& state);

  // Commit.
  void take(const ObjectName& name, KeyState& state, Waiting waiting);
  Result<store::Record> judge(const ObjectName& name, const KeyState& state,
                              const CommitRequest& request) const;
  std::map<DriveId, bool> targets(const ObjectName& name, const store::Record& record) const;
  // Enough of the write's holders, and of those whom readers of this map ask.
  bool is_whole(const ObjectName& name, const Busy& busy) const;
  void send_marks(const ObjectName& name, KeyState& state);
  void hear_mark(const ObjectName& name, store::Version version, DriveId drive, Result<Reply> reply);
  void settle(const ObjectName& name, KeyState& state);

  // kUndecided where the map has fewer drives for this write than the bucket's floor: what fewer know could
  // be forgotten with them.
  Status check_floor(const ObjectName& name, const store::Record& record) const;
  // The drives whom readers of a map ask about this write, and those to which the map gives its slices.
  std::vector<DriveId> placement_of(const Map& map, const ObjectName& name,
                                    const store::Record& record) const;
  // The bucket's redundancy was changed, and this object was not yet encoded anew. Readers of the map ask
  // fewer drives than its slices need, or other ones: all of them are to know of it.
  bool is_foreign(const Map& map, const ObjectName& name, const store::Record& record) const;
  const Map& newest() const { return *membership_.maps()->back(); }

  Strand& strand_;
  Peers& peers_;
  Membership& membership_;
  const Holder& holder_;
  std::map<ObjectName, KeyState> keys_;
  uint64_t rounds_ = 0;
  uint64_t given_ = 0;  // the highest counter of a version, even if the write failed; no two are the same
  Replaced replaced_;
  bool retired_ = false;
};

}  // namespace millrace::cluster
