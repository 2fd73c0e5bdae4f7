// Reads objects through the page cache, in windows that are compared with their checksums.
#include "store/read.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "base/assert.h"
#include "base/clock.h"
#include "base/crc.h"
#include "base/fault.h"
#include "store/trailer.h"

namespace millrace::store {

namespace {

constexpr uint64_t kResident_us =
    100'000;  // so long a small object seen in the page cache is believed to be there
// Ahead of a sequential reader: 16 MiB gave 2 to 3 times plain reading, more gave nothing.
constexpr uint64_t kAheadWindows = 4;
// One byte of each stretch tells whether it is there: of longer ones where the kernel says at once that
// nothing is missing, for it counts what is still on its way from the drive.
constexpr uint64_t kTouchStep = 64 << 10;
constexpr uint64_t kArrivedStep = 2 << 20;
constexpr uint64_t kPourBytes = 1 << 20;
constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ: Linux 5.14; older kernels refuse it

#ifndef SYS_cachestat
constexpr long kCachestat = 451;
#else
constexpr long kCachestat = SYS_cachestat;
#endif

struct CachestatRange {
  uint64_t offset;
  uint64_t size;
};
struct Cachestat {
  uint64_t cached;
  uint64_t dirty;
  uint64_t writeback;
  uint64_t evicted;
  uint64_t recently_evicted;
};

bool probe_byte(int descriptor, uint64_t offset) {
  char byte = 0;
  const iovec into = {&byte, 1};
  return ::preadv2(descriptor, &into, 1, static_cast<off_t>(offset), RWF_NOWAIT) == 1;
}

// The stretch read into nowhere: slower to send from than what populate() leaves, but it says what is wrong.
Status pour(const File& file, uint64_t offset, uint64_t size) {
  static const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  off_t at = static_cast<off_t>(offset);
  while (size > 0) {
    const ssize_t done = ::sendfile(nowhere, file.descriptor(), &at, std::min(size, kPourBytes));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return make_system_error(errno, "reading " + file.name());
    if (done == 0) return make_error(Code::kTruncated, "{}: it ends too early", file.name());
    size -= static_cast<uint64_t>(done);
  }
  return {};
}

// Brings a stretch into the page cache in folios as large as the kernel makes them, and waits for it.
// readahead(2), and reads that several streams interleave, leave single pages: sending from those takes half
// as much CPU time again.
Status populate(const File& file, uint64_t offset, uint64_t size) {
  const uint64_t begin = offset / kPageBytes * kPageBytes;
  const size_t length = static_cast<size_t>(offset + size - begin);
  void* const mapped =
      ::mmap(nullptr, length, PROT_READ, MAP_SHARED, file.descriptor(), static_cast<off_t>(begin));
  if (mapped == MAP_FAILED) return pour(file, offset, size);
  ::madvise(mapped, length, MADV_HUGEPAGE);
  const bool there = ::madvise(mapped, length, kPopulateRead) == 0;
  ::munmap(mapped, length);
  return there ? Status() : pour(file, offset, size);
}

// A drive that cannot be read is marked as one that cannot be written is: it gets no new objects until both
// work.
Error failed_read(const LocalObject& object, Error error) {
  Drive& drive = *object.drive();
  drive.reads.count_error();
  if (error.code() == Code::kIo) error = drive.note(std::move(error));
  return std::move(error).within(
      fmt::format("{}/{} on drive {}", object.bucket(), object.key(), drive.path()));
}

}  // namespace

bool is_resident(const File& file, uint64_t offset, uint64_t size) {
  if (size == 0) return true;
  static std::atomic<bool> has_cachestat = true;
  uint64_t step = kTouchStep;
  if (has_cachestat.load(std::memory_order_relaxed)) {
    const CachestatRange range = {offset, size};
    Cachestat facts = {};
    if (::syscall(kCachestat, file.descriptor(), &range, &facts, 0) == 0) {
      const uint64_t first = offset / kPageBytes;
      const uint64_t last = (offset + size - 1) / kPageBytes;
      if (facts.cached < last - first + 1) return false;
      step = kArrivedStep;
    } else if (errno == ENOSYS) {
      has_cachestat = false;
    }
  }
  // The end first: it arrives last.
  if (!probe_byte(file.descriptor(), offset + size - 1)) return false;
  for (uint64_t at = offset; at < offset + size; at += step) {
    if (!probe_byte(file.descriptor(), at)) return false;
  }
  return true;
}

namespace {

// When the file was last written, and so whether what was compared is still what is there. As the kernel
// knows it: an io thread asks, and must not wait for a drive that stands still.
int64_t changed_ns(const File& file) {
  struct statx facts = {};
  if (::statx(file.descriptor(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MTIME, &facts) != 0) return -1;
  return facts.stx_mtime.tv_sec * 1'000'000'000 + facts.stx_mtime.tv_nsec;
}

struct Blocks {
  uint64_t first = 0;
  uint64_t end = 0;
};
Blocks blocks_of(const PieceRange& stretch) {
  return {stretch.offset / kBlockBytes, (stretch.offset + stretch.size + kBlockBytes - 1) / kBlockBytes};
}

// What left the memory comes from the drive again, whatever was compared before.
BlocksToCheck least_to_check(const File& file, const PieceRange& stretch) {
  return is_resident(file, stretch.offset, stretch.size) ? BlocksToCheck::kUnchecked : BlocksToCheck::kAll;
}

// Read in steps that stay in the processor's cache until they are added up.
Result<uint32_t> crc_of(const File& file, uint64_t offset, uint64_t size) {
  constexpr size_t kStep = 128 << 10;
  thread_local std::string buffer(kStep, '\0');
  uint32_t crc = 0;
  for (uint64_t done = 0; done < size;) {
    const size_t length = std::min<uint64_t>(kStep, size - done);
    MR_TRY(file.read_exactly(offset + done, std::as_writable_bytes(std::span(buffer).first(length))));
    crc = crc32c(std::string_view(buffer).substr(0, length), crc);
    done += length;
  }
  return crc;
}

}  // namespace

Status check_blocks(Core& core, const LocalObject& object, const PieceRange& stretch, BlocksToCheck which) {
  // Blocks are counted over the whole object, as whoever repairs it sees them.
  const uint64_t before = object.checked().first_of(stretch.piece);
  const auto damaged = [&](uint64_t block, std::string why) {
    const std::string& drive = object.drive()->path();
    core.report({object.bucket(), object.key(), drive, before + block, why});
    return make_error(Code::kCorrupt, "{}/{} on drive {}: block {}: {}", object.bucket(), object.key(), drive,
                      before + block, why);
  };
  const std::shared_ptr<const File> file = MR_TRY(object.open_piece(stretch.piece));
  const int64_t changed = changed_ns(*file);
  const uint64_t piece_size = object.record().pieces[stretch.piece].size;
  const Blocks blocks = blocks_of(stretch);
  for (uint64_t block = blocks.first; block < blocks.end; ++block) {
    if (which == BlocksToCheck::kUnchecked && object.checked().is_checked(stretch.piece, block, changed))
      continue;
    auto crcs = object.block_crcs(stretch.piece);
    if (!crcs) {
      if (crcs.error().code() == Code::kUnavailable || crcs.error().code() == Code::kIo)
        return failed_read(object, crcs.take_error());
      return damaged(0, crcs.error().message());
    }
    const uint64_t at = block * kBlockBytes;
    auto crc = crc_of(*file, at, std::min(kBlockBytes, piece_size - at));
    if (!crc && crc.error().code() == Code::kIo) return failed_read(object, crc.take_error());
    if (!crc) return damaged(block, crc.error().message());
    if (*crc != (**crcs)[block]) return damaged(block, "its checksum is wrong");
    object.checked().set_checked(stretch.piece, block, changed);
  }
  return {};
}

PieceRange ObjectReader::clip(const LocalObject& object, uint64_t offset, uint64_t size) const {
  const LocalObject::Place place = object.locate(offset);
  const uint64_t left = object.record().pieces[place.piece].size - place.offset;
  return {place.piece, place.offset, std::min({size, left, core_.options.read_window})};
}

bool ObjectReader::is_checked(const LocalObject& object, const File& file, const PieceRange& stretch) const {
  const Compare verify = core_.buckets.verify_of(object.bucket());
  if (verify != Compare::kFirst) return verify == Compare::kScrub;
  const int64_t changed = changed_ns(file);
  const Blocks blocks = blocks_of(stretch);
  for (uint64_t block = blocks.first; block < blocks.end; ++block) {
    if (!object.checked().is_checked(stretch.piece, block, changed)) return false;
  }
  return true;
}

Status ObjectReader::check(const LocalObject& object, const PieceRange& stretch, BlocksToCheck least) const {
  const Compare verify = core_.buckets.verify_of(object.bucket());
  if (verify == Compare::kScrub || broken("no-comparing")) return {};
  return check_blocks(core_, object, stretch, verify == Compare::kRead ? BlocksToCheck::kAll : least);
}

std::optional<Extent> ObjectReader::find_ready(const LocalObject& object, uint64_t offset, uint64_t size) {
  if (object.is_inline() || offset >= object.record().size || size == 0) return std::nullopt;
  const PieceRange stretch = clip(object, offset, size);
  std::shared_ptr<const File> file = object.find_file(stretch.piece);
  if (file == nullptr) return std::nullopt;
  Extent extent{file, {}, stretch.offset, stretch.size};
  const bool is_small = object.record().size <= core_.options.read_window;
  if (is_small) {
    const uint64_t now = coarse_us();
    if (now - object.resident_us.load(std::memory_order_relaxed) < kResident_us) return extent;
    const PieceRange whole{stretch.piece, 0, object.record().pieces[stretch.piece].size};
    if (!is_checked(object, *file, whole) || !is_resident(*file, 0, whole.size)) return std::nullopt;
    object.resident_us.store(now, std::memory_order_relaxed);
    return extent;
  }
  if (!is_checked(object, *file, stretch) || !is_resident(*file, stretch.offset, stretch.size))
    return std::nullopt;
  keep_ahead(object, offset);
  return extent;
}

// Asks for the next windows before a stream that has met the drive needs them.
void ObjectReader::keep_ahead(const LocalObject& object, uint64_t offset) {
  const uint64_t window = core_.options.read_window;
  const uint64_t end = std::min(object.record().size, offset + kAheadWindows * window);
  uint64_t ahead = object.ahead.load(std::memory_order_relaxed);
  while (ahead > offset && ahead < end) {
    if (object.ahead.compare_exchange_weak(ahead, ahead + window)) read_ahead(object, ahead);
    ahead = object.ahead.load(std::memory_order_relaxed);
  }
}

void ObjectReader::read_ahead(const LocalObject& object, uint64_t from) {
  const uint64_t end = std::min(object.record().size, from + core_.options.read_window);
  while (from < end) {
    const LocalObject::Place place = object.locate(from);
    const uint64_t length = std::min(end - from, object.record().pieces[place.piece].size - place.offset);
    const PieceRange stretch{place.piece, place.offset, length};
    object.drive()->reader().prefetch([this, held = object.shared_from_this(), stretch] {
      const uint64_t number = held->running.begin(stretch);
      bring_ahead(*held, stretch);
      for (const auto& waiter : held->running.finish(number)) waiter();
    });
    from += length;
  }
}

// Whoever sends these bytes meets the error itself, if there is one.
void ObjectReader::bring_ahead(const LocalObject& object, const PieceRange& stretch) {
  const auto file = object.open_piece(stretch.piece);
  limit_descriptors();
  if (!file) return;
  const BlocksToCheck least = least_to_check(**file, stretch);
  if (least == BlocksToCheck::kAll) static_cast<void>(populate(**file, stretch.offset, stretch.size));
  static_cast<void>(check(object, stretch, least).has_value());
}

bool ObjectReader::may_share(const LocalObject& object, Comparing comparing) const {
  return comparing == Comparing::kAsBucketSays && core_.buckets.verify_of(object.bucket()) != Compare::kRead;
}

void ObjectReader::prepare(std::shared_ptr<const LocalObject> object, Wanted wanted, Done<Extent> done) {
  if (object->is_inline() || wanted.offset >= object->record().size || wanted.size == 0) {
    done(make_error(Code::kInvalid, "{}/{}: no bytes to prepare at {}", object->bucket(), object->key(),
                    wanted.offset));
    return;
  }
  auto shared_done = std::make_shared<Done<Extent>>(std::move(done));
  const auto answer = [this, object, wanted, shared_done](Stream stream) {
    (*shared_done)(bring(*object, wanted, stream));
  };
  const PieceRange stretch = clip(*object, wanted.offset, wanted.size);
  const bool share = may_share(*object, wanted.comparing);
  if (share && object->running.wait(stretch, [answer] { answer(Stream::kGoesOn); })) return;
  const bool taken = object->drive()->reader().read([object, stretch, share, answer] {
    if (!share) return answer(Stream::kBegins);
    const uint64_t number = object->running.begin(stretch);
    answer(Stream::kBegins);
    for (const auto& waiter : object->running.finish(number)) waiter();
  });
  if (!taken) (*shared_done)(make_error(Code::kCancelled, "the store is being closed"));
}

Result<Extent> ObjectReader::bring(const LocalObject& object, Wanted wanted, Stream stream) {
  Drive& drive = *object.drive();
  const uint64_t started_us = steady_us();
  const PieceRange stretch = clip(object, wanted.offset, wanted.size);
  auto opened = object.open_piece(stretch.piece);
  if (!opened) {
    if (opened.error().code() == Code::kCorrupt) {
      core_.report({object.bucket(), object.key(), drive.path(), 0, opened.error().message()});
    }
    return failed_read(object, opened.take_error());
  }
  limit_descriptors();
  const std::shared_ptr<const File> file = opened.take();
  const BlocksToCheck least = least_to_check(*file, stretch);
  auto touched = populate(*file, stretch.offset, stretch.size);
  if (!touched) return failed_read(object, touched.take_error());
  // Before the comparing, so that the drive goes on meanwhile.
  const uint64_t end = wanted.offset + stretch.size;
  if (end < object.record().size) {
    if (stream == Stream::kBegins) object.ahead.store(end, std::memory_order_relaxed);
    keep_ahead(object, wanted.offset);
  }
  MR_TRY(wanted.comparing == Comparing::kAlways ? check_blocks(core_, object, stretch, BlocksToCheck::kAll)
                                                : check(object, stretch, least));
  if (core_.buckets.verify_of(object.bucket()) != Compare::kRead && stretch.size == object.record().size)
    object.resident_us.store(coarse_us(), std::memory_order_relaxed);
  drive.reads.count(stretch.size, steady_us() - started_us);
  return Extent{file, {}, stretch.offset, stretch.size};
}

void ObjectReader::limit_descriptors() {
  int64_t open = 0;
  const std::shared_ptr<const DriveMap> drives = core_.map();
  for (const auto& drive : drives->drives) open += drive->open_descriptors.load(std::memory_order_relaxed);
  const auto most = static_cast<int64_t>(core_.options.open_files);
  if (open > most) core_.cache.forget_files(static_cast<size_t>(open - most + most / 16));
}

}  // namespace millrace::store
