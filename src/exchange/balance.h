// Labels and their balance: choosing by label, how far a rank's labels are from the whole set's, and the
// fraction of an epoch. Pure.
//
// The label distance of a rank is the total variation between the shares of the classes it holds and those of
// the whole set. Its floor is what a rank that drew its samples at random would have: below it there is
// nothing left to gain, which is when an automatic fraction becomes zero.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "exchange/plan.h"

namespace millrace::exchange {

using LabelCounts = std::vector<uint32_t>;  // per class

// Unlabelled samples count for nothing.
LabelCounts count_labels(std::span<const Resident> residents, uint32_t classes);

struct LabelBalance {
  double distance = 0;  // mean over the ranks
  double floor = 0;     // expected of ranks that drew at random
};
LabelBalance measure_balance(const std::vector<LabelCounts>& ranks);

struct LabelFlow {
  uint32_t peer = 0;
  uint64_t count = 0;
};
struct LabelView {
  uint32_t rank = 0;
  std::span<const Resident> residents;
  const std::vector<LabelCounts>& ranks;
  uint64_t key = 0;
};
// Slots that leave, flow by flow: of the classes that this rank has most too many of, to the peer that lacks
// most of them; the oldest of a class first.
std::vector<uint32_t> choose_by_label(const LabelView& view, const std::vector<LabelFlow>& flows);

// How much is exchanged in which epoch:
//   "0.1"             always a tenth
//   "0.5,0.1@3,0@20"  half of it in epochs 0 to 2, a tenth in 3 to 19, then nothing
//   "auto", "auto:0.3"  that fraction (0.1) until the label distance has come down to its floor
class FractionSchedule {
 public:
  static Result<FractionSchedule> parse(std::string_view text);

  bool is_automatic() const { return automatic_; }
  double at(uint64_t epoch, const LabelBalance& balance) const;
  // The largest there will be: storage is bounded by it.
  double most() const;
  const std::string& text() const { return text_; }

 private:
  struct Step {
    uint64_t epoch = 0;
    double fraction = 0;
  };
  std::string text_;
  std::vector<Step> steps_;  // rising; the first is at 0
  bool automatic_ = false;
};

}  // namespace millrace::exchange
