// Implements PartPlan: turns places of an order into chunks to fetch.
#include "loader/part_plan.h"

#include <algorithm>

#include "base/assert.h"

namespace millrace::loader {

namespace {

std::vector<uint64_t> samples_of(const Catalogue& catalogue, size_t part) {
  const auto& all = catalogue.samples_per_shard();
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(catalogue.parts()[part]);
  return {begin, all.begin() + static_cast<std::ptrdiff_t>(catalogue.parts()[part + 1])};
}

}  // namespace

bool Supply::has_kept(SampleRef sample) const {
  if (keep == nullptr) return false;
  for (size_t field = 0; field < kept_fields; ++field) {
    if (!keep->find(sample, field)) return false;
  }
  return true;
}

bool is_compressed(const Shard& shard) {
  return shard.index->compression() != tar::Compression::kNone;
}

std::pair<uint64_t, uint64_t> samples_around(const Shard& shard, uint64_t sample, uint64_t chunk_bytes) {
  const uint64_t stretch = shard.range(sample).offset / chunk_bytes;
  const auto first_at = [&](uint64_t wanted) {
    uint64_t low = 0;
    uint64_t high = shard.samples();
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      if (shard.range(middle).offset / chunk_bytes < wanted) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  };
  return {first_at(stretch), first_at(stretch + 1)};
}

Stretch stretch_of(const Catalogue& catalogue, SampleRef first, uint64_t samples) {
  const Shard& shard = catalogue.shards()[first.shard];
  const uint64_t offset = shard.range(first.ordinal).offset;
  const tar::Index::Range last = shard.range(first.ordinal + samples - 1);
  return {first.shard, offset, last.offset + last.size - offset};
}

Element kept_sample(const Catalogue& catalogue, SampleRef sample) {
  Element element;
  element.size = catalogue.shards()[sample.shard].range(sample.ordinal).size;
  element.sample = sample;
  return element;
}

Element fetch_sample(const Catalogue& catalogue, SampleRef sample, const Supply& supply) {
  const Shard& shard = catalogue.shards()[sample.shard];
  const tar::Index::Range range = shard.range(sample.ordinal);
  Element element{std::make_shared<Chunk>(supply.pool), 0, range.size, sample, {}, 0, {}};
  const Stretch stretch{sample.shard, range.offset, range.size};
  if (is_compressed(shard)) {
    supply.fetcher.fetch(supply.fetcher.open_stream(sample.shard), stretch, element.chunk);
  } else {
    supply.fetcher.fetch(stretch, element.chunk);
  }
  return element;
}

PartPlan::PartPlan(const Catalogue& catalogue, size_t part, const OrderOptions& options, Reading reading,
                   Supply supply)
    : catalogue_(catalogue),
      first_shard_(static_cast<uint32_t>(catalogue.parts()[part])),
      reading_(reading),
      supply_(std::move(supply)),
      order_(samples_of(catalogue, part), options) {}

SampleRef PartPlan::at(uint64_t place) const {
  SampleRef sample = order_.at(place);
  sample.shard += first_shard_;
  return sample;
}

void PartPlan::take(uint64_t batch, Slice mine, std::span<Element> into) {
  for (const Order::Share& share : order_.shares(batch)) {
    const uint64_t share_end = share.elements.first + share.elements.size;
    const uint64_t first = std::max(share.elements.first, mine.first);
    const uint64_t end = std::min(share_end, mine.first + mine.size);
    if (first >= end) continue;
    Lane& lane = lane_at(share.lane, share.position);
    for (uint64_t element = share.elements.first; element < end; ++element) {
      const bool is_mine = element >= first;
      Element taken = take_next(lane, is_mine);
      if (is_mine) into[element - mine.first] = std::move(taken);
    }
  }
}

// Lanes are walked forwards, except where a batch is padded with samples from the beginning.
PartPlan::Lane& PartPlan::lane_at(uint64_t number, uint64_t position) {
  Lane& lane = lanes_[number];
  if (!lane.cursor || lane.cursor->position() > position) {
    lane = Lane();
    lane.number = number;
    lane.cursor = std::make_unique<LaneCursor>(order_, number, position);
  }
  // What others take.
  while (lane.cursor->position() < position) take_next(lane, false);
  return lane;
}

Element PartPlan::take_next(Lane& lane, bool is_mine) {
  const uint64_t place = lane.cursor->next();
  const SampleRef sample = at(place);
  const Shard& shard = catalogue_.shards()[sample.shard];
  const tar::Index::Range range = shard.range(sample.ordinal);
  if (reading_.by_sample && !is_compressed(shard)) {
    if (!is_mine) return {};
    if (supply_.has_kept(sample)) return kept_sample(catalogue_, sample);
    return fetch_sample(catalogue_, sample, supply_);
  }
  const Holding held = hold(lane, place);
  Element element;
  if (is_mine && !held->second.chunk && supply_.has_kept(sample)) {
    element = kept_sample(catalogue_, sample);
  } else if (is_mine) {
    if (!held->second.chunk) {
      // All of the stretch, wherever the lane cuts it: the same blocks in every epoch are what a cache needs.
      const auto [first, end] = samples_around(shard, sample.ordinal, reading_.chunk_bytes);
      ask(held->second, {sample.shard, first}, end - first, nullptr);
    }
    element = {held->second.chunk, range.offset - held->second.offset, range.size, sample, {}, 0, {}};
  }
  if (--held->second.left == 0) lane.held.erase(held);
  // After a start in the middle some samples of a chunk were never counted: it goes when the window has
  // passed it.
  const uint64_t passed = lane.cursor->position() + order_.lane_start(lane.number);
  if (!lane.held.empty() && lane.held.begin()->second.end + order_.lane_window() <= passed)
    lane.held.erase(lane.held.begin());
  return element;
}

std::pair<uint64_t, uint64_t> PartPlan::stretch_around(const Lane& lane, uint64_t place) const {
  const SampleRef sample = at(place);
  const auto [first, end] =
      samples_around(catalogue_.shards()[sample.shard], sample.ordinal, reading_.chunk_bytes);
  const uint64_t shard_start = place - sample.ordinal;
  const uint64_t lane_start = order_.lane_start(lane.number);
  return {std::max(shard_start + first, lane_start),
          std::min(shard_start + end, lane_start + order_.lane_size(lane.number))};
}

PartPlan::Holding PartPlan::hold(Lane& lane, uint64_t place) {
  const auto after = lane.held.upper_bound(place);
  if (after != lane.held.begin()) {
    const auto found = std::prev(after);
    if (place < found->second.end) return found;
  }
  if (is_compressed(shard_at(place))) return hold_streamed(lane, place);
  // The lane goes on with the shard behind this one.
  const uint64_t next = order_.shard_end(place);
  if (next < order_.lane_start(lane.number) + order_.lane_size(lane.number))
    supply_.fetcher.hint(at(next).shard);
  const auto [first, end] = stretch_around(lane, place);
  return lane.held.emplace(first, Lane::Held{nullptr, 0, end, end - first}).first;
}

// A compressed shard is read forwards: what lies before goes first, wanted or not.
PartPlan::Holding PartPlan::hold_streamed(Lane& lane, uint64_t place) {
  const SampleRef sample = at(place);
  const uint64_t lane_start = order_.lane_start(lane.number);
  const uint64_t shard_end = std::min(order_.shard_end(place), lane_start + order_.lane_size(lane.number));
  const auto [streaming, is_new] = lane.streams.try_emplace(shard_end);
  if (is_new) {
    const uint64_t start = std::max(place - sample.ordinal, lane_start);
    const uint64_t window = order_.lane_window();
    // Nothing before the window's reach is wanted any more.
    const uint64_t reach = std::max(start, place >= window ? place - window : 0);
    streaming->second = {supply_.fetcher.open_stream(sample.shard), stretch_around(lane, reach).first};
  }
  auto found = lane.held.end();
  while (streaming->second.next <= place) {
    const auto [first, end] = stretch_around(lane, streaming->second.next);
    Lane::Held held{nullptr, 0, end, end - first};
    ask(held, at(first), end - first, streaming->second.stream);
    found = lane.held.emplace(first, std::move(held)).first;
    streaming->second.next = end;
  }
  MR_ASSERT(found != lane.held.end(), place, streaming->second.next);
  if (streaming->second.next >= shard_end) lane.streams.erase(streaming);
  return found;
}

void PartPlan::ask(Lane::Held& held, SampleRef first, uint64_t samples,
                   const std::shared_ptr<Stream>& stream) {
  const Stretch stretch = stretch_of(catalogue_, first, samples);
  held.offset = stretch.offset;
  held.chunk = std::make_shared<Chunk>(supply_.pool);
  if (stream) {
    supply_.fetcher.fetch(stream, stretch, held.chunk);
  } else {
    supply_.fetcher.fetch(stretch, held.chunk);
  }
}

}  // namespace millrace::loader
