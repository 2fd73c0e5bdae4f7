// From places in an order to chunks in flight.
#include "loader/plan.h"

#include <algorithm>

#include "base/assert.h"

namespace millrace::loader {

namespace {

// One request: long enough that its latency does not matter, short enough to share fairly.
constexpr uint64_t kMostChunkBytes = 2 << 20;
constexpr uint64_t kLeastChunkBytes = 64 << 10;

OrderOptions order_options(const Recipe& recipe, uint64_t epoch) {
  return {recipe.seed, epoch, recipe.batch, recipe.window, recipe.end};
}

// What the samples of a rank's windows occupy, on average.
uint64_t window_bytes(const Catalogue& catalogue, const Recipe& recipe, uint64_t world) {
  const double sample_bytes =
      static_cast<double>(catalogue.bytes()) / static_cast<double>(catalogue.samples());
  const double samples = static_cast<double>(std::min(recipe.window, catalogue.samples()));
  return static_cast<uint64_t>(samples * sample_bytes / static_cast<double>(world));
}

// A lane holds, beside its window, about one chunk at either end.
uint64_t chunk_bytes(uint64_t for_chunks, uint64_t lanes) {
  return std::clamp(for_chunks / (2 * std::max<uint64_t>(lanes, 1)), kLeastChunkBytes, kMostChunkBytes);
}

// The samples around `sample` whose tar offsets fall into the same stretch of `chunk` bytes.
std::pair<uint64_t, uint64_t> neighbours(const tar::Index& index, uint64_t sample, uint64_t chunk) {
  const uint64_t stretch = index.range(sample).offset / chunk;
  const auto first_at = [&](uint64_t wanted) {
    uint64_t low = 0;
    uint64_t high = index.samples();
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      if (index.range(middle).offset / chunk < wanted) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  };
  return {first_at(stretch), first_at(stretch + 1)};
}

}  // namespace

Planner::Planner(const Catalogue& catalogue, const Recipe& recipe, Place place, Fetcher& fetcher,
                 std::shared_ptr<MemoryPool> pool)
    : catalogue_(catalogue),
      place_(place),
      fetcher_(fetcher),
      pool_(std::move(pool)),
      order_(catalogue.samples_per_shard(), order_options(recipe, place.epoch)),
      by_sample_(window_bytes(catalogue, recipe, place.world) > recipe.memory / 2),
      batch_(place.batch) {
  const uint64_t wanted = window_bytes(catalogue, recipe, place.world);
  const uint64_t lanes = (order_.lanes() + place.world - 1) / place.world;
  // Half of the memory is for bytes that wait for their turn.
  chunk_bytes_ = chunk_bytes(recipe.memory / 2 - std::min(wanted, recipe.memory / 2), lanes);
}

std::optional<BatchPlan> Planner::next() {
  if (batch_ >= order_.batches()) return std::nullopt;
  const Slice mine = order_.slice(batch_, place_.rank, place_.world);
  BatchPlan plan{place_.epoch, batch_, {}, 0};
  plan.elements.resize(mine.size);
  for (const Order::Share& share : order_.shares(batch_)) {
    const uint64_t first = std::max(share.elements.first, mine.first);
    const uint64_t end = std::min(share.elements.first + share.elements.size, mine.first + mine.size);
    if (first >= end) continue;
    Lane& lane = lanes_[share.lane];
    LaneCursor& cursor = cursor_at(lane, share.lane, share.position);
    for (uint64_t element = share.elements.first; element < share.elements.first + share.elements.size;
         ++element) {
      const bool is_mine = element >= first && element < end;
      Element taken = take(lane, share.lane, cursor.next(), is_mine);
      if (!is_mine) continue;
      plan.bytes += taken.size;
      plan.elements[element - mine.first] = std::move(taken);
    }
  }
  batch_ += place_.step;
  return plan;
}

// Lanes are walked forwards, except where a batch is padded with samples from the beginning.
LaneCursor& Planner::cursor_at(Lane& lane, uint64_t lane_number, uint64_t position) {
  if (!lane.cursor || lane.cursor->position() > position) {
    lane = Lane();
    lane.cursor = std::make_unique<LaneCursor>(order_, lane_number, position);
  }
  // Batches that others take.
  while (lane.cursor->position() < position) take(lane, lane_number, lane.cursor->next(), false);
  return *lane.cursor;
}

Element Planner::take(Lane& lane, uint64_t lane_number, uint64_t place, bool is_mine) {
  const SampleRef sample = order_.at(place);
  const tar::Index& index = *catalogue_.shards()[sample.shard].index;
  const tar::Index::Range range = index.range(sample.ordinal);
  const bool compressed = index.compression() != tar::Compression::kNone;
  if (by_sample_ && !compressed) {
    if (!is_mine) return {};
    Element element{std::make_shared<Chunk>(pool_), 0, range.size, sample};
    fetcher_.fetch({sample.shard, range.offset, range.size}, element.chunk);
    return element;
  }
  const auto held = hold(lane, lane_number, place);
  Element element;
  if (is_mine) {
    // Samples of other ranks in the same chunk cost their bytes, but no request.
    element = {held->second.chunk, range.offset - held->second.offset, range.size, sample};
  }
  if (--held->second.left == 0) lane.held.erase(held);
  // After a resume some samples of a chunk were taken before: it goes when the window has passed it.
  const uint64_t behind = lane.cursor->position() + order_.lane_start(lane_number);
  if (!lane.held.empty() && lane.held.begin()->second.end + order_.lane_window() <= behind)
    lane.held.erase(lane.held.begin());
  return element;
}

std::map<uint64_t, Planner::Lane::Held>::iterator Planner::hold(Lane& lane, uint64_t lane_number,
                                                                uint64_t place) {
  auto after = lane.held.upper_bound(place);
  if (after != lane.held.begin()) {
    const auto found = std::prev(after);
    if (place < found->second.end) return found;
  }
  const SampleRef sample = order_.at(place);
  const uint64_t lane_start = order_.lane_start(lane_number);
  const uint64_t lane_end = lane_start + order_.lane_size(lane_number);
  const tar::Index& index = *catalogue_.shards()[sample.shard].index;
  const auto stretch_of = [&](uint64_t at) {
    const SampleRef one = order_.at(at);
    const auto [first, end] = neighbours(index, one.ordinal, chunk_bytes_);
    const uint64_t shard_start = at - one.ordinal;
    return std::pair(std::max(shard_start + first, lane_start), std::min(shard_start + end, lane_end));
  };
  if (index.compression() == tar::Compression::kNone) {
    const auto [first, end] = stretch_of(place);
    return lane.held.emplace(first, ask(first, end, nullptr)).first;
  }
  // A compressed shard is read forwards: what lies before goes first.
  const uint64_t shard_end = std::min(order_.shard_end(place), lane_end);
  auto [streaming, is_new] = lane.streams.try_emplace(shard_end);
  if (is_new) {
    const uint64_t start = std::max(place - sample.ordinal, lane_start);
    const uint64_t window = order_.lane_window();
    // Nothing before the window's reach is wanted any more.
    const uint64_t reach = std::max(start, place >= window ? place - window : 0);
    streaming->second = {fetcher_.open_stream(sample.shard), stretch_of(reach).first};
  }
  auto found = lane.held.end();
  while (streaming->second.next <= place) {
    const auto [from, to] = stretch_of(streaming->second.next);
    found = lane.held.emplace(from, ask(from, to, streaming->second.stream)).first;
    streaming->second.next = to;
  }
  MR_ASSERT(found != lane.held.end(), place, streaming->second.next);
  if (streaming->second.next >= shard_end) lane.streams.erase(streaming);
  return found;
}

Planner::Lane::Held Planner::ask(uint64_t first, uint64_t end, const std::shared_ptr<Stream>& stream) {
  const SampleRef from = order_.at(first);
  const tar::Index& index = *catalogue_.shards()[from.shard].index;
  const uint64_t begin = index.range(from.ordinal).offset;
  const tar::Index::Range last = index.range(from.ordinal + (end - first) - 1);
  Lane::Held held{std::make_shared<Chunk>(pool_), begin, end, end - first};
  const Stretch stretch{from.shard, begin, last.offset + last.size - begin};
  if (stream) {
    fetcher_.fetch(stream, stretch, held.chunk);
  } else {
    fetcher_.fetch(stretch, held.chunk);
  }
  return held;
}

}  // namespace millrace::loader
