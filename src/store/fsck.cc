// Checking and rebuilding a drive.
#include "store/fsck.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <unordered_map>

#include "base/crc.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "store/buckets.h"
#include "store/coding.h"
#include "store/identity.h"
#include "store/index.h"
#include "store/reserve.h"
#include "store/sweep.h"
#include "store/trailer.h"
#include "store/uploads.h"
#include "store/verify.h"

namespace millrace::store {

namespace {

class Fsck {
 public:
  Fsck(std::string path, FsckOptions options)
      : path_(std::move(path)), options_(options), cache_(rocksdb::NewLRUCache(64 << 20)) {}

  Result<FsckReport> run() {
    MR_TRY(take_lock());
    MR_TRY(find_files());
    MR_TRY(open_index());
    const bool lost_commits = options_.rebuild && !index_->lost_log().empty();
    if (report_.index_rebuilt || report_.index_repaired || lost_commits) MR_TRY(restore());
    if (lost_commits) MR_TRY(index_->forget_loss());
    MR_TRY(check_objects());
    MR_TRY(check_uploads());
    for (const auto& [file, path] : files_) {
      if (!named_.contains(file)) report_.orphans.push_back(path);
    }
    std::ranges::sort(report_.orphans);
    return std::move(report_);
  }

 private:
  Status take_lock();
  Status find_files();
  Status open_index();
  Status put_index_aside();
  Status restore();
  Status restore_object(const Trailer& head, rocksdb::WriteBatch& batch);
  void restore_upload(const std::vector<const Trailer*>& parts, rocksdb::WriteBatch& batch);
  void restore_bucket(const std::string& name, uint64_t version, rocksdb::WriteBatch& batch);
  Status check_objects();
  Status check_uploads();
  void check_record(std::string_view bucket, std::string_view key, const Record& record);
  void check_one_file(std::string_view bucket, std::string_view key, uint64_t file);
  void damage(std::string_view bucket, std::string_view key, uint64_t block, std::string what) {
    report_.damages.push_back({std::string(bucket), std::string(key), path_, block, std::move(what)});
  }

