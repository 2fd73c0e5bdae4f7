// Implements sort_over_ranks: finds ranges, sends records to them, tells where shards begin, and writes the
// shards.
#include "exchange/rank_sort.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <thread>

#include "base/file.h"
#include "base/number.h"
#include "exchange/record_stream.h"
#include "net/url.h"
#include "shard/run_pile.h"

namespace millrace::exchange {

namespace {

using Json = nlohmann::json;
using shard::RunRecord;

// Where a range begins.
struct Splitter {
  std::string order;
  shard::Place place;
  RunRecord record() const { return {order, place, {}}; }
};

// The shard under way where a range begins.
struct Cut {
  uint64_t next_number = 0;  // of the shard that begins next
  uint64_t samples = 0;      // in the one under way; 0: none is
  uint64_t tar_bytes = 0;
  uint64_t owner = 0;  // the rank that writes it
};

// Few samples of many shards show well enough how keys are spread; how well decides only who does how much.
constexpr uint64_t kProbesOfAShard = 32;
constexpr size_t kProbedShards = 64;

class RankSort {
 public:
  RankSort(Group& group, const std::vector<std::string>& shards, const RankSortOptions& options)
      : group_(group),
        shards_(shards),
        options_(options),
        direction_(shard::direction_of(options.sort)),
        pile_({direction_, options.sort.memory, options.sort.temporary_directory}) {}

  Result<RankSortReport> run() {
    MR_TRY(vote(group_, share_shards(), patience("looking at the shards")));
    MR_TRY(choose_carriage());
    MR_TRY(find_ranges());
    MR_TRY(vote(group_, route(), patience("sending samples to their ranges")));
    Status measured = measure();
    MR_TRY(vote(group_, measured, patience("sorting")));
    MR_TRY(place_cuts());
    MR_TRY(vote(group_, write_own(), patience("writing shards")));
    MR_TRY(vote(group_, write_rest(), patience("writing shards")));
    std::vector<shard::ShardSummary> written;
    const auto close = [&]() -> Status {
      if (writer_) written = MR_TRY(writer_->finish());
      return {};
    };
    MR_TRY(vote(group_, close(), patience("writing shards")));
    return report(written);
  }

 private:
  Patience patience(std::string_view doing) const { return {options_.timeout_ms, doing}; }
  uint32_t rank() const { return group_.rank(); }
  std::vector<uint32_t> others() const {
    std::vector<uint32_t> ranks;
    for (uint32_t i = 1; i < group_.size(); ++i) ranks.push_back((rank() + i) % group_.size());
    return ranks;
  }

  // Neighbouring shards to one rank, equally many bytes each as far as sizes are known.
  Status share_shards() {
    std::vector<uint64_t> bytes;
    for (const std::string& name : shards_)
      bytes.push_back(net::is_url(name) ? 1 : std::max<uint64_t>(1, MR_TRY(file_size(name))));
    const bool local =
        std::ranges::none_of(shards_, [](const std::string& name) { return net::is_url(name); });
    if (!local) std::ranges::fill(bytes, 1);
    const uint64_t all = std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
    uint64_t before = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      // By where its middle lies.
      owners_.push_back(
          static_cast<uint32_t>((before + bytes[i] / 2) * group_.size() / std::max<uint64_t>(all, 1)));
      before += bytes[i];
    }
    return {};
  }

  // Samples that all ranks can read from the memory of one machine need not travel.
  Status choose_carriage() {
    shard::Reread& reread = options_.sort.reread;
    if (reread != shard::Reread::kAuto) return {};
    const std::string own = std::to_string(MR_TRY(group_.node()));
    const std::vector<std::string> all = MR_TRY(gather_all(group_, own, patience("looking at the shards")));
    const bool together = std::ranges::all_of(all, [&](const std::string& one) { return one == own; });
    reread = together ? shard::choose_reread(shards_) : shard::Reread::kNever;
    return {};
  }

  Status find_ranges() {
    const uint32_t ranks = group_.size();
    if (options_.sort.by == shard::SortBy::kPlace) return {};
    if (options_.sort.by == shard::SortBy::kRandom) {
      // Hashes are spread evenly.
      for (uint32_t i = 1; i < ranks; ++i) {
        const auto start = static_cast<uint64_t>((static_cast<unsigned __int128>(i) << 64) / ranks);
        Splitter splitter;
        for (int shift = 56; shift >= 0; shift -= 8)
          splitter.order += static_cast<char>(start >> shift & 0xff);
        splitters_.push_back(std::move(splitter));
      }
      return {};
    }
    std::string probes;
    const Status probed = probe(probes);
    MR_TRY(vote(group_, probed, patience("looking at the keys")));
    std::vector<Splitter> found;
    for (const std::string& said : MR_TRY(gather_all(group_, probes, patience("looking at the keys")))) {
      MR_TRY(each_record(said, [&](const RunRecord& record) -> Status {
        found.push_back({std::string(record.order), record.place});
        return {};
      }));
    }
    std::ranges::sort(found, [&](const Splitter& a, const Splitter& b) {
      return shard::comes_before(a.record(), b.record(), direction_);
    });
    for (uint32_t i = 1; i < ranks && !found.empty(); ++i)
      splitters_.push_back(found[i * found.size() / ranks]);
    return {};
  }

