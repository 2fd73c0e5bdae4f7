// Rows are opened, closed and removed; parts are chosen.
#include "cluster/cluster_uploads.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <tuple>

#include "base/clock.h"
#include "base/fault.h"
#include "cluster/cluster_calls.h"
#include "cluster/cluster_list.h"
#include "cluster/hidden_bucket.h"
#include "cluster/upload_row.h"
#include "store/reasons.h"

namespace millrace::cluster {

namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(50);

ObjectName row_name(const store::UploadName& name) {
  return {uploads_of(name.bucket), name.upload};
}

Error no_such_upload(const store::UploadName& name) {
  return store::no_such_upload(name.bucket, name.key, name.upload);
}

Error too_many_others(const store::UploadName& name) {
  return make_error(Code::kUnavailable, "{}/{}: upload {} is being completed by another request", name.bucket,
                    name.key, name.upload)
      .with_hint("try again");
}

store::Condition only_if(const store::Record& row) {
  store::Condition condition;
  condition.only_if_etag = row.etag;
  return condition;
}

// Somebody else changed the row first.
bool lost_the_row(const Error& error) {
  return error.is(store::kConditionFailed) || error.is(store::kNoSuchObject);
}

store::UploadStatus status_of(const std::string& id, const store::Record& row) {
  return {target_of(row), id, row.modified_ms, given_headers(row)};
}

}  // namespace

Result<std::string> ClusterUploads::create(store::PutOptions options) {
  const std::string id = make_upload_id();
  MR_TRY(put_without_bytes(cluster_, {uploads_of(options.bucket), id}, make_row(options), {}));
  return id;
}

Result<store::Record> ClusterUploads::get_row(const store::UploadName& name) {
  if (!is_upload_id(name.upload)) return no_such_upload(name);
  auto row = MR_TRY(find_now(cluster_, row_name(name)));
  if (!row || target_of(*row) != name.key) return no_such_upload(name);
  return std::move(*row);
}

Result<store::UploadStatus> ClusterUploads::status(const store::UploadName& name) {
  return status_of(name.upload, MR_TRY(get_row(name)));
}

Result<std::vector<store::UploadStatus>> ClusterUploads::all(const std::string& bucket) {
  std::vector<store::UploadStatus> uploads;
  const std::vector<ListedRecord> rows = MR_TRY(list_records(cluster_, uploads_of(bucket), ""));
  for (const ListedRecord& row : rows) uploads.push_back(status_of(row.key, row.record));
  std::ranges::sort(uploads, [](const store::UploadStatus& a, const store::UploadStatus& b) {
    return std::tie(a.key, a.initiated_ms, a.upload) < std::tie(b.key, b.initiated_ms, b.upload);
  });
  return uploads;
}

Result<std::vector<store::UploadPart>> ClusterUploads::load_parts(const store::UploadName& name) {
  std::vector<ListedRecord> rows = MR_TRY(list_records(cluster_, parts_of(name.bucket), name.upload + "/"));
  std::vector<store::UploadPart> parts;
  for (ListedRecord& row : rows) {
    const auto part = parse_part_key(row.key);
    if (!part) continue;
    row.record.pieces = {{part->file, row.record.size}};
    std::erase_if(row.record.headers,
                  [](const store::NameValue& header) { return header.first == kTargetHeader; });
    parts.push_back({part_number_of(part->file), std::move(row.record)});
  }
  // Of those with one number the latest first, and of equal ones the last by name: every node says the same.
  std::ranges::sort(parts, [](const store::UploadPart& a, const store::UploadPart& b) {
    const auto rank = [](const store::UploadPart& part) {
      return std::tuple(part.number, -part.record.modified_ms, ~part.record.pieces.front().file);
    };
    return rank(a) < rank(b);
  });
  return parts;
}

Result<std::vector<store::PartStatus>> ClusterUploads::parts(const store::UploadName& name) {
  MR_TRY(get_row(name));
  std::vector<store::PartStatus> parts;
  std::vector<store::UploadPart> found = MR_TRY(load_parts(name));
  for (store::UploadPart& part : found) {
    store::Record& record = part.record;
    parts.push_back({part.number, record.size, record.modified_ms, record.etag, std::move(record.headers)});
  }
  return parts;
}

bool ClusterUploads::is_stale(const store::UploadName& name, const store::Record& row) {
  const uint64_t now = steady_us();
  const MutexLock lock(mutex_);
  if (closed_.size() >= kMostWatched)
    std::erase_if(closed_, [&](const auto& entry) { return entry.second.seen_us + 2 * kStaleUs < now; });
  if (closed_.size() >= kMostWatched) return false;
  const auto [seen, is_new] = closed_.try_emplace(name.upload, Closed{row.etag, now});
  if (seen->second.etag != row.etag) seen->second = {row.etag, now};
  if (seen->second.seen_us + kStaleUs > now) return false;
  closed_.erase(seen);
  return true;
}

