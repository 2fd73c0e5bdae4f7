// Multipart uploads: created, filled, completed, aborted, expired.
#include "store/multipart.h"

#include <algorithm>

#include "base/clock.h"
#include "base/fault.h"
#include "base/ids.h"
#include "store/commit.h"
#include "store/put.h"
#include "store/reasons.h"

namespace millrace::store {

namespace {

constexpr int kMostTurns = 16;  // of a call that meets moves of its upload: each turn is one

}  // namespace

Status Multipart::load(Core& core, const std::shared_ptr<Drive>& drive) {
  const auto rows = drive->index().iterate(Family::kUploads, DriveIndex::Scan::kSome);
  for (rows->Seek("u"); rows->Valid() && rows->key().starts_with("u"); rows->Next()) {
    auto upload = decode_upload(view(rows->key()), view(rows->value()));
    if (!upload) {
      core.log.warn("left out an upload that cannot be read", "drive", drive->path(), "why",
                    upload.error().message());
      continue;
    }
    upload->drive = drive;
    core.uploads.insert(std::make_shared<const Upload>(upload.take()));
  }
  if (!rows->status().ok()) return make_index_error(rows->status(), drive->path());
  return {};
}

Result<std::shared_ptr<const Upload>> Multipart::get(const UploadName& name) const {
  const auto& [bucket, key, upload] = name;
  auto found = core_.uploads.find(bucket, key, upload);
  if (found == nullptr) {
    MR_TRY(core_.map()->check_all_there(
        fmt::format("upload {} of {}/{} is not known to be there or not", upload, bucket, key)));
    return no_such_upload(bucket, key, upload);
  }
  return found;
}

Result<std::string> Multipart::create(PutOptions options) {
  MR_TRY(check_key(options.key));
  const auto bucket = core_.buckets.find(options.bucket);
  if (bucket == nullptr) return no_such_bucket(options.bucket);
  if (core_.uploads.is_full())
    return make_error(Code::kUnavailable, "there are {} uploads under way", kMaxUploads);
  auto upload = std::make_shared<Upload>();
  upload->bucket = options.bucket;
  upload->key = options.key;
  upload->id = make_id() + make_id();
  upload->version = core_.clock.next();
  upload->initiated_ms = wall_ms();
  upload->headers = std::move(options.headers);
  upload->tags = std::move(options.tags);
  upload->drive = MR_TRY(core_.choose_drive(options.bucket, options.key, options.size.value_or(0)));
  Change change;
  change.kind = Change::Kind::kCreateUpload;
  change.bucket = upload->bucket;
  change.key = upload->key;
  change.durability = bucket->settings.durability;
  change.new_upload = upload;
  MR_TRY(core_.commit(std::move(change)));
  return upload->id;
}

Result<std::unique_ptr<Writer>> Multipart::put_part(PartOptions options) {
  if (options.number < 1 || options.number > kMaxParts) {
    return make_error(Code::kInvalid, "part number {}: it must be 1 to {}", options.number, kMaxParts);
  }
  const auto upload = MR_TRY(get(options.name));
  const auto bucket = core_.buckets.find(upload->bucket);
  if (bucket == nullptr) return no_such_bucket(upload->bucket);
  const Drive& drive = *upload->drive;
  if (drive.state() == DriveState::kFailed) {
    return make_error(Code::kUnavailable, "the upload's drive has failed: {}", drive.reason());
  }
  if (!upload->drive->has_room(options.size.value_or(0))) {
    return make_error(Code::kNoSpace, "no room for the part on the upload's drive {}", drive.path());
  }
  PutTarget target;
  target.options.bucket = upload->bucket;
  target.options.key = upload->key;
  target.options.size = options.size;
  target.upload = upload;
  target.part = options.number;
  target.drive = upload->drive;
  target.durability = bucket->settings.durability;
  return std::unique_ptr<Writer>(std::make_unique<PutWriter>(core_, std::move(target)));
}

Result<Multipart::Parts> Multipart::load_parts(const UploadName& name) const {
  const auto& [bucket, key, id] = name;
  for (int turn = 0; turn < kMostTurns; ++turn) {
    auto upload = MR_TRY(get(name));
    std::vector<UploadPart> parts = MR_TRY(read_upload(*upload->drive, *upload)).parts;
    // Its rows go together: still there, they were all there.
    const auto row = MR_TRY(upload->drive->index().find(Family::kUploads, upload_key(bucket, key, id)));
    if (row) return Parts{std::move(upload), std::move(parts)};
    if (!core_.uploads.wait_for_change(upload)) break;
  }
  return make_error(Code::kUnavailable, "upload {} is moved from drive to drive", id);
}

Result<std::vector<PartStatus>> Multipart::parts(const UploadName& name) {
  Parts found = MR_TRY(load_parts(name));
  std::vector<PartStatus> parts;
  for (UploadPart& part : found.parts) {
    parts.push_back({part.number, part.record.size, part.record.modified_ms, std::move(part.record.etag),
                     std::move(part.record.headers)});
  }
  return parts;
}

Result<UploadStatus> Multipart::status(const UploadName& name) {
  const auto found = MR_TRY(get(name));
  return UploadStatus{found->key, found->id, found->initiated_ms, found->headers};
}

Result<std::vector<UploadStatus>> Multipart::all(const std::string& bucket) {
  if (core_.buckets.find(bucket) == nullptr) return no_such_bucket(bucket);
  MR_TRY(core_.map()->check_all_there(fmt::format("the uploads of bucket {} cannot be listed", bucket)));
  std::vector<UploadStatus> uploads;
  for (const auto& upload : core_.uploads.in_bucket(bucket)) {
    uploads.push_back({upload->key, upload->id, upload->initiated_ms, upload->headers});
  }
  return uploads;
}

Result<std::shared_ptr<const LocalObject>> Multipart::complete(Completion completion) {
  for (int turn = 0; turn < kMostTurns; ++turn) {
    auto completed = try_to_complete(completion);
    if (completed || completed.error().code() != Code::kCancelled) return completed;
  }
  return make_error(Code::kUnavailable, "upload {} is moved from drive to drive", completion.name.upload);
}

Result<std::shared_ptr<const LocalObject>> Multipart::try_to_complete(Completion completion) {
  const auto bucket = core_.buckets.find(completion.name.bucket);
  if (bucket == nullptr) return no_such_bucket(completion.name.bucket);
  Parts found = MR_TRY(load_parts(completion.name));
  const std::shared_ptr<const Upload>& upload = found.upload;
  const std::vector<UploadPart> parts = MR_TRY(choose_parts(found.parts, completion.parts));
  Record record = MR_TRY(join_parts(parts, {upload->headers, upload->tags}, completion));
  record.version = core_.next_version();
  if (record.etag.empty()) record.etag = make_etag(record.version.counter, record.crc32c, parts.size());

  HeadOptions head;
  head.drive = upload->drive;
  head.bucket = completion.name.bucket;
  head.key = completion.name.key;
  head.durability = bucket->settings.durability;
  Change change;
  change.kind = Change::Kind::kPut;
  change.bucket = completion.name.bucket;
  change.key = completion.name.key;
  change.condition = std::move(completion.condition);
  change.durability = bucket->settings.durability;
  change.drive = upload->drive;
  change.upload = upload->id;
  change.record = MR_TRY(write_head(core_, head, std::move(record)));
  change.new_files = {change.record.head};
  MR_FAULT("complete.head");
  return core_.commit(std::move(change));
}

Status Multipart::abort(const UploadName& name) {
  const auto found = MR_TRY(get(name));
  Change change;
  change.kind = Change::Kind::kAbortUpload;
  change.bucket = name.bucket;
  change.key = name.key;
  change.upload = name.upload;
  MR_FAULT("abort.begun");
  MR_TRY(core_.commit(std::move(change)));
  return {};
}

size_t Multipart::expire(int64_t before_ms) {
  size_t count = 0;
  for (const auto& upload : core_.uploads.all()) {
    const bool homeless = core_.map()->missing.empty() && core_.buckets.find(upload->bucket) == nullptr;
    if (homeless && abort({upload->bucket, upload->key, upload->id})) ++count;
    if (homeless || upload->initiated_ms >= before_ms) continue;
    // Abandoned is an upload whose last part came that long ago; one that is still fed may be older.
    const auto found = load_parts({upload->bucket, upload->key, upload->id});
    if (!found) continue;
    const bool fed = std::ranges::any_of(
        found->parts, [&](const UploadPart& part) { return part.record.modified_ms >= before_ms; });
    if (!fed && abort({upload->bucket, upload->key, upload->id})) ++count;
  }
  return count;
}

}  // namespace millrace::store
