// RocksDB behind index.h: families, options, keys.
#include "store/index.h"

#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <utility>

#include "base/crc.h"
#include "base/file.h"
#include "base/mutex.h"
#include "store/coding.h"

namespace millrace::store {

namespace {

constexpr std::array<const char*, kFamilies> kNames = {"default", "small", "files",  "uploads",
                                                       "buckets", "meta",  "ledgers"};

rocksdb::ColumnFamilyOptions family_options(size_t family, const std::shared_ptr<rocksdb::Cache>& cache,
                                            uint64_t log_bytes) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.block_size = 16 << 10;
  table.format_version = 5;
  rocksdb::ColumnFamilyOptions options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  const auto kind = static_cast<Family>(family);
  // The bytes of small objects fill their memtable sixteen times as fast as records do.
  options.write_buffer_size = kind == Family::kSmall     ? log_bytes / 3
                              : kind == Family::kObjects ? log_bytes / 6
                                                         : log_bytes / 24;
  // Training data is compressed already.
  if (kind == Family::kSmall) options.compression = rocksdb::kNoCompression;
  options.level_compaction_dynamic_level_bytes = true;
  options.memtable_whole_key_filtering = true;
  options.memtable_prefix_bloom_size_ratio = 0.05;
  return options;
}

// RocksDB steps over the damaged end of a log without an error; only its own log says so. Any thread.
class LossListener final : public rocksdb::Logger {
 public:
  LossListener() : rocksdb::Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    char text[512];
    std::vsnprintf(text, sizeof text, format, arguments);
    const std::string_view line(text);
    if (line.find("dropping ") == std::string_view::npos || line.find(" bytes") == std::string_view::npos)
      return;
    const MutexLock lock(mutex_);
    if (lost_.empty()) lost_ = line;
  }
  std::string lost() const {
    const MutexLock lock(mutex_);
    return lost_;
  }

 private:
  mutable Mutex mutex_;
  std::string lost_ MR_GUARDED_BY(mutex_);
};

rocksdb::DBOptions database_options(uint64_t log_bytes) {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.paranoid_checks = true;
  // A torn end of the log was never acknowledged; damage before it must not be stepped over.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  options.max_total_wal_size = log_bytes;
  options.max_background_jobs = 2;
  options.max_open_files = 512;
  options.bytes_per_sync = 1 << 20;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  // Else an index counts no objects until it is compacted. Looks at no more than 20 tables of a family.
  options.skip_stats_update_on_db_open = false;
  options.enable_pipelined_write = false;
  return options;
}

std::vector<rocksdb::ColumnFamilyDescriptor> descriptors(const std::shared_ptr<rocksdb::Cache>& cache,
                                                         uint64_t log_bytes) {
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (size_t i = 0; i < kFamilies; ++i)
    families.emplace_back(kNames[i], family_options(i, cache, log_bytes));
  return families;
}

std::string big_endian(uint64_t value, size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = bytes; i-- > 0; value >>= 8) text[i] = static_cast<char>(value & 0xff);
  return text;
}

}  // namespace

rocksdb::Slice slice(std::string_view bytes) {
  return {bytes.data(), bytes.size()};
}

std::string_view view(const rocksdb::Slice& slice) {
  return {slice.data(), slice.size()};
}

std::string object_key(std::string_view bucket, std::string_view key) {
  std::string encoded;
  encoded.reserve(bucket.size() + 1 + key.size());
  encoded.append(bucket).push_back('\0');
  return encoded.append(key);
}

std::pair<std::string_view, std::string_view> split_object_key(std::string_view encoded) {
  const size_t at = encoded.find('\0');
  if (at == std::string_view::npos) return {};
  return {encoded.substr(0, at), encoded.substr(at + 1)};
}

std::string file_key(uint64_t file) {
  return big_endian(file, 8);
}

std::optional<uint64_t> parse_file_key(std::string_view encoded) {
  if (encoded.size() != 8) return std::nullopt;
  uint64_t file = 0;
  for (const char byte : encoded) file = file << 8 | static_cast<uint8_t>(byte);
  return file;
}

std::string upload_key(std::string_view bucket, std::string_view key, std::string_view upload) {
  std::string encoded = "u" + object_key(bucket, key);
  encoded.push_back('\0');
  return encoded.append(upload);
}

std::string part_prefix(std::string_view bucket, std::string_view key, std::string_view upload) {
  std::string encoded = upload_key(bucket, key, upload);
  encoded[0] = 'p';
  encoded.push_back('\0');
  return encoded;
}

std::string part_key(std::string_view bucket, std::string_view key, std::string_view upload,
                     unsigned number) {
  return part_prefix(bucket, key, upload) + big_endian(number, 4);
}

Error make_index_error(const rocksdb::Status& status, const std::string& path) {
  Code code = Code::kIo;
  if (status.IsNoSpace()) code = Code::kNoSpace;
  if (status.IsCorruption()) code = Code::kCorrupt;
  return make_error(code, "index {}: {}", path, status.ToString());
}

