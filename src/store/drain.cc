// Moving objects between drives.
#include "store/drain.h"

#include "base/fault.h"
#include "store/commit.h"
#include "store/put.h"
#include "store/unfinished_file.h"
#include "store/verify.h"

namespace millrace::store {

void Mover::run(const std::function<bool()>& go_on) {
  const std::shared_ptr<const DriveMap> drives = core_.map();
  for (const auto& drive : drives->drives) {
    if (drive->state() == DriveState::kDraining && go_on()) drain(drive, go_on);
  }
}

void Mover::drain(const std::shared_ptr<Drive>& drive, const std::function<bool()>& go_on) {
  std::vector<std::string> keys;
  uint64_t uploads = 0;
  {
    const auto rows = drive->index().iterate(Family::kObjects, DriveIndex::Scan::kAll);
    constexpr size_t kMostKeys = 100'000;  // the rest in the next round
    for (rows->SeekToFirst(); rows->Valid() && keys.size() < kMostKeys; rows->Next())
      keys.push_back(rows->key().ToString());
  }
  for (const auto& upload : core_.uploads.all()) uploads += upload->drive == drive ? 1 : 0;
  drive->drain_left = keys.size() + uploads;
  for (const std::string& key : keys) {
    if (!go_on()) return;
    const Status moved = move(drive, key);
    if (moved) {
      --drive->drain_left;
      continue;
    }
    if (moved.error().code() == Code::kCancelled) continue;  // changed meanwhile: the next round sees it
    core_.log.warn("cannot move an object off a draining drive", "drive", drive->path(), "why",
                   moved.error().message());
    if (moved.error().code() == Code::kNoSpace || moved.error().code() == Code::kUnavailable) return;
  }
}

Status Mover::move(const std::shared_ptr<Drive>& from, const std::string& encoded_key) {
  const auto [bucket_name, key] = split_object_key(encoded_key);
  const auto object = core_.load_object(std::string(bucket_name), std::string(key));
  if (!object && object.error().code() != Code::kNotFound) return object.error().copy();
  if (!object || (*object)->drive() != from) {
    // A tombstone, or an older record: the truth is elsewhere.
    Change change;
    change.kind = Change::Kind::kTidy;
    change.bucket = bucket_name;
    change.key = key;
    MR_TRY(core_.commit(std::move(change)));
    return {};
  }
  const Object& source = **object;
  const std::shared_ptr<Drive> to =
      MR_TRY(core_.choose_drive(source.bucket(), source.key(), source.record().size));
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

Result<uint64_t> Mover::copy_piece(const Object& object, const Piece& piece,
                                   const std::shared_ptr<Drive>& to) {
  UnfinishedFile target(to, piece.size);
  uint64_t at = 0;
  FileCheck check = MR_TRY(check_file(object.drive()->file_path(piece.file), piece.file,
                                      [&](uint64_t, std::string_view bytes) -> Status {
                                        MR_TRY(target.make_room(at + bytes.size()));
                                        MR_TRY(target.write_tail(at, bytes));
                                        at += bytes.size();
                                        return {};
                                      }));
  if (!check.bad_blocks.empty()) {
    core_.report({object.bucket(), object.key(), object.drive()->path(), check.bad_blocks.front(),
                  "its checksum is wrong"});
    return make_error(Code::kCorrupt, "{}/{}: block {} is damaged", object.bucket(), object.key(),
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

Result<Record> Mover::copy_files(const Object& object, const std::shared_ptr<Drive>& to,
                                 std::vector<uint64_t>& copied) {
  Record record = object.record();
  for (Piece& piece : record.pieces) {
    piece.file = MR_TRY(copy_piece(object, piece, to));
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