Result<store::Record> ClusterUploads::wait_for_row(const store::UploadName& name) {
  const uint64_t deadline = steady_us() + kPatienceUs;
  while (true) {
    store::Record row = MR_TRY(get_row(name));
    if (is_open(row)) return row;
    const auto object = MR_TRY(find_now(cluster_, {name.bucket, name.key}));
    if (object && object->upload == name.upload) {
      // It became the object; whoever did it has not removed the row, or is about to.
      MR_TRY(remove_now(cluster_, row_name(name), {}));
      sweep_.look_at(name, HiddenSweep::When::kNow);
      return no_such_upload(name);
    }
    if (is_stale(name, row)) return row;
    if (steady_us() >= deadline) return too_many_others(name);
    std::this_thread::sleep_for(kLookEvery);
  }
}

Result<store::Record> ClusterUploads::complete(const store::Completion& completion) {
  for (unsigned turn = 0; turn < kMostTurns; ++turn) {
    auto completed = MR_TRY(try_to_complete(completion));
    if (completed) return std::move(*completed);
  }
  return too_many_others(completion.name);
}

Result<std::optional<store::Record>> ClusterUploads::try_to_complete(const store::Completion& completion) {
  const store::UploadName& name = completion.name;
  const store::Record row = MR_TRY(wait_for_row(name));
  const std::vector<store::UploadPart> there = MR_TRY(load_parts(name));
  const std::vector<store::UploadPart> parts = MR_TRY(store::choose_parts(there, completion.parts));
  store::Record record = MR_TRY(store::join_parts(parts, {given_headers(row), row.tags}, completion));
  record.upload = name.upload;
  if (record.etag.empty()) record.etag = fmt::format("{}-{}", name.upload, parts.size());

  const uint64_t begun_us = steady_us();
  const auto closed = put_without_bytes(cluster_, row_name(name), closed_row(row), only_if(row));
  if (!closed && lost_the_row(closed.error())) return std::optional<store::Record>();
  if (!closed) return closed.error().copy();
  MR_FAULT("cluster.closed");
  if (steady_us() - begun_us > kLongestClosingUs) {
    reopen(name, *closed);
    return make_error(Code::kUnavailable, "{}/{}: the nodes answer too slowly", name.bucket, name.key);
  }
  auto committed =
      put_without_bytes(cluster_, {name.bucket, name.key}, std::move(record), completion.condition);
  if (!committed) {
    // Otherwise nobody knows whether the object is there: the row stays closed until it is clear.
    if (did_nothing(committed.error())) reopen(name, *closed);
    return committed.take_error();
  }
  MR_FAULT("cluster.completed");
  MR_TRY(free_row(name, *closed, *committed));
  sweep_.look_at(name, HiddenSweep::When::kNow);
  return std::optional(committed.take());
}

Status ClusterUploads::free_row(const store::UploadName& name, const store::Record& closed,
                                const store::Record& object) {
  const Status freed = remove_now(cluster_, row_name(name), only_if(closed));
  // Where it fails otherwise the sweep removes the row.
  if (freed || !lost_the_row(freed.error())) return {};
  // Whoever finds the object removes the row as well. But an abort that took the row over removes the parts.
  const auto parts = load_parts(name);
  const auto is_there = [&](const store::Piece& piece) {
    return std::ranges::any_of(
        *parts, [&](const store::UploadPart& part) { return part.record.pieces.front().file == piece.file; });
  };
  if (!parts || std::ranges::all_of(object.pieces, is_there)) return {};
  static_cast<void>(remove_now(cluster_, {name.bucket, name.key}, only_if(object)));
  return make_error(Code::kUnavailable, "{}/{}: upload {} was ended by another request meanwhile",
                    name.bucket, name.key, name.upload)
      .with_hint("the upload is gone: send the object again");
}

void ClusterUploads::reopen(const store::UploadName& name, store::Record row) {
  const store::Condition condition = only_if(row);
  // Where it fails the row is taken over once it is stale.
  static_cast<void>(put_without_bytes(cluster_, row_name(name), open_row(std::move(row)), condition));
}

Status ClusterUploads::abort(const store::UploadName& name) {
  for (unsigned turn = 0; turn < kMostTurns; ++turn) {
    const store::Record row = MR_TRY(wait_for_row(name));
    Status removed = remove_now(cluster_, row_name(name), only_if(row));
    if (removed) {
      sweep_.look_at(name, HiddenSweep::When::kNow);
      return {};
    }
    if (!lost_the_row(removed.error())) return removed;
  }
  return too_many_others(name);
}

Status ClusterUploads::abort_all(const std::string& bucket) {
  const std::vector<store::UploadStatus> uploads = MR_TRY(all(bucket));
  for (const store::UploadStatus& upload : uploads) {
    Status aborted = abort({bucket, upload.key, upload.upload});
    if (!aborted && !aborted.error().is(store::kNoSuchUpload)) return aborted;
  }
  return {};
}

}  // namespace millrace::cluster