OpenIndex::~OpenIndex() {
  if (database == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* family : families) database->DestroyColumnFamilyHandle(family);
  database->Close().PermitUncheckedError();
}

rocksdb::Status DriveIndex::FamilyName::GetDescriptor(rocksdb::ColumnFamilyDescriptor*) {
  return rocksdb::Status::NotSupported();
}

const rocksdb::Comparator* DriveIndex::FamilyName::GetComparator() const {
  return rocksdb::BytewiseComparator();
}

Result<std::shared_ptr<OpenIndex>> DriveIndex::open_anew() const {
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* database = nullptr;
  rocksdb::DBOptions options = database_options(log_bytes_);
  const auto listener = std::make_shared<LossListener>();
  options.info_log = listener;
  const rocksdb::Status status =
      rocksdb::DB::Open(options, path_, descriptors(cache_, log_bytes_), &handles, &database);
  if (!status.ok()) return make_index_error(status, path_);
  auto open = std::make_shared<OpenIndex>();
  open->database.reset(database);
  for (size_t i = 0; i < kFamilies; ++i) open->families[i] = handles[i];
  open->lost_log = listener->lost();
  return open;
}

Result<std::unique_ptr<DriveIndex>> DriveIndex::open(const std::string& path,
                                                     const std::shared_ptr<rocksdb::Cache>& cache,
                                                     uint64_t log_bytes) {
  std::unique_ptr<DriveIndex> index(new DriveIndex(path, cache, log_bytes));
  const std::shared_ptr<OpenIndex> open = MR_TRY(index->open_anew());
  {
    const MutexLock lock(index->mutex_);
    index->open_ = open;
  }
  for (size_t i = 0; i < kFamilies; ++i) index->names_[i].set_number(open->families[i]->GetID());
  MR_TRY(index->remember_loss(open->lost_log));
  return index;
}

Status DriveIndex::repair(const std::string& path) {
  const std::shared_ptr<rocksdb::Cache> cache = rocksdb::NewLRUCache(32 << 20);
  const rocksdb::Status status =
      rocksdb::RepairDB(path, database_options(kMostLogBytes), descriptors(cache, kMostLogBytes));
  if (!status.ok()) return make_index_error(status, path);
  return {};
}

Result<std::shared_ptr<OpenIndex>> DriveIndex::use() const {
  UniqueLock lock(mutex_);
  changed_.wait(lock, [&]() MR_REQUIRES(mutex_) { return !opening_; });
  if (open_ == nullptr) return make_error(Code::kIo, "index {}: it is closed: {}", path_, closed_);
  return open_;
}

Result<std::optional<std::string>> DriveIndex::find(Family family, std::string_view key) const {
  const std::shared_ptr<OpenIndex> open = MR_TRY(use());
  std::string value;
  const rocksdb::Status status = open->database->Get(
      rocksdb::ReadOptions(), open->families[static_cast<size_t>(family)], slice(key), &value);
  if (status.IsNotFound()) return std::optional<std::string>();
  if (!status.ok()) return make_index_error(status, path_);
  return std::optional<std::string>(std::move(value));
}

std::string DriveIndex::lost_log() const {
  const MutexLock lock(mutex_);
  return lost_log_;
}

// The next open sees no damage any more: RocksDB has dropped it. So the index itself remembers.
Status DriveIndex::remember_loss(const std::string& lost) {
  if (!lost.empty()) {
    rocksdb::WriteBatch batch;
    put(batch, Family::kMeta, kMetaLost, lost);
    MR_TRY(write(batch, Sync::kYes));
  }
  std::string remembered = MR_TRY(find(Family::kMeta, kMetaLost)).value_or("");
  const MutexLock lock(mutex_);
  lost_log_ = std::move(remembered);
  return {};
}

Status DriveIndex::forget_loss() {
  rocksdb::WriteBatch batch;
  remove(batch, Family::kMeta, kMetaLost);
  MR_TRY(write(batch, Sync::kYes));
  const MutexLock lock(mutex_);
  lost_log_.clear();
  return {};
}

Status DriveIndex::write(rocksdb::WriteBatch& batch, Sync sync) {
  const std::shared_ptr<OpenIndex> open = MR_TRY(use());
  rocksdb::WriteOptions options;
  options.sync = sync == Sync::kYes;
  const rocksdb::Status status = open->database->Write(options, &batch);
  if (status.ok()) return {};
  refused_ = true;
  return make_index_error(status, path_);
}

void DriveIndex::put(rocksdb::WriteBatch& batch, Family family, std::string_view key,
                     std::string_view value) const {
  batch.Put(&names_[static_cast<size_t>(family)], slice(key), slice(value)).PermitUncheckedError();
}

void DriveIndex::remove(rocksdb::WriteBatch& batch, Family family, std::string_view key) const {
  batch.Delete(&names_[static_cast<size_t>(family)], slice(key)).PermitUncheckedError();
}

