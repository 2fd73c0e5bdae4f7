// The scrubber's thread.
#include "store/scrub.h"

#include <chrono>

#include "store/verify.h"

namespace millrace::store {

Scrubber::~Scrubber() {
  stop();
}

void Scrubber::start() {
  thread_ = std::jthread([this] { run(); });
}

void Scrubber::stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Scrubber::now() {
  {
    std::lock_guard lock(mutex_);
    asked_ = true;
  }
  changed_.notify_all();
}

ScrubStatus Scrubber::status() const {
  ScrubStatus status;
  const std::shared_ptr<const DriveMap> drives = core_.map();
  for (const auto& drive : drives->drives) {
    const DriveStatus now = drive->status();
    status.bytes_total += now.total_bytes - now.free_bytes;
  }
  status.damaged = core_.damages.count();
  status.found = core_.damages.found();
  std::lock_guard lock(mutex_);
  status.running = running_;
  status.cycles = cycles_;
  status.bytes_done = bytes_done_;
  status.objects_done = objects_done_;
  return status;
}

void Scrubber::run() {
  const auto rest = std::chrono::seconds(core_.options.scrub_cycle_seconds);
  while (true) {
    {
      std::unique_lock lock(mutex_);
      const auto due = [&] { return stopped_ || asked_; };
      if (core_.options.scrub_bytes_per_second == 0) {
        changed_.wait(lock, due);
      } else {
        changed_.wait_for(lock, rest, due);
      }
      if (stopped_) return;
      asked_ = false;
      running_ = true;
      bytes_done_ = 0;
      objects_done_ = 0;
    }
    cycle();
    std::lock_guard lock(mutex_);
    running_ = false;
    if (!stopped_) ++cycles_;
  }
}

void Scrubber::cycle() {
  const std::shared_ptr<const DriveMap> drives = core_.map();
  for (const auto& drive : drives->drives) {
    if (!scrub_drive(drive)) return;
  }
}

bool Scrubber::scrub_drive(const std::shared_ptr<Drive>& drive) {
  // In pages, so that no iterator holds old tables for the days that a cycle may take.
  constexpr size_t kPage = 1000;
  std::string from;
  while (true) {
    std::vector<std::string> keys;
    {
      const auto rows = drive->index().iterate(Family::kObjects, DriveIndex::Scan::kSome);
      for (rows->Seek(from); rows->Valid() && keys.size() < kPage; rows->Next())
        keys.push_back(rows->key().ToString());
      if (!rows->status().ok()) {
        core_.report({"", "", drive->path(), 0, make_index_error(rows->status(), drive->path()).message()});
        return true;
      }
    }
    if (keys.empty()) return true;
    from = keys.back() + '\0';
    for (const std::string& encoded : keys) {
      const auto [bucket, key] = split_object_key(encoded);
      // Damage of what is inside the index is reported by the reading itself.
      const auto object = core_.load_object(std::string(bucket), std::string(key));
      if (object && (*object)->drive() == drive) scrub_object(**object);
      if (!pace(object ? 1024 + (*object)->inline_bytes().size() : 1024)) return false;
      std::lock_guard lock(mutex_);
      ++objects_done_;
    }
  }
}

void Scrubber::scrub_object(const Object& object) {
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
  std::unique_lock lock(mutex_);
  bytes_done_ += bytes;
  const uint64_t rate = core_.options.scrub_bytes_per_second;
  if (rate == 0) return !stopped_;
  changed_.wait_for(lock, std::chrono::microseconds(bytes * 1'000'000 / rate), [&] { return stopped_; });
  return !stopped_;
}

}  // namespace millrace::store
