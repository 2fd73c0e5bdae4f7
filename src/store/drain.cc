// Moving objects between drives.
#include "store/drain.h"

#include <algorithm>

#include "base/fault.h"
#include "store/commit.h"
#include "store/multipart.h"
#include "store/put.h"
#include "store/reconcile.h"
#include "store/unfinished_file.h"
#include "store/verify.h"

namespace millrace::store {

namespace {

Error serves_again() {
  return make_error(Code::kCancelled, "the drive serves again");
}

}  // namespace

void Mover::run(const std::function<bool()>& go_on) {
  const std::shared_ptr<const DriveMap> drives = core_.map();
  for (const auto& drive : drives->drives) {
    if (drive->state() == DriveState::kDraining && go_on()) drain(drive, go_on);
  }
}

void Mover::drain(const std::shared_ptr<Drive>& drive, const std::function<bool()>& go_on) {
  constexpr size_t kMostKeys = 100'000;  // the rest in the next round
  const auto keys_of = [&](Family family, const char* first, std::string_view prefix) {
    std::vector<std::string> keys;
    const auto rows = drive->index().iterate(family, DriveIndex::Scan::kAll);
    for (rows->Seek(first); rows->Valid() && keys.size() < kMostKeys; rows->Next()) {
      if (!view(rows->key()).starts_with(prefix)) break;
      keys.push_back(rows->key().ToString());
    }
    return keys;
  };
  std::vector<std::string> objects = keys_of(Family::kObjects, "", "");
  // What belongs to a cluster is moved by the cluster, whose other nodes know where it lies.
  const size_t slices = std::erase_if(
      objects, [](const std::string& key) { return split_object_key(key).first == kSliceBucket; });
  const size_t ledgers = keys_of(Family::kLedgers, "", "").size();
  const std::vector<std::string> uploads = keys_of(Family::kUploads, "u", "u");
  drive->drain_left = objects.size() + uploads.size() + slices + ledgers;
  // Uploads first: one that is completed meanwhile is an object of this drive.
  const auto move_all = [&](const std::vector<std::string>& keys, auto&& move_one) {
    for (const std::string& key : keys) {
      // Taken into service again meanwhile, everything stays.
      if (!go_on() || drive->state() != DriveState::kDraining) return false;
      // One that is slow to fail would be all that every turn gets to.
      if (failed_.contains(key)) continue;
      const Status moved = move_one(key);
      if (moved) {
        --drive->drain_left;
        continue;
      }
      if (moved.error().code() == Code::kCancelled) continue;  // changed meanwhile: the next round sees it
      core_.log.warn("cannot move something off a draining drive", "drive", drive->path(), "why",
                     moved.error().message());
      if (moved.error().code() == Code::kNoSpace || moved.error().code() == Code::kUnavailable) return false;
      failed_.insert(key);
    }
    return true;
  };
  const bool is_over = move_all(uploads, [&](const std::string& row) { return move_upload(drive, row); }) &&
                       move_all(objects, [&](const std::string& key) { return move(drive, key); });
  if (is_over) failed_.clear();
}

Status Mover::move_upload(const std::shared_ptr<Drive>& from, const std::string& row) {
  const auto value = MR_TRY(from->index().find(Family::kUploads, row));
  if (!value) return {};
  const Upload here = MR_TRY(decode_upload(row, *value));
  Change change;
  change.bucket = here.bucket;
  change.key = here.key;
  change.upload = here.id;
  const auto upload = core_.uploads.find(here.bucket, here.key, here.id);
  if (upload == nullptr || upload->drive != from) {
    change.kind = Change::Kind::kTidyUpload;
    change.drive = from;
    MR_TRY(core_.commit(std::move(change)));
    return {};
  }
  uint64_t size = 0;
  for (const auto& part : MR_TRY(read_upload(*from, *upload)).parts) size += part.record.size;
  change.kind = Change::Kind::kMoveUpload;
  change.drive = MR_TRY(core_.choose_drive(here.bucket, here.key, size));
  if (change.drive == from) return serves_again();
  auto moved = std::make_shared<Upload>(*upload);
  moved->drive = change.drive;
  moved->version = core_.clock.next();
  change.new_upload = moved;
  std::vector<MovedPart> copied;
  const auto forget = [&] {
    for (const MovedPart& part : copied) change.drive->drop_files(files_of(part.after));
  };
  // Parts may come while others are copied: each turn copies only those.
  constexpr int kMostTurns = 16;
  for (int turn = 0; turn < kMostTurns; ++turn) {
    Status done = copy_parts(*upload, change.drive, copied);
    if (!done) {
      forget();
      return done;
    }
    MR_FAULT("move.parts");
    Change attempt = change;
    attempt.moved_parts = copied;
    const auto committed = core_.commit(std::move(attempt));
    if (committed) return {};
    if (committed.error().code() == Code::kCancelled) continue;
    // Whether it is there after a restart nobody knows: then its files must be, too.
    change.drive->need_sweep();
    return committed.error().copy();
  }
  forget();
  return make_error(Code::kCancelled, "{}/{}: its upload changes too fast to be moved", here.bucket,
                    here.key);
}

Status Mover::copy_parts(const Upload& upload, const std::shared_ptr<Drive>& to,
                         std::vector<MovedPart>& copied) {
  std::vector<MovedPart> parts;
  std::optional<Error> error;
  for (const auto& part : MR_TRY(read_upload(*upload.drive, upload)).parts) {
    const auto before = std::ranges::find(copied, part.record, &MovedPart::before);
    if (before != copied.end()) {
      parts.push_back(std::move(*before));
      copied.erase(before);
      continue;
    }
    MovedPart moved{part.number, part.record, part.record};
    for (Piece& piece : moved.after.pieces) {
      auto name = copy_piece({*upload.drive, upload.bucket, upload.key}, piece, to);
      if (!name) {
        error = name.take_error();
        break;
      }
      piece.file = *name;
      moved.after.head = *name;
    }
    if (error) break;
    parts.push_back(std::move(moved));
  }
  if (!error) {
    // Parts that were replaced meanwhile.
    for (const MovedPart& part : copied) to->drop_files(files_of(part.after));
    copied.clear();
  }
  for (MovedPart& part : parts) copied.push_back(std::move(part));
  if (error) return std::move(*error);
  return {};
}

Status Mover::move(const std::shared_ptr<Drive>& from, const std::string& encoded_key) {
  const auto [bucket_name, key] = split_object_key(encoded_key);
  const auto object = core_.load_object(std::string(bucket_name), std::string(key));
  if (!object && object.error().code() != Code::kNotFound) return object.error().copy();
  if (!object || (*object)->drive() != from) {
    // A tombstone, or an older record: the truth is elsewhere.
    return tidy_key(core_, encoded_key);
  }
  const LocalObject& source = **object;
  const std::shared_ptr<Drive> to =
      MR_TRY(core_.choose_drive(source.bucket(), source.key(), source.record().size));
  if (to == from) return serves_again();
  Change change;
  change.kind = Change::Kind::kRewrite;
  change.bucket = source.bucket();
  change.key = source.key();
  change.drive = to;
  change.expected_version = source.record().version;
  change.expected_head = source.record().head;
  change.inline_bytes = source.inline_bytes();
  change.record = source.record();
  if (!source.is_inline()) {
    auto copied = copy_files(source, to, change.new_files);
    if (!copied) {
      to->drop_files(change.new_files);
      return copied.take_error();
    }
    change.record = copied.take();
  }
  MR_FAULT("move.copied");
  MR_TRY(core_.commit(std::move(change)));
  return {};
}

Result<uint64_t> Mover::copy_piece(const Source& source, const Piece& piece,
                                   const std::shared_ptr<Drive>& to) {
  UnfinishedFile target(to, piece.size);
  uint64_t at = 0;
  FileCheck check = MR_TRY(check_file(source.drive.file_path(piece.file), piece.file,
                                      [&](uint64_t, std::string_view bytes) -> Status {
                                        MR_TRY(target.make_room(at + bytes.size()));
                                        MR_TRY(target.write_tail(at, bytes));
                                        at += bytes.size();
                                        return {};
                                      }));
  if (!check.bad_blocks.empty()) {
    core_.report(
        {source.bucket, source.key, source.drive.path(), check.bad_blocks.front(), "its checksum is wrong"});
    return make_error(Code::kCorrupt, "{}/{}: block {} is damaged", source.bucket, source.key,
                      check.bad_blocks.front());
  }
  Trailer trailer = std::move(check.trailer);
  const uint64_t name = core_.clock.next();
  trailer.file = name;
  trailer.record.pieces = {Piece{name, piece.size}};
  trailer.record.head = name;
  const std::string end = encode_trailer(trailer);
  MR_TRY(target.write_tail(padded_to_page(piece.size), end));
  MR_TRY(target.publish(name, padded_to_page(piece.size) + end.size(), Durability::kFlush));
  return name;
}

Result<Record> Mover::copy_files(const LocalObject& object, const std::shared_ptr<Drive>& to,
                                 std::vector<uint64_t>& copied) {
  Record record = object.record();
  for (Piece& piece : record.pieces) {
    piece.file = MR_TRY(copy_piece({*object.drive(), object.bucket(), object.key()}, piece, to));
    copied.push_back(piece.file);
  }
  if (object.record().pieces.size() == 1 && object.record().head == object.record().pieces.front().file) {
    record.head = record.pieces.front().file;
    return record;
  }
  const std::shared_ptr<const File> head = MR_TRY(object.drive()->open_file(object.record().head));
  const Trailer trailer = MR_TRY(read_trailer(*head, TrailerParts::kAll));
  HeadOptions options{to, object.bucket(), object.key(), trailer.shard_index, Durability::kFlush};
  Record moved = MR_TRY(write_head(core_, options, std::move(record)));
  copied.push_back(moved.head);
  return moved;
}

}  // namespace millrace::store
