// Plan: which samples leave a rank in an epoch, and where they go. Pure arithmetic, no I/O.
//
// Every rank knows the same few numbers (EpochView) and derives the same schedule from them: who sends how
// many to whom. Which samples those are each rank decides alone, from what it holds. So nobody negotiates,
// nobody receives from just anyone, and a plan can be replayed anywhere. Policies:
//
//   shift   the ranks in keyed order; in each of a few rounds everyone sends to the one `shift` places on.
//           Exactly as much comes as goes, nobody sends to himself, and what goes to one rank is one message.
//   paper   the published rule: the same slots leave on every rank, one random permutation of ranks for each
//           slot, and what arrives takes the slot number it had where it came from. Kept for comparison.
//
// Ranks that hold unequal numbers send unequal numbers: in layers, each a shift schedule among those ranks
// whose quota reaches so far.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace::exchange {

inline constexpr uint32_t kNoLabel = UINT32_MAX;
// Most ranks, and most classes that plans count.
inline constexpr uint32_t kMaxRanks = 65'536;
inline constexpr uint32_t kMaxClasses = 1 << 20;

// A sample that a rank holds, as plans see it. Its place in the rank's list is its slot.
struct Resident {
  uint64_t id = 0;
  uint32_t label = kNoLabel;
  uint32_t since = 0;  // the first epoch in which it was here
  bool operator==(const Resident&) const = default;
};

enum class Policy { kShift, kPaper };
enum class Select {
  kOldest,      // those that are here longest
  kRandom,      // any
  kLabelAware,  // of classes that this rank has too many of, to those that have too few
  kCallback,    // as the caller says
};
Result<Policy> parse_policy(std::string_view text);
std::string_view policy_name(Policy policy);
Result<Select> parse_select(std::string_view text);
std::string_view select_name(Select select);

// Chooses `count` different slots of those given.
using Choose = std::function<std::vector<uint32_t>(std::span<const Resident> residents, uint64_t count)>;

struct PlanOptions {
  Policy policy = Policy::kShift;
  Select select = Select::kOldest;
  uint64_t seed = 0;
  // Ranks that one sends to in an epoch. With few, what arrives together comes from few places, and labels
  // take longer to level: at 64 ranks and a tenth, 30 epochs with 4 partners, 20 with 8, 10 with 32 or all.
  uint32_t partners = 32;
  Choose choose;  // for kCallback
};

// What every rank knows at the start of an exchange.
struct EpochView {
  uint64_t epoch = 0;
  double fraction = 0;
  std::vector<uint64_t> sizes;                // residents of each rank
  std::vector<std::vector<uint32_t>> labels;  // per rank and class; only where samples are chosen by label
};

struct Send {
  uint32_t to = 0;
  std::vector<uint32_t> slots;  // in the order of the message
};
struct Receive {
  uint32_t from = 0;
  std::vector<uint32_t> slots;  // where what arrives goes; from the rank's size on: behind all others
};
// Sorted by peer, one of each at most.
struct RankPlan {
  std::vector<Send> sends;
  std::vector<Receive> receives;

  uint64_t sent() const;
  uint64_t received() const;
};

class Planner {
 public:
  Planner(PlanOptions options, EpochView view);

  // An error only where a callback chooses nonsense.
  Result<RankPlan> plan(uint32_t rank, std::span<const Resident> residents) const;

  uint64_t quota(uint32_t rank) const { return quotas_[rank]; }  // samples that leave, at most
  // How many go from one rank to another; paper: counted from the permutations.
  struct Flow {
    uint32_t peer = 0;
    uint64_t count = 0;
  };
  std::vector<Flow> sends(uint32_t rank) const;
  std::vector<Flow> receives(uint32_t rank) const;
  const EpochView& view() const { return view_; }

 private:
  struct Layer {
    std::vector<uint32_t> order;   // the ranks of the layer, in keyed order
    std::vector<uint32_t> places;  // by rank; its place in `order`
    std::vector<uint32_t> shifts;
    uint64_t amount = 0;  // samples that each sends
  };
  void make_layers();
  void make_columns();
  template <typename Peer>
  std::vector<Flow> flows(uint32_t rank, Peer peer) const;
  std::vector<uint32_t> choose_random(uint32_t rank, uint64_t count) const;
  std::vector<uint32_t> choose_oldest(uint32_t rank, std::span<const Resident> residents,
                                      uint64_t count) const;
  Result<std::vector<uint32_t>> choose(uint32_t rank, std::span<const Resident> residents,
                                       const std::vector<Flow>& flows) const;
  RankPlan plan_paper(uint32_t rank) const;

  const PlanOptions options_;
  const EpochView view_;
  std::vector<uint64_t> quotas_;
  std::vector<Layer> layers_;
  // paper: the slots that leave, and for each of them where every rank's goes.
  std::vector<uint32_t> slots_;
  std::vector<std::vector<uint32_t>> targets_;
};

// What a rank holds after a plan: arrivals in the order of its receives, one after the other.
template <typename T>
std::vector<T> apply_plan(const RankPlan& plan, std::vector<T> held, std::span<const T> arrivals) {
  std::vector<char> vacant(held.size());
  for (const Send& send : plan.sends) {
    for (const uint32_t slot : send.slots) vacant[slot] = 1;
  }
  size_t next = 0;
  for (const Receive& receive : plan.receives) {
    for (const uint32_t slot : receive.slots) {
      if (slot >= held.size()) {
        held.resize(slot + 1);
        vacant.resize(slot + 1, 1);
      }
      held[slot] = arrivals[next++];
      vacant[slot] = 0;
    }
  }
  size_t kept = 0;
  for (size_t slot = 0; slot < held.size(); ++slot) {
    if (vacant[slot] == 0) held[kept++] = held[slot];
  }
  held.resize(kept);
  return held;
}

// Moves as few samples as possible so that the first `world` ranks hold equally many and the others nothing.
// `sizes` has as many entries as there are ranks before or after, whichever is more.
RankPlan plan_redeal(uint32_t rank, const std::vector<uint64_t>& sizes, uint32_t world);

}  // namespace millrace::exchange
