// Implements Ledger: writes files in an order in which a kill at any moment loses nothing.
#include "exchange/ledger.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/crc.h"
#include "base/fault.h"
#include "base/hash.h"
#include "shard/index_file.h"
#include "tar/index_build.h"
#include "tar/sample.h"

namespace millrace::exchange {

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kEndBlocks = 1024;
// More than this are joined, whatever they waste: each is a file that is opened and mapped.
constexpr size_t kMostSegments = 256;

bool is_ours(const std::string& name) {
  return name.starts_with("manifest.") || name.starts_with("segment-");
}

// Adds one sample to an index; an error where the blocks are not exactly one.
Status add_to_index(tar::IndexBuilder& index, tar::SampleParser& parser, std::string_view blocks,
                    uint64_t offset) {
  const tar::Sample* sample = MR_TRY(parser.parse(blocks));
  index.begin_sample(offset, sample->key_hash);
  for (const tar::Field& field : sample->fields) {
    const auto place = static_cast<uint64_t>(field.bytes.data() - blocks.data());
    index.add_field({field.field, offset + place, field.bytes.size(), crc32c(field.bytes)});
  }
  index.end_sample(offset + blocks.size());
  return {};
}

}  // namespace

StagedSegment::StagedSegment(File file, std::string path, uint32_t number, uint64_t sample_bytes)
    : file_(std::move(file)), path_(std::move(path)), number_(number), sample_bytes_(sample_bytes) {}

StagedSegment::StagedSegment(StagedSegment&& other) noexcept
    : file_(std::move(other.file_)),
      path_(std::move(other.path_)),
      number_(other.number_),
      memory_(std::exchange(other.memory_, nullptr)),
      sample_bytes_(other.sample_bytes_),
      finished_(std::exchange(other.finished_, true)) {}

StagedSegment::~StagedSegment() {
  if (memory_ != nullptr) ::munmap(memory_, sample_bytes_ + kEndBlocks);
  if (!finished_) ::unlink(path_.c_str());
}

Result<Segment> StagedSegment::finish(std::span<Record> records) {
  const std::string_view all(reinterpret_cast<const char*>(memory_), sample_bytes_ + kEndBlocks);
  tar::IndexBuilder index;
  tar::SampleParser parser(tar::KeyRule::kFirstDot);
  uint64_t offset = 0;
  for (Record& record : records) {
    MR_TRY(add_to_index(index, parser, all.substr(offset, record.bytes), offset)
               .within(fmt::format("sample {}", record.id)));
    record.segment = number_;
    record.offset = offset;
    record.ordinal = static_cast<uint32_t>(&record - records.data());
    offset += record.bytes;
  }
  MR_ASSERT(offset == sample_bytes_, offset, sample_bytes_);
  MR_TRY(file_.sync());
  const std::string bytes = MR_TRY(std::move(index).finish(
      {{all.size(), hash64(all)}, all.size(), tar::Compression::kNone, tar::KeyRule::kFirstDot}));
  MR_TRY(write_file_atomically(shard::index_path(path_), bytes));
  finished_ = true;
  return Segment{number_, static_cast<uint32_t>(records.size()), all.size()};
}

Status Ledger::create(const std::string& directory, const Manifest& manifest) {
  const std::string name = manifest_name(manifest.epoch, manifest.generation);
  MR_TRY(write_file_atomically(directory + "/" + name, encode_manifest(manifest)));
  MR_FAULT("ledger.created");
  return write_file_atomically(directory + "/" + std::string(kCurrentName), name + "\n");
}

Result<std::unique_ptr<Ledger>> Ledger::open(const std::string& directory, StorageLimits limits) {
  std::unique_ptr<Ledger> ledger(new Ledger(directory, limits));
  MR_TRY(read_current(directory));
  auto lock = FileLock::try_take(ledger->path("lock"));
  if (!lock)
    return lock.take_error()
        .within("sample store " + directory)
        .with_hint("one process per rank; end the other one first");
  ledger->lock_ = lock.take();
  MR_TRY(ledger->reopen());
  const uint64_t next = ledger->manifest().epoch + 1;
  if (file_exists(ledger->path(manifest_name(next, 0)))) {
    // A manifest that is torn was never promised to anyone.
    auto prepared = read_manifest(directory, manifest_name(next, 0));
    if (prepared && prepared->epoch == next) ledger->prepared_ = prepared.take();
  }
  MR_TRY(ledger->sweep());
  return ledger;
}

