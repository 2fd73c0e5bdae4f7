// Computes lanes, displacements and their inverse.
#include "loader/order.h"

#include <algorithm>
#include <numeric>

#include "base/assert.h"
#include "base/random.h"

namespace millrace::loader {

namespace {

// Uniform below `limit` from 64 random bits; the bias is below limit / 2^64.
uint64_t scaled(uint64_t random, uint64_t limit) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(random) * limit) >> 64);
}

uint64_t keyed(uint64_t seed, uint64_t epoch, uint64_t what) {
  return mix(mix(mix(seed) + epoch) + what);
}

}  // namespace

Result<EpochEnd> parse_epoch_end(std::string_view text) {
  for (const EpochEnd end : {EpochEnd::kExact, EpochEnd::kDrop, EpochEnd::kPad}) {
    if (text == epoch_end_name(end)) return end;
  }
  return make_error(Code::kInvalid, "the end of an epoch is exact, drop or pad, not {}", text);
}

std::string_view epoch_end_name(EpochEnd end) {
  switch (end) {
    case EpochEnd::kExact:
      return "exact";
    case EpochEnd::kDrop:
      return "drop";
    case EpochEnd::kPad:
      return "pad";
  }
  return "";
}

Order::Order(const std::vector<uint64_t>& samples_per_shard, const OrderOptions& options)
    : options_(options), shards_(samples_per_shard.size()) {
  MR_ASSERT(options.batch > 0);
  std::iota(shards_.begin(), shards_.end(), 0U);
  if (options.window > 0) Random(keyed(options.seed, options.epoch, 0)).shuffle(std::span(shards_));
  starts_.push_back(0);
  for (const uint32_t shard : shards_) starts_.push_back(starts_.back() + samples_per_shard[shard]);

  const uint64_t count = options.window == 0 ? 1 : std::max<uint64_t>(options.batch / kElementsPerLane, 1);
  const uint64_t rest = samples() % options.batch;
  for (uint64_t lane = 0; lane <= count; ++lane) {
    // The first element of a batch whose lane, floor(g * lanes / batch), is this one.
    const uint64_t share = (lane * options.batch + count - 1) / count;
    shares_.push_back(share);
    rest_shares_.push_back(rest * share / options.batch);
    lane_starts_.push_back(samples() / options.batch * share + rest_shares_.back());
  }
  lane_window_ = std::max<uint64_t>(options.window / count, 1);
}

uint64_t Order::batches() const {
  const uint64_t whole = samples() / options_.batch;
  return whole + (samples() % options_.batch > 0 && options_.end != EpochEnd::kDrop ? 1 : 0);
}

uint64_t Order::batch_size(uint64_t batch) const {
  MR_ASSERT(batch < batches(), batch, batches());
  if (batch < samples() / options_.batch || options_.end == EpochEnd::kPad) return options_.batch;
  return samples() % options_.batch;
}

Slice Order::slice(uint64_t batch, uint64_t rank, uint64_t world) const {
  MR_ASSERT(rank < world, rank, world);
  const uint64_t size = batch_size(batch);
  const uint64_t first = size * rank / world;
  return {first, size * (rank + 1) / world - first};
}

uint64_t Order::lane_key(uint64_t lane) const {
  return keyed(options_.seed, options_.epoch, lane + 1);
}

std::vector<Order::Share> Order::own_shares(uint64_t batch) const {
  const std::vector<uint64_t>& cuts = batch == samples() / options_.batch ? rest_shares_ : shares_;
  std::vector<Share> found;
  for (uint64_t lane = 0; lane < lanes(); ++lane) {
    const uint64_t position = batch * (shares_[lane + 1] - shares_[lane]);
    const Slice elements{cuts[lane], cuts[lane + 1] - cuts[lane]};
    if (elements.size > 0) found.push_back({lane, position, elements});
  }
  return found;
}

std::vector<Order::Share> Order::shares(uint64_t batch) const {
  std::vector<Share> found = own_shares(batch);
  uint64_t filled = found.back().elements.first + found.back().elements.size;
  // The beginning of the epoch again, as often as it takes: a data set may be smaller than a batch.
  while (filled < batch_size(batch)) {
    for (const Share& share : own_shares(0)) {
      const uint64_t size = std::min(share.elements.size, options_.batch - filled);
      if (size > 0) found.push_back({share.lane, share.position, {filled, size}});
      filled += size;
    }
  }
  return found;
}

size_t Order::run_of(uint64_t place) const {
  MR_ASSERT(place < samples(), place, samples());
  return static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), place) - starts_.begin()) - 1;
}

SampleRef Order::at(uint64_t place) const {
  const size_t run = run_of(place);
  return {shards_[run], place - starts_[run]};
}

uint64_t Order::shard_end(uint64_t place) const {
  return starts_[run_of(place) + 1];
}

SampleRef Order::find(uint64_t batch, uint64_t element) const {
  for (const Share& share : shares(batch)) {
    if (element >= share.elements.first + share.elements.size) continue;
    LaneCursor cursor(*this, share.lane, share.position + element - share.elements.first);
    return at(cursor.next());
  }
  MR_ASSERT(false, batch, element);
  return {};
}

LaneCursor::LaneCursor(const Order& order, uint64_t lane, uint64_t position)
    : start_(order.lane_start(lane)),
      size_(order.lane_size(lane)),
      window_(order.lane_window()),
      key_(order.lane_key(lane)),
      position_(position) {
  MR_ASSERT(position <= size_, position, size_);
  if (position == 0) return;
  // What is due at the p-th turn has a due time in [p, p + window): places up to p - window are gone, places
  // from p + window on are not there yet, and of those between the earliest are gone.
  const uint64_t from = position >= window_ ? position - window_ + 1 : 0;
  seen_ = std::min(size_, position + window_);
  std::vector<Due> between;
  between.reserve(seen_ - from);
  for (uint64_t place = from; place < seen_; ++place) between.push_back(due(place));
  const auto gone = between.begin() + static_cast<std::ptrdiff_t>(position - from);
  std::nth_element(between.begin(), gone, between.end());
  waiting_ = decltype(waiting_)(std::greater<>(), std::vector<Due>(gone, between.end()));
}

std::vector<SampleRef> BatchWalker::samples(uint64_t batch) {
  std::vector<SampleRef> found(order_.batch_size(batch));
  for (const Order::Share& share : order_.shares(batch)) {
    auto cursor = cursors_.find(share.lane);
    if (cursor == cursors_.end() || cursor->second.position() != share.position) {
      cursors_.erase(share.lane);
      cursor = cursors_.emplace(share.lane, LaneCursor(order_, share.lane, share.position)).first;
    }
    for (uint64_t i = 0; i < share.elements.size; ++i)
      found[share.elements.first + i] = order_.at(cursor->second.next());
  }
  return found;
}

LaneCursor::Due LaneCursor::due(uint64_t place) const {
  return {place + scaled(mix(key_ + place), window_), place};
}

uint64_t LaneCursor::next() {
  MR_ASSERT(position_ < size_, position_, size_);
  ++position_;
  if (window_ == 1) return start_ + position_ - 1;
  while (seen_ < size_ && (waiting_.empty() || waiting_.top().first > seen_)) waiting_.push(due(seen_++));
  const uint64_t place = waiting_.top().second;
  waiting_.pop();
  return start_ + place;
}

}  // namespace millrace::loader