  Status probe(std::string& into) const {
    size_t looked = 0;
    for (size_t number = 0; number < shards_.size() && looked < kProbedShards; ++number) {
      if (owners_[number] != rank()) continue;
      ++looked;
      shard::SortOptions quiet = options_.sort;
      quiet.input.progress = nullptr;
      uint64_t seen = 0;
      const auto read =
          shard::read_records(shards_[number], number, quiet, [&](const RunRecord& record) -> Status {
            append_record(into, {record.order.substr(0, 4096), record.place, {}});
            if (++seen == kProbesOfAShard) return make_error(Code::kCancelled, "enough");
            return {};
          });
      if (!read && read.error().code() != Code::kCancelled) return read.error().copy();
    }
    return {};
  }

  uint32_t range_of(const RunRecord& record) const {
    if (options_.sort.by == shard::SortBy::kPlace) return owners_[record.place.shard];
    const auto beyond = std::ranges::upper_bound(
        splitters_, record,
        [&](const RunRecord& a, const RunRecord& b) { return shard::comes_before(a, b, direction_); },
        &Splitter::record);
    return static_cast<uint32_t>(beyond - splitters_.begin());
  }

  Status route() {
    shard::Arena arena = MR_TRY(pile_.make_arena(options_.sort.memory / 64 * 64));
    RecordStreams streams(group_, others(), RecordStreams::Hearing::kAtOnce,
                          [&](const RunRecord& record) { return pile_.add(arena, record); });
    streams.set_patience(patience("sending samples to their ranges"));
    Status read;
    for (size_t number = 0; number < shards_.size() && read; ++number) {
      if (owners_[number] != rank()) continue;
      auto done =
          shard::read_records(shards_[number], number, options_.sort, [&](const RunRecord& record) -> Status {
            const uint32_t range = range_of(record);
            return range == rank() ? pile_.add(arena, record) : streams.give(range, record);
          });
      if (done) {
        sorted_.samples += done->samples;
        sorted_.loose_members += done->loose_members;
      } else {
        read = done.take_error();
      }
    }
    // Also after a failure the others are told that nothing more comes, and are heard to the end.
    Status finished = streams.finish(others());
    bytes_sent_ += streams.bytes_sent();
    pile_.keep(std::move(arena));
    return read ? std::move(finished) : std::move(read);
  }

  Status each_sorted(uint64_t first, uint64_t end, const std::function<Status(const RunRecord&)>& take) {
    uint64_t at = 0;
    auto runs = MR_TRY(pile_.open());
    Status done = shard::merge_runs(std::move(runs), direction_, [&](const RunRecord& record) -> Status {
      const uint64_t place = at++;
      if (place < first) return {};
      if (place >= end) return make_error(Code::kCancelled, "enough");
      return take(record);
    });
    if (!done && done.error().code() == Code::kCancelled && at > end) return {};
    return done;
  }

  Status measure() {
    return each_sorted(0, UINT64_MAX, [&](const RunRecord& record) -> Status {
      sizes_.push_back(shard::sample_bytes(record));
      return {};
    });
  }

  // In turn: the shard under way at the end of one range is that at the beginning of the next.
  Status place_cuts() {
    const auto shared = std::make_shared<Cut>();
    group_.keep(shared);  // who gives up waiting must not take it away
    Cut& cut = *shared;
    const auto wait = [&](Group::Request request) -> Status {
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(options_.timeout_ms);
      while (!MR_TRY(group_.test(request))) {
        if (std::chrono::steady_clock::now() > end)
          return make_error(Code::kUnavailable, "a rank did not say where its last shard ends");
        std::this_thread::yield();
      }
      return {};
    };
    if (rank() > 0) {
      const auto heard =
          MR_TRY(group_.receive(rank() - 1, Tag::kCut, std::as_writable_bytes(std::span(&cut, 1))));
      MR_TRY(wait(heard));
    }
    before_ = cut;
    const bool numbered = options_.name.numbered();
    for (const uint64_t bytes : sizes_) {
      const bool full = numbered && shard::is_full(options_.limits, cut.samples, cut.tar_bytes, bytes);
      if (cut.samples == 0 || full) {
        cut = {cut.next_number + 1, 0, 0, rank()};
      } else if (cut.owner != rank()) {
        ++head_;
      }
      ++cut.samples;
      cut.tar_bytes += bytes;
    }
    if (rank() + 1 < group_.size()) {
      const std::string_view bytes(reinterpret_cast<const char*>(&cut), sizeof cut);
      const auto said = MR_TRY(group_.send(rank() + 1, Tag::kCut, bytes));
      MR_TRY(wait(said));
    }
    return {};
  }