Status Ledger::reopen() {
  store_ = MR_TRY(SampleStore::open(directory_));
  for (const Segment& segment : manifest().segments)
    next_segment_ = std::max(next_segment_, segment.number + 1);
  return {};
}

Status Ledger::sweep() {
  std::set<std::string> named = {manifest_name(manifest().epoch, manifest().generation)};
  const auto keep = [&](const Manifest& one) {
    for (const Segment& segment : one.segments) {
      named.insert(segment_name(segment.number));
      named.insert(shard::index_path(segment_name(segment.number)));
    }
  };
  keep(manifest());
  if (prepared_) {
    keep(*prepared_);
    named.insert(manifest_name(prepared_->epoch, prepared_->generation));
  }
  std::error_code failure;
  std::vector<std::string> gone;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, failure)) {
    const std::string name = entry.path().filename();
    if (is_ours(name) && !named.contains(name)) gone.push_back(name);
  }
  if (failure) return make_system_error(failure.value(), "listing " + directory_);
  for (const std::string& name : gone) MR_TRY(remove_file_if_present(path(name)));
  return {};
}

uint64_t Ledger::disk_bytes() const {
  uint64_t sum = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, ignored)) {
    struct stat found{};
    if (entry.path().extension() == ".tar" && ::stat(entry.path().c_str(), &found) == 0)
      sum += static_cast<uint64_t>(found.st_blocks) * 512;
  }
  return sum;
}

Result<StagedSegment> Ledger::stage(uint64_t sample_bytes) {
  const uint32_t number = next_segment_++;
  const std::string where = path(segment_name(number));
  const int descriptor = ::open(where.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) return make_system_error(errno, "making " + where);
  StagedSegment staged(File(descriptor, where), where, number, sample_bytes);
  const uint64_t whole = sample_bytes + kEndBlocks;
  // With its space taken, writing to the mapped file cannot fail any more.
  const int full = ::posix_fallocate(descriptor, 0, static_cast<off_t>(whole));
  if (full != 0) return make_system_error(full, "taking space for " + where);
  void* memory = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) return make_system_error(errno, "mapping " + where);
  staged.memory_ = static_cast<std::byte*>(memory);
  return staged;
}

Status Ledger::prepare(Manifest next) {
  MR_ASSERT(next.epoch == manifest().epoch + 1 && !prepared_, next.epoch, manifest().epoch);
  peak_bytes_ = std::max(peak_bytes_, disk_bytes());
  MR_FAULT("ledger.staged");
  MR_TRY(write_file_atomically(path(manifest_name(next.epoch, next.generation)), encode_manifest(next)));
  MR_FAULT("ledger.prepared");
  prepared_ = std::move(next);
  return {};
}

Status Ledger::discard() {
  if (prepared_) MR_TRY(remove_file_if_present(path(manifest_name(prepared_->epoch, prepared_->generation))));
  prepared_.reset();
  return sweep();
}

Status Ledger::switch_to(const Manifest& manifest) {
  return write_file_atomically(path(std::string(kCurrentName)),
                               manifest_name(manifest.epoch, manifest.generation) + "\n");
}

Status Ledger::commit() {
  MR_ASSERT(prepared_);
  MR_TRY(switch_to(*prepared_));
  MR_FAULT("ledger.committed");
  prepared_.reset();
  return reopen();
}

// Frees the pages of a segment that no sample lies in.
void Ledger::punch(uint32_t segment) {
  const Segment* found = manifest().find_segment(segment);
  std::vector<std::pair<uint64_t, uint64_t>> held;
  for (const Record& record : manifest().records) {
    if (record.segment == segment) held.emplace_back(record.offset, record.offset + record.bytes);
  }
  // The end blocks stay: a reader of the whole shard looks for them.
  held.emplace_back(found->bytes - kEndBlocks, found->bytes);
  std::ranges::sort(held);
  const int descriptor = ::open(path(segment_name(segment)).c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return;
  const File file(descriptor, segment_name(segment));
  uint64_t free_from = 0;
  for (const auto& [begin, end] : held) {
    const uint64_t first = (free_from + kPage - 1) / kPage * kPage;
    const uint64_t last = begin / kPage * kPage;
    // Where the file system cannot, the space comes back when samples are moved together.
    if (first < last) {
      ::fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
                  static_cast<off_t>(last - first));
    }
    free_from = end;
  }
}

