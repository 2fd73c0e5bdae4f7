// Writes the records of a format 1 drive again in format 2.
#include "store/upgrade.h"

#include "base/fault.h"
#include "store/record.h"

namespace millrace::store {

namespace {

constexpr int kBatchRows = 1000;

// Rows of the family whose keys begin with `prefix` and that hold records. A record that cannot be read
// stays: fsck and the reads that meet it tell.
Status encode_anew(DriveIndex& index, const std::string& path, Family family, std::string_view prefix) {
  const auto rows = index.iterate(family, DriveIndex::Scan::kAll);
  rocksdb::WriteBatch batch;
  for (rows->Seek(slice(prefix)); rows->Valid() && rows->key().starts_with(slice(prefix)); rows->Next()) {
    if (!is_old_record(view(rows->value()))) continue;
    const auto record = decode_record(view(rows->value()));
    if (!record) continue;
    index.put(batch, family, view(rows->key()), encode_record(*record));
    if (batch.Count() < kBatchRows) continue;
    MR_TRY(index.write(batch, Sync::kNo));
    batch.Clear();
    MR_FAULT("upgrade.batch");
  }
  if (!rows->status().ok()) return make_index_error(rows->status(), path);
  return index.write(batch, Sync::kYes);
}

}  // namespace

Status upgrade_drive(const std::string& path, DriveIdentity identity, DriveIndex& index) {
  if (identity.format == kDriveFormat) return {};
  MR_TRY(encode_anew(index, path, Family::kObjects, ""));
  MR_TRY(encode_anew(index, path, Family::kUploads, "p"));
  MR_FAULT("upgrade.rows");
  identity.format = kDriveFormat;
  return write_drive_identity(path, identity);
}

}  // namespace millrace::store
