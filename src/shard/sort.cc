// Implements the external sort: reads into arenas, spills and merges.
#include "shard/sort.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <optional>

#include "base/hash.h"
#include "base/mutex.h"
#include "base/number.h"
#include "base/random.h"
#include "base/text.h"
#include "base/threads.h"
#include "base/units.h"
#include "shard/run_pile.h"

namespace millrace::shard {

namespace {

class Sorter {
 public:
  Sorter(const std::vector<std::string>& shards, const SortOptions& options)
      : shards_(shards),
        options_(options),
        pile_({direction_of(options), options.memory, options.temporary_directory}) {
    if (options_.reread == Reread::kAuto) options_.reread = choose_reread(shards);
  }

  Result<SortReport> run(const std::function<Status(const tar::Sample&)>& emit) {
    MR_TRY(read_all());
    SampleFinder finder(shards_, options_.input.read.group.key_rule);
    const auto show = [&](const RunRecord& record) -> Status { return emit(*MR_TRY(finder.find(record))); };
    auto runs = MR_TRY(pile_.open());
    MR_TRY(merge_runs(std::move(runs), direction_of(options_), show));
    const MutexLock lock(mutex_);
    report_.runs = pile_.runs();
    report_.spilled_bytes = pile_.spilled_bytes();
    return report_;
  }

 private:
  Status read_all() {
    const auto most_jobs = static_cast<unsigned>(std::max<size_t>(1, shards_.size()));
    const unsigned jobs = std::clamp(options_.jobs, 1U, std::min(most_jobs, kMaxThreads));
    MR_TRY(run_threads(jobs, [this, jobs] {
      auto done = read_shards(options_.memory / jobs / 64 * 64);
      if (!done) failure_.note(done.take_error());
    }));
    return failure_.take();
  }

  Status read_shards(uint64_t arena_bytes) {
    Arena arena = MR_TRY(pile_.make_arena(arena_bytes));
    while (!failure_.is_noted()) {
      const size_t number = next_shard_.fetch_add(1);
      if (number >= shards_.size()) break;
      const ReadReport read =
          MR_TRY(read_records(shards_[number], number, options_,
                              [&](const RunRecord& record) { return pile_.add(arena, record); }));
      const MutexLock lock(mutex_);
      report_.samples += read.samples;
      report_.loose_members += read.loose_members;
    }
    pile_.keep(std::move(arena));
    return {};
  }

  const std::vector<std::string>& shards_;
  SortOptions options_;
  RunPile pile_;
  std::atomic<size_t> next_shard_ = 0;

  Mutex mutex_;
  SortReport report_ MR_GUARDED_BY(mutex_);
  FirstError failure_;
};

}  // namespace

std::string big_endian(uint64_t value) {
  std::string bytes(8, 0);
  for (size_t i = 8; i-- > 0; value >>= 8) bytes[i] = static_cast<char>(value & 0xff);
  return bytes;
}

std::string random_order(const Place& place, uint64_t seed) {
  return big_endian(hash64(big_endian(place.shard) + big_endian(place.ordinal), mix(seed)));
}

Direction direction_of(const SortOptions& options) {
  return options.reverse ? Direction::kFalling : Direction::kRising;
}

Result<std::string> order_of(const tar::Sample& sample, const Place& place, const SortOptions& options) {
  if (options.by == SortBy::kPlace) return std::string();
  if (options.by == SortBy::kKey) return std::string(sample.key);
  if (options.by == SortBy::kRandom) return random_order(place, options.seed);
  const tar::Field* field = sample.find(options.field);
  if (field == nullptr) {
    return make_error(Code::kNotFound, "sample \"{}\" has no field {}; it has {}", printable(sample.key),
                      options.field, tar::names_of_fields(sample.fields));
  }
  if (options.by == SortBy::kText) return std::string(field->bytes);
  std::optional<std::string> number = number_as_bytes(field->bytes);
  if (!number) {
    return make_error(Code::kInvalid, "sample \"{}\": field {} is not a number: \"{}\"", sample.key,
                      options.field, field->bytes.substr(0, 40))
        .with_hint("leave out --number to sort it as text");
  }
  return std::move(*number);
}

Result<ReadReport> read_records(const std::string& shard, uint64_t number, const SortOptions& options,
                                const std::function<Status(const RunRecord&)>& take) {
  const auto input = MR_TRY(ShardInput::open(shard, options.input));
  const bool rereads = options.reread == Reread::kAlways && input->stored().is_seekable() &&
                       input->compression() == tar::Compression::kNone;
  std::string blocks;
  ReadReport report;
  while (true) {
    const tar::Sample* sample = MR_TRY(input->samples().next());
    if (sample == nullptr) break;
    ++report.samples;
    if (options.input.progress != nullptr) options.input.progress->add(0, 1);
    const Place place{number, sample->ordinal};
    const std::string order = MR_TRY(order_of(*sample, place, options).within(shard));
    RunRecord record{order, place, sample->blocks};
    const Spot spot{sample->offset, sample->blocks.size(), sample->key_hash};
    if (sample->copyable && rereads) {
      record.blocks = spot.as_blocks();
    } else if (!sample->copyable) {
      blocks.clear();
      MR_TRY(tar::append_blocks(blocks, *sample));
      record.blocks = blocks;
    }
    MR_TRY(take(record));
  }
  report.loose_members = input->samples().loose_members();
  return report;
}

Status check_memory(const SortOptions& options) {
  constexpr uint64_t kLeastMemory = 4 << 20;
  if (options.memory >= kLeastMemory) return {};
  return make_error(Code::kInvalid, "sorting needs at least {} of memory", format_bytes(kLeastMemory));
}

Result<SortReport> sort_samples(const std::vector<std::string>& shards, const SortOptions& options,
                                const std::function<Status(const tar::Sample&)>& emit) {
  MR_TRY(check_memory(options));
  return Sorter(shards, options).run(emit);
}

std::optional<std::string> number_as_bytes(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n' || text.front() == '\t'))
    text.remove_prefix(1);
  while (!text.empty() &&
         (text.back() == ' ' || text.back() == '\n' || text.back() == '\r' || text.back() == '\t')) {
    text.remove_suffix(1);
  }
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto read = parse_number<double>(text);
  if (!read) return std::nullopt;
  const double number = *read == 0 ? 0 : *read;  // -0 equals 0
  // Sign first, then magnitude, as unsigned bytes.
  const auto bits = std::bit_cast<uint64_t>(number);
  const uint64_t ordered = (bits >> 63) != 0 ? ~bits : bits | (uint64_t{1} << 63);
  // Integers beyond 2^53 share a double; what the double rounded away decides between them.
  const bool negative = text.starts_with('-');
  const auto magnitude = parse_number<uint64_t>(text.substr(negative ? 1 : 0));
  uint64_t rounded = uint64_t{1} << 63;
  if (magnitude) {
    const __int128 exact = negative ? -static_cast<__int128>(*magnitude) : static_cast<__int128>(*magnitude);
    rounded += static_cast<uint64_t>(exact - static_cast<__int128>(number));
  }
  return big_endian(ordered) + big_endian(rounded);
}

}  // namespace millrace::shard