Status Ledger::release() {
  MR_TRY(sweep());
  for (const Segment& segment : manifest().segments) punch(segment.number);
  MR_FAULT("ledger.punched");
  MR_TRY(compact());
  MR_FAULT("ledger.released");
  return {};
}

// Copies samples to a segment of their own; the epoch stays.
Status Ledger::rewrite(const std::vector<size_t>& slots) {
  std::vector<Record> moved;
  uint64_t bytes = 0;
  for (const size_t slot : slots) {
    moved.push_back(manifest().records[slot]);
    bytes += moved.back().bytes;
  }
  StagedSegment staged = MR_TRY(stage(bytes));
  auto to = staged.bytes().begin();
  for (const size_t slot : slots) {
    MR_TRY(store_->check(slot));
    to = std::ranges::copy(std::as_bytes(std::span(store_->blocks(slot))), to).out;
  }
  Manifest next = manifest();
  ++next.generation;
  next.segments.push_back(MR_TRY(staged.finish(moved)));
  for (size_t i = 0; i < slots.size(); ++i) next.records[slots[i]] = moved[i];
  std::set<uint32_t> used;
  for (const Record& record : next.records) used.insert(record.segment);
  std::erase_if(next.segments, [&](const Segment& one) { return !used.contains(one.number); });
  peak_bytes_ = std::max(peak_bytes_, disk_bytes());
  MR_TRY(write_file_atomically(path(manifest_name(next.epoch, next.generation)), encode_manifest(next)));
  MR_FAULT("ledger.rewritten");
  MR_TRY(switch_to(next));
  MR_FAULT("ledger.compacted");
  MR_TRY(reopen());
  return sweep();
}

// The slots of the segments that are emptiest, a piece of them at most; nothing where all segments are full.
std::vector<size_t> Ledger::find_sparse() const {
  struct Sparse {
    const Segment* segment;
    std::vector<size_t> slots;
    uint64_t held = 0;
    double share() const { return static_cast<double>(held) / static_cast<double>(segment->bytes); }
  };
  std::vector<Sparse> segments;
  for (const Segment& segment : manifest().segments) segments.push_back({&segment, {}, 0});
  for (size_t slot = 0; slot < manifest().records.size(); ++slot) {
    const Record& record = manifest().records[slot];
    Sparse& sparse =
        *std::ranges::find(segments, record.segment, [](const Sparse& one) { return one.segment->number; });
    sparse.slots.push_back(slot);
    sparse.held += record.bytes;
  }
  const bool too_many = segments.size() > kMostSegments;
  std::erase_if(segments, [&](const Sparse& one) {
    const bool full = one.held + kEndBlocks == one.segment->bytes;
    return full && !(too_many && one.held < limits_.piece / 2);
  });
  std::ranges::sort(segments, {}, &Sparse::share);
  std::vector<size_t> slots;
  uint64_t bytes = 0;
  for (const Sparse& one : segments) {
    for (const size_t slot : one.slots) {
      bytes += manifest().records[slot].bytes;
      if (bytes > limits_.piece && !slots.empty()) return slots;
      slots.push_back(slot);
    }
  }
  return slots;
}

// While too much space is lost around samples that left, or segments are too many, those of the emptiest move
// together.
Status Ledger::compact() {
  while (true) {
    const uint64_t disk = disk_bytes();
    peak_bytes_ = std::max(peak_bytes_, disk);
    const bool sparse = disk > manifest().live_bytes() + limits_.slack;
    if (!sparse && manifest().segments.size() <= kMostSegments) return {};
    const std::vector<size_t> slots = find_sparse();
    if (slots.empty()) return {};
    const size_t before = manifest().segments.size();
    MR_TRY(rewrite(slots));
    for (const Segment& segment : manifest().segments) punch(segment.number);
    if (!sparse && manifest().segments.size() >= before) return {};
  }
}

}  // namespace millrace::exchange
