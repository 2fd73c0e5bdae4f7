// Reading into arenas, spilling, merging.
#include "shard/sort.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <charconv>
#include <cmath>
#include <deque>
#include <mutex>
#include <optional>

#include "base/buffer.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/threads.h"
#include "base/units.h"
#include "shard/run.h"

namespace millrace::shard {

namespace {

constexpr uint64_t kLeastMemory = 4 << 20;
constexpr size_t kRunBuffer = 256 << 10;
// Each run is an open file; systems allow a thousand.
constexpr size_t kMostRuns = 512;
constexpr size_t kSmallRunBuffer = 64 << 10;

std::string big_endian(uint64_t value) {
  std::string bytes(8, 0);
  for (size_t i = 8; i-- > 0; value >>= 8) bytes[i] = static_cast<char>(value & 0xff);
  return bytes;
}

class Sorter {
 public:
  Sorter(const std::vector<std::string>& shards, const SortOptions& options)
      : shards_(shards), options_(options), budget_(options.memory) {}

  Result<SortReport> run(const std::function<Status(const tar::Sample&)>& emit) {
    MR_TRY(read_all());
    tar::SampleParser parser(options_.input.read.group.key_rule);
    const auto show = [&](const RunRecord& record) -> Status {
      const tar::Sample* sample = MR_TRY(parser.parse(record.blocks));
      return emit(*sample);
    };
    std::vector<std::unique_ptr<RunCursor>> runs;
    for (const Arena& arena : kept_) runs.push_back(arena.cursor());
    if (kept_.empty()) {
      MR_TRY(reduce_runs());
      for (const File& file : spilled_) runs.push_back(read_run(file, kRunBuffer));
    }
    MR_TRY(merge_runs(std::move(runs), direction(), show));
    return report_;
  }

 private:
  Direction direction() const { return options_.reverse ? Direction::kFalling : Direction::kRising; }

  Status read_all() {
    const auto most_jobs = static_cast<unsigned>(std::max<size_t>(1, shards_.size()));
    const unsigned jobs = std::clamp(options_.jobs, 1U, std::min(most_jobs, kMaxThreads));
    MR_TRY(run_threads(jobs, [this, jobs] {
      auto done = read_shards(options_.memory / jobs / 64 * 64);
      std::lock_guard lock(mutex_);
      if (!done && !failure_) failure_ = done.take_error();
    }));
    if (failure_) return std::move(*failure_);
    // The merge needs the memory of the arenas for its buffers, unless all of it is in the arenas.
    if (!spilled_.empty()) {
      for (Arena& arena : kept_) MR_TRY(spill(arena));
      kept_.clear();
    }
    return {};
  }

  bool failed() {
    std::lock_guard lock(mutex_);
    return failure_.has_value();
  }

  Status read_shards(uint64_t arena_bytes) {
    Arena arena = MR_TRY(Arena::make(budget_, arena_bytes));
    while (!failed()) {
      const size_t number = next_shard_.fetch_add(1);
      if (number >= shards_.size()) break;
      MR_TRY(read_shard(number, arena));
    }
    arena.sort(direction());
    std::lock_guard lock(mutex_);
    if (!arena.empty()) kept_.push_back(std::move(arena));
    return {};
  }

  Status read_shard(size_t number, Arena& arena) {
    const auto input = MR_TRY(ShardInput::open(shards_[number], options_.input));
    std::string blocks;
    uint64_t samples = 0;
    while (true) {
      const tar::Sample* sample = MR_TRY(input->samples().next());
      if (sample == nullptr) break;
      ++samples;
      if (options_.input.progress != nullptr) options_.input.progress->add(0, 1);
      const std::string order = MR_TRY(order_of(*sample, number));
      RunRecord record{order, {number, sample->ordinal}, sample->blocks};
      if (!sample->copyable) {
        blocks.clear();
        MR_TRY(tar::append_blocks(blocks, *sample));
        record.blocks = blocks;
      }
      if (arena.add(record)) continue;
      MR_TRY(spill(arena));
      // One that no arena can hold becomes a run by itself.
      if (!arena.add(record)) MR_TRY(spill_alone(record));
    }
    std::lock_guard lock(mutex_);
    report_.samples += samples;
    report_.loose_members += input->samples().loose_members();
    return {};
  }

  Result<std::string> order_of(const tar::Sample& sample, size_t shard) const {
    if (options_.by == SortBy::kKey) return std::string(sample.key);
    if (options_.by == SortBy::kRandom) {
      return big_endian(hash64(big_endian(shard) + big_endian(sample.ordinal), mix(options_.seed)));
    }
    const tar::Field* field = sample.find(options_.field);
    if (field == nullptr) {
      return make_error(Code::kNotFound, "{}: sample \"{}\" has no field {}", shards_[shard], sample.key,
                        options_.field)
          .with_hint("see what there is with millrace tar stat");
    }
    if (options_.by == SortBy::kText) return std::string(field->bytes);
    std::optional<std::string> number = number_as_bytes(field->bytes);
    if (!number) {
      return make_error(Code::kInvalid, "{}: sample \"{}\": field {} is not a number: \"{}\"", shards_[shard],
                        sample.key, options_.field, field->bytes.substr(0, 40))
          .with_hint("leave out --number to sort it as text");
    }
    return std::move(*number);
  }