  const std::string path_;
  const FsckOptions options_;
  const std::shared_ptr<rocksdb::Cache> cache_;
  FileLock lock_;
  std::unique_ptr<DriveIndex> index_;
  std::map<uint64_t, std::string> files_;  // path of each
  std::unordered_map<uint64_t, bool> named_;
  FsckReport report_;
};

Status Fsck::take_lock() {
  const auto identity = MR_TRY(find_drive_identity(path_));
  if (!identity) return make_error(Code::kNotFound, "{}: there is no drive in this directory", path_);
  auto lock = FileLock::try_take(path_ + "/lock").within("drive " + path_);
  if (!lock) return lock.take_error().with_hint("stop the node first");
  lock_ = lock.take();
  return {};
}

Status Fsck::find_files() {
  std::error_code error;
  std::filesystem::recursive_directory_iterator entries(path_ + "/data", error);
  if (error) return make_error(Code::kIo, "{}/data: {}", path_, error.message());
  for (; entries != std::filesystem::recursive_directory_iterator(); ++entries) {
    const auto& entry = *entries;
    if (entries.depth() > 0) entries.disable_recursion_pending();  // files lie in data/7f, and no deeper
    if (!entry.is_regular_file()) continue;
    const auto file = parse_file_name(entry.path().filename().string());
    if (!file) continue;
    files_[*file] = entry.path().string();
    ++report_.files;
    report_.bytes += entry.file_size();
  }
  return {};
}

Status Fsck::put_index_aside() {
  const std::string index = path_ + "/index";
  for (int number = 1;; ++number) {
    const std::string aside = fmt::format("{}.broken-{}", index, number);
    if (file_exists(aside)) continue;
    if (::rename(index.c_str(), aside.c_str()) != 0 && errno != ENOENT)
      return make_system_error(errno, "moving " + index);
    return {};
  }
}

Status Fsck::open_index() {
  const std::string path = path_ + "/index";
  const bool is_there = file_exists(path + "/CURRENT");
  // The next start takes it again.
  Reserve(path_, 0).give_up();
  Result<std::unique_ptr<DriveIndex>> opened = make_error(Code::kCorrupt, "index {}: it is missing", path);
  if (is_there) opened = DriveIndex::open(path, cache_);
  if (!opened && !options_.rebuild) {
    return opened.take_error().with_hint("millrace fsck --rebuild makes a new index from the files");
  }
  if (!opened && is_there && DriveIndex::repair(path)) {
    opened = DriveIndex::open(path, cache_);
    report_.index_repaired = opened.has_value();
  }
  if (!opened) {
    report_.lost.push_back(fmt::format("objects up to {} bytes: they were inside the index ({})",
                                       kInlineBytes, opened.error().message()));
    MR_TRY(put_index_aside());
    opened = DriveIndex::open(path, cache_);
    report_.index_rebuilt = opened.has_value();
  }
  index_ = MR_TRY(std::move(opened));
  return {};
}

Status Fsck::restore() {
  std::map<std::pair<std::string, std::string>, Trailer> heads;  // newest of each key
  std::map<std::string, std::vector<const Trailer*>> parts;      // by upload
  std::vector<std::unique_ptr<Trailer>> part_trailers;
  uint64_t highest = 0;
  for (const auto& [file, path] : files_) {
    highest = std::max(highest, file);
    const auto opened = File::open_read(path);
    auto trailer =
        opened ? read_trailer(*opened, TrailerParts::kWithoutIndex) : Result<Trailer>(opened.error().copy());
    if (!trailer) {
      report_.lost.push_back(trailer.error().message());
      continue;
    }
    highest = std::max(highest, trailer->record.version);
    if (trailer->kind == FileKind::kPart) {
      part_trailers.push_back(std::make_unique<Trailer>(trailer.take()));
      parts[part_trailers.back()->upload].push_back(part_trailers.back().get());
      continue;
    }
    Trailer& newest = heads[{trailer->bucket, trailer->key}];
    if (newest.file == 0 || is_newer(trailer->record, newest.record)) newest = trailer.take();
  }
  rocksdb::WriteBatch batch;
  std::unordered_map<uint64_t, bool> used;
  for (const auto& [name, head] : heads) {
    MR_TRY(restore_object(head, batch));
    for (const Piece& piece : head.record.pieces) used[piece.file] = true;
  }
  for (const auto& [upload, trailers] : parts) {
    // Parts of a completed upload are pieces of its object.
    std::vector<const Trailer*> left;
    for (const Trailer* part : trailers) {
      if (!used.contains(part->file)) left.push_back(part);
    }
    if (left.size() == trailers.size()) restore_upload(left, batch);
  }
  Encoder clock;
  clock.u64(highest);
  index_->put(batch, Family::kMeta, kMetaClock, clock.bytes());
  return index_->write(batch, Sync::kYes);
}

void Fsck::restore_bucket(const std::string& name, uint64_t version, rocksdb::WriteBatch& batch) {
  const auto known = index_->find(Family::kBuckets, name);
  if (!known || *known) return;
  BucketRecord record;
  record.bucket.name = name;
  // Older than any other drive's record of it: that one has its settings.
  record.bucket.version = 1;
  record.bucket.created_ms = static_cast<int64_t>(version >> 20);
  index_->put(batch, Family::kBuckets, name, encode_bucket(record));
}

Status Fsck::restore_object(const Trailer& head, rocksdb::WriteBatch& batch) {
  const std::string key = object_key(head.bucket, head.key);
  const auto known = MR_TRY(index_->find(Family::kObjects, key));
  if (known) {
    const auto record = decode_record(*known);
    if (record && !is_newer(head.record, *record)) return {};
  }
  for (const Piece& piece : head.record.pieces) {
    if (files_.contains(piece.file)) continue;
    report_.lost.push_back(fmt::format("{}/{}: file {:016x} is missing", head.bucket, head.key, piece.file));
    return {};
  }
  restore_bucket(head.bucket, head.record.version, batch);
  index_->put(batch, Family::kObjects, key, encode_record(head.record));
  const std::string owner = encode_owner({head.bucket, head.key, "", 0});
  for (const uint64_t file : files_of(head.record)) index_->put(batch, Family::kFiles, file_key(file), owner);
  if (head.record.shard == ShardState::kPending) {
    index_->put(batch, Family::kMeta, std::string(kMetaPending) + key, "1");
  }
  ++report_.restored_objects;
  return {};
}

void Fsck::restore_upload(const std::vector<const Trailer*>& parts, rocksdb::WriteBatch& batch) {
  const Trailer& first = *parts.front();
  const std::string row = upload_key(first.bucket, first.key, first.upload);
  const auto known = index_->find(Family::kUploads, row);
  if (!known || *known) return;
  Upload upload;
  upload.version = first.record.version;
  upload.initiated_ms = first.initiated_ms;
  upload.headers = first.upload_headers;
  upload.tags = first.upload_tags;
  restore_bucket(first.bucket, first.record.version, batch);
  index_->put(batch, Family::kUploads, row, encode_upload(upload));
  std::map<uint32_t, const Trailer*> newest;
  for (const Trailer* part : parts) {
    const Trailer*& known_part = newest[part->part_number];
    if (known_part == nullptr || known_part->record.version < part->record.version) known_part = part;
  }
  for (const auto& [number, part] : newest) {
    index_->put(batch, Family::kUploads, part_key(part->bucket, part->key, part->upload, number),
                encode_record(part->record));
    index_->put(batch, Family::kFiles, file_key(part->file),
                encode_owner({part->bucket, part->key, part->upload, number}));
  }
  ++report_.restored_uploads;
}

void Fsck::check_one_file(std::string_view bucket, std::string_view key, uint64_t file) {
  named_[file] = true;
  const auto found = files_.find(file);
  if (found == files_.end()) {
    damage(bucket, key, 0, fmt::format("file {:016x} is missing", file));
    return;
  }
  if (!options_.deep) {
    const auto opened = File::open_read(found->second);
    const auto trailer =
        opened ? read_trailer(*opened, TrailerParts::kWithoutIndex) : Result<Trailer>(opened.error().copy());
    if (!trailer) damage(bucket, key, 0, trailer.error().message());
    return;
  }
  const auto check = check_file(found->second, file, [](uint64_t, std::string_view) { return Status(); });
  if (!check) {
    damage(bucket, key, 0, check.error().message());
    return;
  }
  for (const uint64_t block : check->bad_blocks) {
    damage(bucket, key, block, fmt::format("{}: its checksum is wrong", found->second));
  }
}

void Fsck::check_record(std::string_view bucket, std::string_view key, const Record& record) {
  for (const uint64_t file : files_of(record)) {
    check_one_file(bucket, key, file);
    const auto owner = index_->find(Family::kFiles, file_key(file));
    if (owner && !*owner) damage(bucket, key, 0, fmt::format("file {:016x} has no owner in the index", file));
  }
}

Status Fsck::check_objects() {
  const auto rows = index_->iterate(Family::kObjects, DriveIndex::Scan::kAll);
  for (rows->SeekToFirst(); rows->Valid(); rows->Next()) {
    const auto [bucket, key] = split_object_key(view(rows->key()));
    const auto record = decode_record(view(rows->value()));
    if (!record) {
      damage(bucket, key, 0, record.error().message());
      continue;
    }
    if (record->deleted) continue;
    ++report_.objects;
    check_record(bucket, key, *record);
    if (!record->pieces.empty()) continue;
    ++report_.inline_objects;
    if (record->size == 0) continue;
    const auto small = MR_TRY(index_->find(Family::kSmall, view(rows->key())));
    const auto bytes =
        small ? decode_small(*small)
              : Result<std::string>(make_error(Code::kCorrupt, "its bytes are not in the index"));
    if (!bytes) damage(bucket, key, 0, bytes.error().message());
  }
  if (!rows->status().ok()) damage("", "", 0, make_index_error(rows->status(), path_).message());
  return {};
}

Status Fsck::check_uploads() {
  const auto rows = index_->iterate(Family::kUploads, DriveIndex::Scan::kAll);
  for (rows->SeekToFirst(); rows->Valid(); rows->Next()) {
    const std::string_view row = view(rows->key());
    if (row.starts_with("u")) {
      ++report_.uploads;
      continue;
    }
    const auto [bucket, rest] = split_object_key(row.substr(1));
    const auto [key, upload] = split_object_key(rest);
    const auto record = decode_record(view(rows->value()));
    if (record) {
      check_record(bucket, key, *record);
    } else {
      damage(bucket, key, 0, record.error().message());
    }
  }
  if (!rows->status().ok()) damage("", "", 0, make_index_error(rows->status(), path_).message());
  return {};
}

}  // namespace

Result<FsckReport> fsck(const std::string& drive_path, FsckOptions options) {
  return Fsck(drive_path, options).run();
}

}  // namespace millrace::store
