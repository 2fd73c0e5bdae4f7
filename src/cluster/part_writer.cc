// A part, and two looks at its upload.
#include "cluster/part_writer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "cluster/hidden_bucket.h"
#include "store/reasons.h"

namespace millrace::cluster {

namespace {

void look_for_upload(Cluster& cluster, const store::UploadName& name, Done<void> done) {
  cluster.find({uploads_of(name.bucket), name.upload},
               [name, done = std::move(done)](Result<std::optional<FoundObject>> row) {
                 if (!row) return done(row.take_error());
                 if (!*row || target_of((*row)->record) != name.key)
                   return done(store::no_such_upload(name.bucket, name.key, name.upload));
                 done({});
               });
}

store::PutOptions put_options(const store::PartOptions& options, const ObjectName& part) {
  store::PutOptions put;
  put.bucket = part.bucket;
  put.key = part.key;
  put.size = options.size;
  put.headers = {{std::string(kTargetHeader), options.name.key}};
  return put;
}

}  // namespace

// The first look, shared with its answer, which may come after the writer is gone.
struct PartWriter::Check {
  Mutex mutex;
  std::optional<Status> outcome MR_GUARDED_BY(mutex);
  std::function<void(Status)> waiting MR_GUARDED_BY(mutex);

  void arrive(Status status) {
    std::function<void(Status)> waits;
    {
      const MutexLock lock(mutex);
      waits = std::exchange(waiting, nullptr);
      outcome = status ? Status() : Status(status.error().copy());
    }
    if (waits) waits(std::move(status));
  }
  // Nothing: it has not come yet.
  std::optional<Status> find() {
    const MutexLock lock(mutex);
    if (!outcome) return std::nullopt;
    return *outcome ? Status() : Status(outcome->error().copy());
  }
  void wait(std::function<void(Status)> waits) {
    {
      const MutexLock lock(mutex);
      if (!outcome) {
        waiting = std::move(waits);
        return;
      }
    }
    waits(*find());
  }
};

PartWriter::PartWriter(Cluster& cluster, const store::PartOptions& options)
    : PartWriter(
          cluster, options,
          {parts_of(options.name.bucket), part_key(options.name.upload, make_part_file(options.number))}) {}

PartWriter::PartWriter(Cluster& cluster, const store::PartOptions& options, ObjectName part)
    : cluster_(cluster),
      name_(options.name),
      part_(std::move(part)),
      check_(std::make_shared<Check>()),
      writer_(cluster, put_options(options, part_)) {
  look_for_upload(cluster_, name_, [check = check_](Status status) { check->arrive(std::move(status)); });
}

Status PartWriter::advance(size_t bytes) {
  if (const auto looked = check_->find(); looked && !*looked) return looked->error().copy();
  return writer_.advance(bytes);
}

void PartWriter::finish(store::Finish finish, Done<store::ObjectPointer> done) {
  check_->wait([this, finish = std::move(finish), done = std::move(done)](Status looked) {
    if (!looked) return done(looked.take_error());
    writer_.finish(finish, [this, done](Result<store::ObjectPointer> part) {
      if (!part) return done(part.take_error());
      confirm(part.take(), done);
    });
  });
}

void PartWriter::confirm(store::ObjectPointer part, Done<store::ObjectPointer> done) {
  look_for_upload(cluster_, name_, [this, part = std::move(part), done = std::move(done)](Status looked) {
    if (looked) return done(part);
    if (!looked.error().is(store::kNoSuchUpload)) return done(looked.take_error());
    judge_ended(part, looked.take_error(), done);
  });
}

// An upload that is gone was aborted, or became the object, perhaps with this part: a client that got no
// answer in time may have completed it. A completion commits the object before it removes the upload.
void PartWriter::judge_ended(store::ObjectPointer part, Error ended, Done<store::ObjectPointer> done) {
  const auto why = std::make_shared<Error>(std::move(ended));
  cluster_.find({name_.bucket, name_.key}, [this, part = std::move(part), why, done = std::move(done)](
                                               Result<std::optional<FoundObject>> object) {
    if (!object) return done(object.take_error());  // if nobody needs the part, the sweep takes it
    const auto key = parse_part_key(part_.key);
    const auto is_this = [&](const store::Piece& piece) { return key && piece.file == key->file; };
    if (*object && (*object)->record.upload == name_.upload &&
        std::ranges::any_of((*object)->record.pieces, is_this))
      return done(part);
    CommitRequest removal{CommitRequest::Kind::kRemove, 0, part_, {}, {}};
    // Where this fails the sweep takes it.
    cluster_.commit(std::move(removal),
                    [why, done](const Result<std::optional<store::Record>>&) { done(std::move(*why)); });
  });
}

}  // namespace millrace::cluster
