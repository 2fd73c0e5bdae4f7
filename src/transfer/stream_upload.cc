// Implements StreamUpload: fills parts, hands them to threads and sends them.
#include "transfer/stream_upload.h"

#include <algorithm>

#include "base/mutex.h"
#include "net/digest.h"

namespace millrace::transfer {

StreamUpload::StreamUpload(Location object, PutOptions options)
    : object_(std::move(object)), options_(std::move(options)) {}

StreamUpload::~StreamUpload() {
  if (finished_) return;
  {
    const MutexLock lock(mutex_);
    // The threads drop what is still queued.
    if (!failure_) failure_ = make_error(Code::kCancelled, "{} was not finished", object_.text());
  }
  join();
  if (!upload_.empty()) static_cast<void>(abort_upload(object_, upload_));
}

// 2000 parts of each size: 31 GiB in parts of 16 MiB, and 1 TB before the parts are used up.
uint64_t StreamUpload::next_part_bytes() const {
  return kPartBytes << std::min(last_number_ / 2000, 4);
}

Status StreamUpload::write(std::string_view bytes) {
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    const std::string_view take = bytes.substr(0, next_part_bytes() - filling_.size());
    filling_ += take;
    bytes.remove_prefix(take.size());
    if (filling_.size() == next_part_bytes()) MR_TRY(push_part());
  }
  return {};
}

Status StreamUpload::first_failure() {
  const MutexLock lock(mutex_);
  if (failure_) return failure_->copy();
  return {};
}

Status StreamUpload::push_part() {
  MR_TRY(first_failure());
  if (static_cast<uint64_t>(last_number_) == kMostParts)
    return make_error(Code::kTooLarge, "{} is larger than an object can be", object_.text());
  if (upload_.empty()) {
    upload_ = MR_TRY(begin_upload(object_, options_));
    for (unsigned i = 0; i < kStreamThreads; ++i) threads_.emplace_back([this] { send_parts(); });
  }
  Piece piece{++last_number_, std::move(filling_)};
  filling_.clear();
  if (!pieces_.push(std::move(piece))) return first_failure();
  return {};
}

void StreamUpload::send_parts() {
  while (auto piece = pieces_.pop()) {
    if (!first_failure()) continue;
    const std::string crc = net::digest(net::DigestKind::kCrc32c, piece->bytes);
    auto part = put_part(object_, upload_, piece->number, std::string_view(piece->bytes), crc);
    const MutexLock lock(mutex_);
    if (part) {
      parts_.push_back(part.take());
    } else if (!failure_) {
      failure_ = part.take_error();
    }
  }
}

void StreamUpload::join() {
  pieces_.close();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

Status StreamUpload::finish() {
  if (upload_.empty()) {
    const std::string crc = net::digest(net::DigestKind::kCrc32c, filling_);
    MR_TRY(put_object(object_, std::string_view(filling_), crc, options_));
    finished_ = true;
    return {};
  }
  if (!filling_.empty()) MR_TRY(push_part());
  join();
  MR_TRY(first_failure());
  std::vector<Part> parts;
  {
    const MutexLock lock(mutex_);
    parts.swap(parts_);
  }
  std::ranges::sort(parts, {}, &Part::number);
  MR_TRY(finish_upload(object_, upload_, parts, options_));
  finished_ = true;
  return {};
}

}  // namespace millrace::transfer
