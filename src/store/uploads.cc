// The table of uploads and their encoding.
#include "store/uploads.h"

#include <algorithm>
#include <chrono>
#include <tuple>

#include "base/crc.h"
#include "base/mutex.h"
#include "store/coding.h"
#include "store/drive.h"
#include "store/index.h"

namespace millrace::store {

namespace {

constexpr uint8_t kFormat = 1;
constexpr auto kMostWait = std::chrono::seconds(10);

}  // namespace

std::string encode_upload(const Upload& upload) {
  Encoder out;
  out.u8(kFormat);
  out.u64(upload.version);
  out.u64(static_cast<uint64_t>(upload.initiated_ms));
  out.pairs(upload.headers);
  out.pairs(upload.tags);
  out.u32(crc32c(out.bytes()));
  return std::move(out).take();
}

Result<Upload> decode_upload(std::string_view key, std::string_view value) {
  Upload upload;
  const auto [bucket, rest] = split_object_key(key.substr(std::min<size_t>(1, key.size())));
  const auto [object, id] = split_object_key(rest);
  Decoder in(value);
  const uint8_t format = in.u8();
  upload.version = in.u64();
  upload.initiated_ms = static_cast<int64_t>(in.u64());
  upload.headers = in.pairs();
  upload.tags = in.pairs();
  const size_t body = value.size() - in.left();
  const uint32_t crc = in.u32();
  if (!in.good() || in.left() != 0 || bucket.empty() || object.empty() || id.empty()) {
    return make_error(Code::kCorrupt, "upload record: it is cut short");
  }
  if (format != kFormat) return make_error(Code::kUnsupported, "upload record: unknown format {}", format);
  if (crc != crc32c(value.substr(0, body)))
    return make_error(Code::kCorrupt, "upload record: its checksum is wrong");
  upload.bucket = bucket;
  upload.key = object;
  upload.id = id;
  return upload;
}

std::shared_ptr<const Upload> UploadTable::find(std::string_view bucket, std::string_view key,
                                                const std::string& id) const {
  const MutexLock lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end() || found->second->bucket != bucket || found->second->key != key) return nullptr;
  return found->second;
}

std::vector<std::shared_ptr<const Upload>> UploadTable::in_bucket(std::string_view bucket) const {
  std::vector<std::shared_ptr<const Upload>> uploads = all();
  std::erase_if(uploads, [&](const auto& upload) { return upload->bucket != bucket; });
  return uploads;
}

std::vector<std::shared_ptr<const Upload>> UploadTable::all() const {
  std::vector<std::shared_ptr<const Upload>> uploads;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, upload] : by_id_) uploads.push_back(upload);
  }
  std::ranges::sort(uploads, [](const auto& a, const auto& b) {
    return std::tie(a->bucket, a->key, a->initiated_ms, a->version) <
           std::tie(b->bucket, b->key, b->initiated_ms, b->version);
  });
  return uploads;
}

bool UploadTable::is_full() const {
  const MutexLock lock(mutex_);
  return by_id_.size() >= kMaxUploads;
}

void UploadTable::insert(std::shared_ptr<const Upload> upload) {
  const MutexLock lock(mutex_);
  std::shared_ptr<const Upload>& known = by_id_[upload->id];
  if (known == nullptr || known->version <= upload->version) known = std::move(upload);
  changed_.notify_all();
}

void UploadTable::erase_of(const Drive& drive) {
  const MutexLock lock(mutex_);
  std::erase_if(by_id_, [&](const auto& entry) { return entry.second->drive.get() == &drive; });
  changed_.notify_all();
}

void UploadTable::erase(const std::string& id) {
  const MutexLock lock(mutex_);
  by_id_.erase(id);
  changed_.notify_all();
}

bool UploadTable::wait_for_change(const std::shared_ptr<const Upload>& known) const {
  UniqueLock lock(mutex_);
  return changed_.wait_for(lock, kMostWait, [&]() MR_REQUIRES(mutex_) {
    const auto found = by_id_.find(known->id);
    return found == by_id_.end() || found->second != known;
  });
}

Result<UploadRows> read_upload(const Drive& drive, const Upload& upload) {
  UploadRows found;
  const std::string prefix = part_prefix(upload.bucket, upload.key, upload.id);
  const auto rows = drive.index().iterate(Family::kUploads, DriveIndex::Scan::kSome);
  for (rows->Seek(prefix); rows->Valid() && rows->key().starts_with(prefix); rows->Next()) {
    unsigned number = 0;
    for (const char byte : view(rows->key()).substr(prefix.size()))
      number = number << 8 | static_cast<uint8_t>(byte);
    found.keys.push_back(rows->key().ToString());
    found.parts.push_back({number, MR_TRY(decode_record(view(rows->value())))});
  }
  if (!rows->status().ok()) return make_index_error(rows->status(), drive.path());
  found.keys.push_back(upload_key(upload.bucket, upload.key, upload.id));
  return found;
}

}  // namespace millrace::store
