// Implements runs and their merge. Records in memory and on disk have one layout: four words, the order, the
// blocks.
#include "shard/run.h"

#include <algorithm>
#include <cstring>
#include <queue>

namespace millrace::shard {

namespace {

struct RecordHeader {
  uint64_t order_bytes;
  uint64_t block_bytes;
  uint64_t shard;
  uint64_t ordinal;
};

uint64_t stored_bytes(const RecordHeader& header) {
  return sizeof(RecordHeader) + header.order_bytes + header.block_bytes;
}

RecordHeader header_of(const RunRecord& record) {
  return {record.order.size(), record.blocks.size(), record.place.shard, record.place.ordinal};
}

RecordHeader header_at(const std::byte* bytes) {
  RecordHeader header;
  std::memcpy(&header, bytes, sizeof header);
  return header;
}

RunRecord record_at(const std::byte* bytes) {
  const RecordHeader header = header_at(bytes);
  const char* order = reinterpret_cast<const char*>(bytes) + sizeof header;
  return {{order, header.order_bytes},
          {header.shard, header.ordinal},
          {order + header.order_bytes, header.block_bytes}};
}

uint64_t first_eight(std::string_view order) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i)
    value = value << 8 | (i < order.size() ? static_cast<unsigned char>(order[i]) : 0);
  return value;
}

class FileCursor final : public RunCursor {
 public:
  FileCursor(const File& run, size_t buffer_bytes) : run_(run), buffer_(buffer_bytes) {}

  Result<const RunRecord*> next() override {
    at_ += shown_;
    shown_ = 0;
    const size_t left = MR_TRY(have(sizeof(RecordHeader)));
    if (left == 0) return nullptr;
    if (left < sizeof(RecordHeader)) return cut();
    const uint64_t whole = stored_bytes(header_at(buffer_.data() + at_));
    const size_t there = MR_TRY(have(whole));
    if (there < whole) return cut();
    record_ = record_at(buffer_.data() + at_);
    shown_ = whole;
    return &record_;
  }

 private:
  // Makes that many bytes from at_ on available, or as many as the file has; says how many there are.
  Result<size_t> have(uint64_t wanted) {
    if (filled_ - at_ >= wanted) return filled_ - at_;
    std::memmove(buffer_.data(), buffer_.data() + at_, filled_ - at_);
    filled_ -= at_;
    at_ = 0;
    if (wanted > buffer_.size()) buffer_.resize(wanted);
    const size_t got = MR_TRY(run_.read_at(offset_, std::span(buffer_).subspan(filled_)));
    offset_ += got;
    filled_ += got;
    return filled_;
  }
  Error cut() const { return make_error(Code::kCorrupt, "{}: a run of the sort is cut short", run_.name()); }

  const File& run_;
  std::vector<std::byte> buffer_;
  uint64_t offset_ = 0;
  size_t at_ = 0;
  size_t filled_ = 0;
  size_t shown_ = 0;
  RunRecord record_;
};

}  // namespace

bool comes_before(const RunRecord& a, const RunRecord& b, Direction direction) {
  const int compared = a.order.compare(b.order);
  if (compared != 0) return (compared < 0) == (direction == Direction::kRising);
  return a.place < b.place;
}

Result<Arena> Arena::make(Budget& budget, uint64_t bytes) {
  Arena arena;
  arena.memory_ = MR_TRY(Buffer::make(budget, bytes));
  return arena;
}

bool Arena::add(const RunRecord& record) {
  const RecordHeader header = header_of(record);
  // The entries are counted at twice their size: that is what the vector holds while it grows.
  const uint64_t cost = stored_bytes(header) + 2 * sizeof(Entry);
  const uint64_t taken = used_ + 2 * sizeof(Entry) * entries_.size();
  if (taken + cost > memory_.capacity()) return false;
  std::byte* to = memory_.bytes() + used_;
  std::memcpy(to, &header, sizeof header);
  std::memcpy(to + sizeof header, record.order.data(), record.order.size());
  std::memcpy(to + sizeof header + record.order.size(), record.blocks.data(), record.blocks.size());
  entries_.push_back({first_eight(record.order), used_});
  used_ += stored_bytes(header);
  return true;
}

