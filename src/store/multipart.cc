// Multipart uploads: created, filled, completed, aborted, expired.
#include "store/multipart.h"

#include <algorithm>

#include "base/clock.h"
#include "base/crc.h"
#include "base/fault.h"
#include "base/ids.h"
#include "store/commit.h"
#include "store/put.h"
#include "store/reasons.h"
#include "store/shard_feed.h"

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

Result<std::vector<UploadPart>> Multipart::choose_parts(std::vector<UploadPart> there,
                                                        const std::vector<CompletePart>& wanted) {
  if (wanted.empty()) return make_error(kNoSuchPart, "the list of parts is empty");
  std::vector<UploadPart> chosen;
  for (const CompletePart& want : wanted) {
    if (!chosen.empty() && want.number <= chosen.back().number) {
      return make_error(kPartsOutOfOrder, "part {} is listed behind part {}", want.number,
                        chosen.back().number);
    }
    const auto found = std::ranges::lower_bound(there, want.number, {}, &UploadPart::number);
    if (found == there.end() || found->number != want.number) {
      return make_error(kNoSuchPart, "part {} was not uploaded", want.number);
    }
    if (found->record.etag != want.etag) {
      return make_error(kNoSuchPart, "part {} has the etag {}, not {}", want.number, found->record.etag,
                        want.etag);
    }
    chosen.push_back(std::move(*found));
  }
  for (size_t i = 0; i + 1 < chosen.size(); ++i) {
    if (chosen[i].record.size < kMinPartBytes) {
      return make_error(kPartTooSmall, "part {} has {} bytes, all but the last need {}", chosen[i].number,
                        chosen[i].record.size, kMinPartBytes);
    }
  }
  return chosen;
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
  const std::vector<UploadPart> parts = MR_TRY(choose_parts(std::move(found.parts), completion.parts));

  Record record;
  record.version = core_.next_version();
  record.modified_ms = wall_ms();
  for (const UploadPart& part : parts) {
    record.size += part.record.size;
    record.crc32c = crc32c_join(record.crc32c, part.record.crc32c, part.record.size);
    for (const Piece& piece : part.record.pieces) record.pieces.push_back(piece);
  }
  if (record.size > kMaxObjectBytes) return make_error(Code::kTooLarge, "the object is above the maximum");
  record.etag = completion.finish.etag.empty()
                    ? make_etag(record.version.counter, record.crc32c, parts.size())
                    : completion.finish.etag;
  record.headers = upload->headers;
  for (NameValue& header : completion.finish.headers) record.headers.push_back(std::move(header));
  record.tags = upload->tags;
  if (is_shard_name(completion.name.key)) record.shard = ShardState::kPending;

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