  Status spill(Arena& arena) {
    if (arena.empty()) return {};
    arena.sort(direction());
    std::vector<std::unique_ptr<RunCursor>> one;
    one.push_back(arena.cursor());
    MR_TRY(write_run(std::move(one)));
    arena.clear();
    return merge_many_runs();
  }

  Status spill_alone(const RunRecord& record) {
    RunWriter writer = MR_TRY(RunWriter::create(options_.temporary_directory));
    MR_TRY(writer.add(record));
    MR_TRY(keep_run(writer));
    return merge_many_runs();
  }

  // While reading goes on: too many runs become one.
  Status merge_many_runs() {
    std::deque<File> many;
    {
      std::lock_guard lock(mutex_);
      if (spilled_.size() < kMostRuns) return {};
      many.swap(spilled_);
    }
    std::vector<std::unique_ptr<RunCursor>> cursors;
    for (const File& run : many) cursors.push_back(read_run(run, kSmallRunBuffer));
    return write_run(std::move(cursors));
  }

  Status write_run(std::vector<std::unique_ptr<RunCursor>> from) {
    RunWriter writer = MR_TRY(RunWriter::create(options_.temporary_directory));
    MR_TRY(merge_runs(std::move(from), direction(),
                      [&](const RunRecord& record) { return writer.add(record); }));
    return keep_run(writer);
  }

  Status keep_run(RunWriter& writer) {
    File file = MR_TRY(writer.finish());
    std::lock_guard lock(mutex_);
    spilled_.push_back(std::move(file));
    report_.runs += 1;
    report_.spilled_bytes += writer.bytes();
    return {};
  }

  // More runs than buffers fit into memory are merged to fewer, longer ones first.
  Status reduce_runs() {
    const size_t most = std::max<size_t>(2, options_.memory / 2 / kRunBuffer);
    while (spilled_.size() > most) {
      std::deque<File> group;
      std::vector<std::unique_ptr<RunCursor>> cursors;
      for (size_t i = 0; i < most; ++i) {
        group.push_back(std::move(spilled_.front()));
        spilled_.pop_front();
        cursors.push_back(read_run(group.back(), kRunBuffer));
      }
      MR_TRY(write_run(std::move(cursors)));
    }
    return {};
  }

  const std::vector<std::string>& shards_;
  const SortOptions& options_;
  Budget budget_;
  std::atomic<size_t> next_shard_ = 0;

  std::mutex mutex_;
  std::optional<Error> failure_;  // guarded by mutex_, as are the following while readers run
  std::deque<Arena> kept_;
  std::deque<File> spilled_;
  SortReport report_;
};

}  // namespace

Result<SortReport> sort_samples(const std::vector<std::string>& shards, const SortOptions& options,
                                const std::function<Status(const tar::Sample&)>& emit) {
  if (options.memory < kLeastMemory) {
    return make_error(Code::kInvalid, "sorting needs at least {} of memory", format_bytes(kLeastMemory));
  }
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
  const char* end = text.data() + text.size();
  double number = 0;
  const auto [rest, failure] = std::from_chars(text.data(), end, number);
  if (text.empty() || rest != end || (failure != std::errc{} && failure != std::errc::result_out_of_range)) {
    return std::nullopt;
  }
  if (std::isnan(number) || failure == std::errc::result_out_of_range) return std::nullopt;
  if (number == 0) number = 0;  // -0 equals 0
  // Sign first, then magnitude, as unsigned bytes.
  const auto bits = std::bit_cast<uint64_t>(number);
  const uint64_t ordered = (bits >> 63) != 0 ? ~bits : bits | (uint64_t{1} << 63);
  // Integers beyond 2^53 share a double; what the double rounded away decides between them.
  const bool negative = text.starts_with('-');
  uint64_t magnitude = 0;
  const auto [integer_end, integer_failure] =
      std::from_chars(text.data() + (negative ? 1 : 0), end, magnitude);
  uint64_t rounded = uint64_t{1} << 63;
  if (integer_failure == std::errc{} && integer_end == end) {
    const __int128 exact = negative ? -static_cast<__int128>(magnitude) : static_cast<__int128>(magnitude);
    rounded += static_cast<uint64_t>(exact - static_cast<__int128>(number));
  }
  return big_endian(ordered) + big_endian(rounded);
}

}  // namespace millrace::shard
