// Pins on the drive's files, and descriptors opened as they are needed.
#include "store/local_object.h"

#include <algorithm>

#include "base/assert.h"
#include "base/mutex.h"
#include "store/drive.h"
#include "store/trailer.h"

namespace millrace::store {

LocalObject::LocalObject(std::string bucket, std::string key, Record known, std::shared_ptr<Drive> drive,
                         std::string inline_bytes)
    : Object(std::move(bucket), std::move(key), std::move(known), std::move(inline_bytes)),
      drive_(std::move(drive)) {
  if (is_inline()) return;
  drive_->keeper().pin(files_of(record()));
  std::vector<uint64_t> blocks;
  blocks.reserve(record().pieces.size());
  for (const Piece& piece : record().pieces) blocks.push_back((piece.size + kBlockBytes - 1) / kBlockBytes);
  checked_ = std::make_unique<CheckedBlocks>(blocks);
  if (record().pieces.size() == 1) return;
  uint64_t end = 0;
  ends_.reserve(record().pieces.size());
  for (const Piece& piece : record().pieces) ends_.push_back(end += piece.size);
}

LocalObject::~LocalObject() {
  if (is_inline()) return;
  drive_->open_descriptors -= files_.size();
  drive_->unpin(files_of(record()));
}

LocalObject::Place LocalObject::locate(uint64_t offset) const {
  MR_ASSERT(offset < record().size, offset, record().size);
  if (ends_.empty()) return {0, offset};
  const auto piece = static_cast<size_t>(std::ranges::upper_bound(ends_, offset) - ends_.begin());
  return {piece, piece == 0 ? offset : offset - ends_[piece - 1]};
}

std::shared_ptr<const File> LocalObject::find_file(size_t piece) const {
  const MutexLock lock(mutex_);
  for (const auto& [number, file] : files_) {
    if (number == piece) return file;
  }
  return nullptr;
}

Result<std::shared_ptr<const File>> LocalObject::open_piece(size_t piece) const {
  if (auto file = find_file(piece)) return file;
  std::shared_ptr<const File> file = MR_TRY(drive_->open_file(record().pieces[piece].file));
  const MutexLock lock(mutex_);
  for (const auto& [number, other] : files_) {
    if (number == piece) return other;  // somebody else was faster
  }
  if (files_.size() == kMostOpen) {
    files_.erase(files_.begin());
    --drive_->open_descriptors;
  }
  files_.emplace_back(piece, file);
  ++drive_->open_descriptors;
  return file;
}

Result<std::shared_ptr<const std::vector<uint32_t>>> LocalObject::block_crcs(size_t piece) const {
  {
    const MutexLock lock(mutex_);
    for (const auto& [number, crcs] : crcs_) {
      if (number == piece) return crcs;
    }
  }
  const std::shared_ptr<const File> file = MR_TRY(open_piece(piece));
  Trailer trailer = MR_TRY(read_trailer(*file, TrailerParts::kWithoutIndex));
  if (trailer.file != record().pieces[piece].file || trailer.data_size != record().pieces[piece].size) {
    return make_error(Code::kCorrupt, "{}: it is not the file it should be", file->name());
  }
  auto crcs = std::make_shared<const std::vector<uint32_t>>(std::move(trailer.block_crcs));
  const MutexLock lock(mutex_);
  if (crcs_.size() == kMostOpen) crcs_.erase(crcs_.begin());
  crcs_.emplace_back(piece, crcs);
  return crcs;
}

}  // namespace millrace::store