void Arena::sort(Direction direction) {
  const std::byte* memory = memory_.bytes();
  std::ranges::sort(entries_, [&](const Entry& a, const Entry& b) {
    if (a.order_start != b.order_start)
      return (a.order_start < b.order_start) == (direction == Direction::kRising);
    return comes_before(record_at(memory + a.at), record_at(memory + b.at), direction);
  });
}

void Arena::clear() {
  used_ = 0;
  entries_.clear();
}

class Arena::Cursor final : public RunCursor {
 public:
  explicit Cursor(const Arena& arena) : arena_(arena) {}
  Result<const RunRecord*> next() override {
    if (position_ == arena_.entries_.size()) return nullptr;
    record_ = record_at(arena_.memory_.bytes() + arena_.entries_[position_++].at);
    return &record_;
  }

 private:
  const Arena& arena_;
  size_t position_ = 0;
  RunRecord record_;
};

std::unique_ptr<RunCursor> Arena::cursor() const {
  return std::make_unique<Cursor>(*this);
}

Result<RunWriter> RunWriter::create(const std::string& directory) {
  return RunWriter(MR_TRY(File::make_temporary(directory)));
}

Status RunWriter::add(const RunRecord& record) {
  constexpr size_t kGatherBytes = 1 << 20;
  const RecordHeader header = header_of(record);
  gathered_.append(reinterpret_cast<const char*>(&header), sizeof header);
  gathered_ += record.order;
  bytes_ += stored_bytes(header);
  if (gathered_.size() + record.blocks.size() <= kGatherBytes) {
    gathered_ += record.blocks;
    return {};
  }
  MR_TRY(file_.write_all(gathered_, record.blocks));
  gathered_.clear();
  return {};
}

Result<File> RunWriter::finish() {
  MR_TRY(file_.write_all(gathered_));
  gathered_ = {};
  return std::move(file_);
}

std::unique_ptr<RunCursor> read_run(const File& run, size_t buffer_bytes) {
  return std::make_unique<FileCursor>(run, buffer_bytes);
}

namespace {

// A heap of the runs' next records.
class Merge final : public RunCursor {
  struct Head {
    const RunRecord* record;
    size_t run;
  };
  auto later() const {
    return [direction = direction_](const Head& a, const Head& b) {
      return comes_before(*b.record, *a.record, direction);
    };
  }

 public:
  Merge(std::vector<std::unique_ptr<RunCursor>> runs, Direction direction)
      : runs_(std::move(runs)), direction_(direction) {}

  Result<const RunRecord*> next() override {
    if (!begun_) {
      for (size_t run = 0; run < runs_.size(); ++run) MR_TRY(push(run));
      begun_ = true;
    } else if (given_ < runs_.size()) {
      // Only now: what was given stays valid until the next call.
      MR_TRY(push(given_));
    }
    if (heap_.empty()) return nullptr;
    std::ranges::pop_heap(heap_, later());
    const Head first = heap_.back();
    heap_.pop_back();
    given_ = first.run;
    return first.record;
  }

 private:
  Status push(size_t run) {
    const RunRecord* record = MR_TRY(runs_[run]->next());
    given_ = runs_.size();
    if (record == nullptr) return {};
    heap_.push_back({record, run});
    std::ranges::push_heap(heap_, later());
    return {};
  }

  const std::vector<std::unique_ptr<RunCursor>> runs_;
  const Direction direction_;
  std::vector<Head> heap_;
  size_t given_ = 0;  // the run whose record was given last
  bool begun_ = false;
};

}  // namespace

std::unique_ptr<RunCursor> make_merge(std::vector<std::unique_ptr<RunCursor>> runs, Direction direction) {
  return std::make_unique<Merge>(std::move(runs), direction);
}

Status merge_runs(std::vector<std::unique_ptr<RunCursor>> runs, Direction direction,
                  const std::function<Status(const RunRecord&)>& emit) {
  Merge merge(std::move(runs), direction);
  while (true) {
    const RunRecord* record = MR_TRY(merge.next());
    if (record == nullptr) return {};
    MR_TRY(emit(*record));
  }
}

}  // namespace millrace::shard