  Status write(const RunRecord& record) { return writer_->add(*MR_TRY(finder_.find(record))); }

  Status write_own() {
    uint64_t all = 0;
    for (const std::string& said :
         MR_TRY(gather_all(group_, std::to_string(sizes_.size()), patience("writing shards"))))
      all += parse_number<uint64_t>(said).value_or(0);
    // Without any sample there is still one, empty, shard.
    const bool writes_empty = all == 0 && rank() == 0;
    if (head_ == sizes_.size() && !writes_empty) return {};
    writer_.emplace(options_.name, options_.limits, options_.output, before_.next_number);
    return each_sorted(head_, UINT64_MAX, [&](const RunRecord& record) { return write(record); });
  }

  // The beginning of this range to whoever writes it; what is missing from the ranges that follow.
  Status write_rest() {
    const std::vector<uint64_t> said = {head_, before_.owner};
    const std::string bytes(reinterpret_cast<const char*>(said.data()), 16);
    std::vector<uint32_t> from;
    const std::vector<std::string> all = MR_TRY(gather_all(group_, bytes, patience("writing shards")));
    for (uint32_t other = rank() + 1; other < all.size(); ++other) {
      uint64_t one[2] = {};
      if (all[other].size() != sizeof one) return make_error(Code::kCorrupt, "rank {} talks nonsense", other);
      std::memcpy(one, all[other].data(), sizeof one);
      if (one[0] > 0 && one[1] == rank()) from.push_back(other);
    }
    RecordStreams streams(group_, from, RecordStreams::Hearing::kInTurn,
                          [&](const RunRecord& record) { return write(record); });
    streams.set_patience(patience("writing shards"));
    Status given;
    const auto owner = static_cast<uint32_t>(before_.owner);
    if (head_ > 0)
      given = each_sorted(0, head_, [&](const RunRecord& record) { return streams.give(owner, record); });
    Status finished = streams.finish(head_ > 0 ? std::vector<uint32_t>{owner} : std::vector<uint32_t>{});
    bytes_sent_ += streams.bytes_sent();
    return given ? std::move(finished) : std::move(given);
  }

  Result<RankSortReport> report(const std::vector<shard::ShardSummary>& written) {
    Json own = {{"samples", sorted_.samples},
                {"loose", sorted_.loose_members},
                {"runs", pile_.runs()},
                {"spilled", pile_.spilled_bytes()},
                {"shards", Json::array()}};
    for (const shard::ShardSummary& one : written)
      own["shards"].push_back({one.path, one.samples, one.tar_bytes, one.stored_bytes, one.repeated_keys});
    RankSortReport report;
    report.bytes_sent = bytes_sent_;
    const std::string text = own.dump(-1, ' ', false, Json::error_handler_t::replace);
    for (const std::string& said : MR_TRY(gather_all(group_, text, patience("reporting")))) {
      const Json one = Json::parse(said, nullptr, false);
      if (one.is_discarded()) return make_error(Code::kCorrupt, "a rank's report cannot be read");
      report.sort.samples += one["samples"].get<uint64_t>();
      report.sort.loose_members += one["loose"].get<uint64_t>();
      report.sort.runs += one["runs"].get<uint64_t>();
      report.sort.spilled_bytes += one["spilled"].get<uint64_t>();
      for (const Json& shard : one["shards"]) {
        report.shards.push_back({shard[0].get<std::string>(), shard[1].get<uint64_t>(),
                                 shard[2].get<uint64_t>(), shard[3].get<uint64_t>(),
                                 shard[4].get<uint64_t>()});
      }
    }
    return report;
  }

  Group& group_;
  const std::vector<std::string>& shards_;
  RankSortOptions options_;
  const shard::Direction direction_;
  shard::RunPile pile_;
  std::vector<uint32_t> owners_;  // of input shards
  std::vector<Splitter> splitters_;
  std::vector<uint64_t> sizes_;  // of this range's samples, in order
  Cut before_;
  uint64_t head_ = 0;  // samples of this range that belong to a shard of an earlier one
  shard::SampleFinder finder_{shards_, options_.sort.input.read.group.key_rule};
  std::optional<shard::ShardWriter> writer_;
  shard::SortReport sorted_;
  uint64_t bytes_sent_ = 0;
};

}  // namespace

Result<RankSortReport> sort_over_ranks(Group& group, const std::vector<std::string>& shards,
                                       const RankSortOptions& options) {
  MR_TRY(shard::check_memory(options.sort));
  return RankSort(group, shards, options).run();
}

}  // namespace millrace::exchange
