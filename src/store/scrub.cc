// The scrubber's thread.
#include "store/scrub.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "store/coding.h"
#include "store/verify.h"

namespace millrace::store {

namespace {

constexpr uint64_t kRowBytes = 1024;  // what looking at one object costs beside its bytes

}  // namespace

void Scrubber::start() {
  // Drives come and go, and clocks are set: looked at again now and then.
  const auto cycle = std::chrono::seconds(std::max<uint64_t>(core_.options.scrub_cycle_seconds, 1));
  thread_.start(std::min(cycle, std::chrono::seconds(60)), [this] { round(); });
}

void Scrubber::now() {
  {
    const MutexLock lock(mutex_);
    asked_ = true;
  }
  thread_.wake();
}

ScrubStatus Scrubber::status() const {
  ScrubStatus status;
  status.damaged = core_.damages.count();
  status.found = core_.damages.found();
  const MutexLock lock(mutex_);
  status.running = running_;
  status.cycles = cycles_;
  status.bytes_done = bytes_done_;
  status.bytes_total = std::max(bytes_total_, bytes_done_);
  status.objects_done = objects_done_;
  return status;
}

Scrubber::Mark Scrubber::mark_of(Drive& drive) const {
  const auto stored = drive.index().find(Family::kMeta, kMetaScrub);
  const std::string bytes = stored ? stored->value_or("") : "";
  Decoder decoder(bytes);
  const auto ended_ms = static_cast<int64_t>(decoder.u64());
  const std::string_view position = decoder.text();
  if (decoder.good()) return {ended_ms, std::string(position)};
  // A drive that is new: due in a cycle.
  const Mark fresh{wall_ms(), ""};
  set_mark(drive, fresh);
  return fresh;
}

void Scrubber::set_mark(Drive& drive, const Mark& mark) const {
  Encoder encoder;
  encoder.u64(static_cast<uint64_t>(mark.ended_ms));
  encoder.text(mark.position);
  rocksdb::WriteBatch batch;
  drive.index().put(batch, Family::kMeta, kMetaScrub, encoder.bytes());
  // Lost with the power it costs a part of a cycle.
  Status written = drive.index().write(batch, Sync::kNo);
  if (!written)
    core_.log.warn("cannot note how far scrubbing is", "drive", drive.path(), "why",
                   written.error().message());
}

std::vector<std::weak_ptr<Drive>> Scrubber::due_drives() {
  const std::shared_ptr<const DriveMap> map = core_.map();
  bool asked = false;
  {
    const MutexLock lock(mutex_);
    asked = std::exchange(asked_, false);
  }
  if (asked) {
    for (const auto& drive : map->drives) set_mark(*drive, {mark_of(*drive).ended_ms, ""});
    return {map->drives.begin(), map->drives.end()};
  }
  const auto cycle_ms = static_cast<int64_t>(std::max<uint64_t>(core_.options.scrub_cycle_seconds, 1) * 1000);
  std::vector<std::weak_ptr<Drive>> due;
  for (const auto& drive : map->drives) {
    if (core_.options.scrub_bytes_per_second == 0) break;
    const Mark mark = mark_of(*drive);
    if (!mark.position.empty() || wall_ms() - mark.ended_ms >= cycle_ms) due.push_back(drive);
  }
  return due;
}

void Scrubber::round() {
  const std::vector<std::weak_ptr<Drive>> drives = due_drives();
  if (drives.empty()) return;
  const uint64_t bytes = count_bytes(drives);
  {
    const MutexLock lock(mutex_);
    running_ = true;
    bytes_total_ = bytes;
    bytes_done_ = 0;
    objects_done_ = 0;
  }
  cycle(drives);
  const MutexLock lock(mutex_);
  running_ = false;
  if (thread_.goes_on()) ++cycles_;
}

uint64_t Scrubber::count_bytes(const std::vector<std::weak_ptr<Drive>>& drives) {
  uint64_t bytes = 0;
  for (const auto& one : drives) {
    const std::shared_ptr<Drive> drive = one.lock();
    if (drive == nullptr) continue;
    const auto rows = drive->index().iterate(Family::kObjects, DriveIndex::Scan::kAll);
    const std::string from = mark_of(*drive).position;
    for (rows->Seek(from.empty() ? from : from + '\0'); rows->Valid(); rows->Next()) {
      const auto summary = summarize_record(view(rows->value()));
      bytes += kRowBytes + (summary ? summary->size : 0);
      if (!thread_.goes_on()) return bytes;
    }
  }
  return bytes;
}

void Scrubber::cycle(const std::vector<std::weak_ptr<Drive>>& drives) {
  for (const auto& one : drives) {
    const std::shared_ptr<const DriveMap> map = core_.map();
    const std::shared_ptr<Drive> drive = one.lock();
    // One that was taken out may be closed at any moment.
    if (std::ranges::find(map->drives, drive) == map->drives.end()) continue;
    if (!scrub_drive(drive)) return;
  }
}

bool Scrubber::scrub_drive(const std::shared_ptr<Drive>& drive) {
  // In pages, so that no iterator holds old tables for the days that a cycle may take.
  constexpr size_t kPage = 1000;
  constexpr uint64_t kNoteEvery_us = 10'000'000;
  Mark mark = mark_of(*drive);
  uint64_t noted_us = steady_us();
  while (true) {
    std::vector<std::string> keys;
    {
      const auto rows = drive->index().iterate(Family::kObjects, DriveIndex::Scan::kSome);
      for (rows->Seek(mark.position + '\0'); rows->Valid() && keys.size() < kPage; rows->Next())
        keys.push_back(rows->key().ToString());
      if (!rows->status().ok()) {
        core_.report({"", "", drive->path(), 0, make_index_error(rows->status(), drive->path()).message()});
        set_mark(*drive, {wall_ms(), ""});
        return true;
      }
    }
    if (keys.empty()) {
      set_mark(*drive, {wall_ms(), ""});
      return true;
    }
    for (const std::string& encoded : keys) {
      const auto [bucket, key] = split_object_key(encoded);
      // Damage of what is inside the index is reported by the reading itself.
      const auto object = core_.load_object(std::string(bucket), std::string(key));
      if (object && (*object)->drive() == drive) scrub_object(**object);
      const bool goes_on = pace(object ? kRowBytes + (*object)->inline_bytes().size() : kRowBytes);
      if (goes_on) mark.position = encoded;
      if (!goes_on || steady_us() - noted_us > kNoteEvery_us) {
        set_mark(*drive, mark);
        noted_us = steady_us();
      }
      if (!goes_on) return false;
      const MutexLock lock(mutex_);
      ++objects_done_;
    }
  }
}

void Scrubber::scrub_object(const LocalObject& object) {
  uint64_t blocks_before = 0;
  const auto report = [&](uint64_t block, const std::string& what) {
    core_.report({object.bucket(), object.key(), object.drive()->path(), block, what});
  };
  const Record& record = object.record();
  for (const Piece& piece : record.pieces) {
    const auto check = check_file(object.drive()->file_path(piece.file), piece.file,
                                  [&](uint64_t, std::string_view bytes) -> Status {
                                    if (pace(bytes.size())) return {};
                                    return make_error(Code::kCancelled, "the store is being closed");
                                  });
    if (check) {
      for (const uint64_t block : check->bad_blocks) report(blocks_before + block, "its checksum is wrong");
      if (check->trailer.data_size != piece.size)
        report(blocks_before, "the file has not the size of the record");
    } else if (check.error().code() != Code::kCancelled) {
      report(blocks_before, check.error().message());
    }
    blocks_before += (piece.size + kBlockBytes - 1) / kBlockBytes;
  }
  if (record.pieces.size() == 1 && record.pieces.front().file == record.head) return;
  if (record.head == 0) return;
  const auto head = check_file(object.drive()->file_path(record.head), record.head,
                               [](uint64_t, std::string_view) { return Status(); });
  if (!head) report(0, head.error().message());
}

bool Scrubber::pace(uint64_t bytes) {
  {
    const MutexLock lock(mutex_);
    bytes_done_ += bytes;
  }
  const uint64_t rate = core_.options.scrub_bytes_per_second;
  if (rate == 0) return thread_.goes_on();
  return thread_.pause(std::chrono::microseconds(bytes * 1'000'000 / rate));
}

}  // namespace millrace::store