Rows DriveIndex::iterate(Family family, Scan scan) const {
  rocksdb::ReadOptions options;
  if (scan == Scan::kAll) {
    options.fill_cache = false;
    options.readahead_size = 2 << 20;
  }
  auto open = use();
  if (!open) {
    return {rocksdb::NewErrorIterator(rocksdb::Status::IOError(open.error().message())),
            [](rocksdb::Iterator* rows) { delete rows; }};
  }
  rocksdb::Iterator* rows =
      (*open)->database->NewIterator(options, (*open)->families[static_cast<size_t>(family)]);
  return {rows, [kept = open.take()](rocksdb::Iterator* ended) { delete ended; }};
}

uint64_t DriveIndex::estimate_objects() const {
  const auto open = use();
  uint64_t count = 0;
  if (open) {
    (*open)->database->GetIntProperty((*open)->families[static_cast<size_t>(Family::kObjects)],
                                      rocksdb::DB::Properties::kEstimateNumKeys, &count);
  }
  return count;
}

std::string DriveIndex::last_clock() const {
  const auto found = find(Family::kMeta, kMetaClock);
  return found ? found->value_or("") : "";
}

Result<DriveIndex::Recovery> DriveIndex::recover() {
  if (!refused_) return Recovery::kNone;
  if (const auto open = use(); open) {
    // A full drive: RocksDB knows how to go on, and opening needs room that there is not. Damage does not go
    // away by opening.
    const rocksdb::Status status = (*open)->database->Resume();
    if (status.ok()) {
      refused_ = false;
      return Recovery::kResumed;
    }
    if (status.IsNoSpace() || status.IsCorruption()) return make_index_error(status, path_);
  }
  MR_TRY(reopen());
  refused_ = false;
  return Recovery::kReopened;
}

Status DriveIndex::reopen() {
  // RocksDB would begin a new index.
  if (!file_exists(path_ + "/CURRENT"))
    return make_error(Code::kCorrupt, "index {}: it has no CURRENT", path_)
        .with_hint("millrace fsck --rebuild");
  const std::string clock = last_clock();
  UniqueLock lock(mutex_);
  if (open_ != nullptr) clock_ = clock;
  opening_ = true;
  std::shared_ptr<OpenIndex> old = std::exchange(open_, nullptr);
  // RocksDB refuses to open what is open. Whoever still reads is gone in a moment; else the next time.
  constexpr auto kMoment = std::chrono::milliseconds(2);
  constexpr int kMostMoments = 1000;
  for (int i = 0; old.use_count() > 1 && i < kMostMoments; ++i) changed_.wait_for(lock, kMoment);
  if (old.use_count() > 1) {
    open_ = std::move(old);
    opening_ = false;
    lock.unlock();
    changed_.notify_all();
    return make_error(Code::kUnavailable, "index {}: it is being read and cannot be opened anew", path_);
  }
  lock.unlock();
  old.reset();
  auto opened = open_anew();
  lock.lock();
  opening_ = false;
  if (opened) {
    open_ = *opened;
  } else {
    closed_ = opened.error().message();
  }
  const std::string last = clock_;
  lock.unlock();
  changed_.notify_all();
  if (!opened) return opened.take_error();
  // The end of the log that was refused may be damaged: a loss only where something acknowledged is missing.
  const std::string now = last_clock();
  const bool is_whole =
      last.empty() || (now.size() == last.size() && Decoder(now).u64() >= Decoder(last).u64());
  if (is_whole) return {};
  return remember_loss((*opened)->lost_log.empty() ? "acknowledged commits are missing"
                                                   : (*opened)->lost_log);
}

Status DriveIndex::flush() {
  const std::shared_ptr<OpenIndex> open = MR_TRY(use());
  const rocksdb::Status status =
      open->database->Flush(rocksdb::FlushOptions(), {open->families.begin(), open->families.end()});
  if (!status.ok()) return make_index_error(status, path_);
  return {};
}

std::string encode_small(std::string_view bytes) {
  Encoder out;
  out.u32(crc32c(bytes));
  out.raw(bytes);
  return std::move(out).take();
}

Result<std::string> decode_small(std::string_view encoded) {
  Decoder in(encoded);
  const uint32_t crc = in.u32();
  const std::string_view bytes = in.raw(in.left());
  if (!in.good()) return make_error(Code::kTruncated, "the bytes in the index are cut short");
  if (crc != crc32c(bytes)) return make_error(Code::kCorrupt, "the bytes in the index have a wrong checksum");
  return std::string(bytes);
}

std::string encode_owner(const FileOwner& owner) {
  Encoder out;
  out.text(owner.bucket);
  out.text(owner.key);
  out.text(owner.upload);
  out.u32(owner.part);
  return std::move(out).take();
}

Result<FileOwner> decode_owner(std::string_view encoded) {
  Decoder in(encoded);
  FileOwner owner;
  owner.bucket = in.text();
  owner.key = in.text();
  owner.upload = in.text();
  owner.part = in.u32();
  if (!in.good()) return make_error(Code::kCorrupt, "owner of a file: it is cut short");
  return owner;
}

}  // namespace millrace::store
