// Reads a ledger, judges, writes it durably, answers.
#include "cluster/holder.h"

#include <algorithm>

#include "base/fault.h"
#include "cluster/places.h"
#include "cluster/reasons.h"

namespace millrace::cluster {

namespace {

Error old_epoch(uint32_t asked, uint32_t known) {
  return make_error(kOldEpoch, "epoch {} is over, {} has begun", asked, known);
}

// Ends the turn, then answers.
template <typename T>
Done<T> ending(std::function<void()> finished, Done<T> done) {
  return [finished = std::move(finished), done = std::move(done)](Result<T> result) {
    finished();
    done(std::move(result));
  };
}

// Slices beside the ledger that nobody needs once the mark is there.
std::vector<store::Spread> replaced_slices(const Ledger& ledger, const Mark& mark) {
  const store::Spread& spread = mark.record.spread;
  const auto is_kept = [&](const store::Spread& one) {
    return mark.has_slice && one.write_id == spread.write_id && one.slot == spread.slot;
  };
  std::vector<store::Spread> replaced;
  if (ledger.mark && ledger.mark->has_slice && has_slice_beside(ledger.mark->record) &&
      !is_kept(ledger.mark->record.spread))
    replaced.push_back(ledger.mark->record.spread);
  for (const Prepared& slice : ledger.prepared) {
    if (slice.spread.write_id == spread.write_id && has_slice_beside(mark.record) && !is_kept(slice.spread))
      replaced.push_back(slice.spread);
  }
  return replaced;
}

Done<void> with_reply(Done<Reply> done) {
  return [done = std::move(done)](Status status) {
    if (!status) return done(status.take_error());
    done(Reply(DoneReply{}));
  };
}

}  // namespace

uint32_t Holder::promised() const {
  return std::max(promising_, shelf_.promised());
}

void Holder::in_turn(Place place, Work work) {
  auto& queue = turns_[place];
  queue.push_back(std::move(work));
  if (queue.size() == 1) run_next(place);
}

void Holder::run_next(const Place& place) {
  const Work work = turns_.at(place).front();
  work([this, place] {
    const auto found = turns_.find(place);
    found->second.pop_front();
    if (found->second.empty()) {
      turns_.erase(found);
    } else {
      run_next(place);
    }
  });
}

void Holder::prepare(PrepareRequest request, Done<Reply> done) {
  const DriveId drive = request.drive;
  if (!shelf_.in_service(drive))
    return done(make_error(Code::kUnavailable, "drive {:016x} is not in service", drive));
  if (request.inlined)
    return enter(drive, request.name, {request.spread, std::move(request.bytes)},
                 with_reply(std::move(done)));
  shelf_.put_slice(drive, request.spread, std::move(request.bytes),
                   [this, drive, name = request.name, spread = request.spread,
                    done = std::move(done)](Status put) mutable {
                     if (!put) return done(put.take_error());
                     enter(drive, name, {spread, ""}, with_reply(std::move(done)));
                   });
}

void Holder::enter(DriveId drive, const ObjectName& name, const Prepared& slice, Done<void> done) {
  in_turn({drive, name}, [this, drive, name, slice, done](std::function<void()> finished) {
    Done<void> end = ending(std::move(finished), done);
    shelf_.read(drive, name, [this, drive, name, slice, end](Result<Ledger> read) {
      if (!read) return end(read.take_error());
      Ledger ledger = read.take();
      // Whoever sent it gave it up meanwhile.
      if (slice.bytes.empty() && shelf_.is_dropped(drive, slice.spread))
        return end(make_error(Code::kUnavailable, "{}/{}: the slice was dropped", name.bucket, name.key));
      const std::vector<unsigned> slots = ledger.slots_of(slice.spread.write_id);
      if (std::ranges::find(slots, slice.spread.slot) != slots.end()) return end({});
      if (ledger.prepared.size() >= Ledger::kMaxPrepared)
        return end(
            make_error(Code::kUnavailable, "{}/{}: too many writes are under way", name.bucket, name.key));
      ledger.prepared.push_back(slice);
      MR_FAULT("cluster.prepared");
      shelf_.write(drive, name, ledger, Shelf::Haste::kDurable, end);
    });
  });
}

void Holder::tell(StateRequest request, Done<Reply> done) {
  const bool sync = request.purpose == StateRequest::Purpose::kSync;
  const uint32_t known = std::max(promised(), membership_.maps()->back()->epoch());
  const auto shared = std::make_shared<const StateRequest>(std::move(request));
  if (shared->epoch > membership_.maps()->back()->epoch()) membership_.look_again();
  if (!sync) {
    // A reader with an old map would look in the wrong place; and whoever lost his lease may be overtaken.
    if (shared->epoch < known) return done(old_epoch(shared->epoch, known));
    if (!membership_.has_lease() && !broken("no-fence")) {
      return done(make_error(kNotHome, "this node has lost its lease"));
    }
    return tell_all(shared, std::move(done));
  }
  if (broken("no-promise")) return tell_all(shared, std::move(done));
  if (shared->epoch < promised()) return done(old_epoch(shared->epoch, promised()));
  if (shared->epoch == shelf_.promised()) return tell_all(shared, std::move(done));
  promising_ = std::max(promising_, shared->epoch);
  shelf_.promise(shared->epoch, [this, shared, done = std::move(done)](Status status) {
    if (!status) return done(status.take_error());
    tell_all(shared, done);
  });
}

void Holder::tell_all(std::shared_ptr<const StateRequest> request, Done<Reply> done) {
  struct Gathering {
    StateReply reply;
    size_t left = 0;
  };
  const auto gathering = std::make_shared<Gathering>();
  std::vector<DriveId> drives;
  for (const DriveId drive : request->drives) {
    if (shelf_.in_service(drive)) drives.push_back(drive);
  }
  if (drives.empty()) return done(Reply(StateReply{}));
  gathering->left = drives.size();
  for (const DriveId drive : drives) {
    in_turn({drive, request->name}, [this, drive, request, gathering, done](std::function<void()> finished) {
      shelf_.read(drive, request->name,
                  [this, drive, request, gathering, done, finished](Result<Ledger> read) {
                    finished();
                    // A drive that cannot be read counts as one that is not there.
                    if (read) gathering->reply.drives.push_back({drive, read.take()});
                    if (read) hide_removed(request->name, gathering->reply.drives.back().ledger);
                    if (--gathering->left == 0) done(Reply(std::move(gathering->reply)));
                  });
    });
  }
}

void Holder::hide_removed(const ObjectName& name, Ledger& ledger) const {
  if (ledger.mark && is_of_removed_bucket(ledger.mark->record.version, name.bucket, membership_))
    ledger.mark.reset();
}

void Holder::mark(MarkRequest request, Done<Reply> done) {
  const auto shared = std::make_shared<const MarkRequest>(std::move(request));
  if (!shelf_.in_service(shared->drive))
    return done(make_error(Code::kUnavailable, "drive {:016x} is not in service", shared->drive));
  in_turn({shared->drive, shared->name}, [this, shared, done](std::function<void()> finished) {
    Done<Reply> end = ending(std::move(finished), done);
    if (shared->epoch < promised() && !broken("no-promise")) return end(old_epoch(shared->epoch, promised()));
    shelf_.read(shared->drive, shared->name, [this, shared, end](Result<Ledger> read) {
      if (!read) return end(read.take_error());
      mark_now(*shared, read.take(), end);
    });
  });
}

void Holder::mark_now(const MarkRequest& request, Ledger ledger, Done<Reply> done) {
  const store::Record& record = request.record;
  const store::Spread& spread = record.spread;
  const auto refuse = [&](std::string_view why) {
    done(make_error(kMarkRefused, "{}/{}: {}", request.name.bucket, request.name.key, why));
  };
  if (ledger.mark && ledger.mark->record.version > record.version) return refuse("a newer write was marked");
  if (ledger.mark && ledger.mark->record.version == record.version) {
    if (ledger.mark->record.spread.write_id != spread.write_id)
      return refuse("another write has its version");
    return done(Reply(DoneReply{}));
  }
  const auto slot = record.deleted ? std::nullopt : ledger.held_slot(spread, request.drive);
  if (!request.pointer && !slot && !record.deleted && !broken("mark-without-all-slices"))
    return refuse("the slice to be marked is not here");

  const std::string* bytes = ledger.find_bytes(spread.write_id);
  Mark mark{record, false, slot.has_value(), slot && bytes != nullptr ? *bytes : ""};
  mark.record.spread.slot = static_cast<uint8_t>(slot.value_or(0));
  const std::vector<store::Spread> replaced = replaced_slices(ledger, mark);
  ledger.mark = std::move(mark);
  std::erase_if(ledger.prepared,
                [&](const Prepared& slice) { return slice.spread.write_id == spread.write_id; });
  if (broken("forget-tombstone") && record.deleted) ledger.mark.reset();
  MR_FAULT("cluster.marked");
  shelf_.write(request.drive, request.name, ledger, Shelf::Haste::kDurable,
               [this, drive = request.drive, replaced, done = std::move(done)](Status written) {
                 if (!written) return done(written.take_error());
                 for (const store::Spread& old : replaced) shelf_.drop_slice(drive, old);
                 done(Reply(DoneReply{}));
               });
}

bool Holder::may_forget(const ForgetRequest& request, const Mark& mark) const {
  if (mark.record.version > request.version) return false;
  if (is_of_removed_bucket(mark.record.version, request.name.bucket, membership_)) return true;
  const auto maps = membership_.maps();
  // No map is open in which anyone could know of something older than this tombstone.
  if (mark.record.deleted && mark.record.version.epoch < maps->front()->epoch()) return true;
  const std::vector<DriveId> placed = place_object(*maps->back(), request.name, membership_);
  return std::ranges::find(placed, request.drive) == placed.end();
}

void Holder::forget(ForgetRequest request, Done<Reply> done) {
  const uint32_t known = std::max(promised(), membership_.maps()->back()->epoch());
  if (request.epoch != known) {
    if (request.epoch > known) membership_.look_again();
    return done(old_epoch(request.epoch, known));
  }
  const auto shared = std::make_shared<const ForgetRequest>(std::move(request));
  const auto forget_now = [this, shared, done](std::function<void()> finished) {
    Done<void> end = ending(std::move(finished), with_reply(done));
    shelf_.read(shared->drive, shared->name, [this, shared, end](Result<Ledger> read) {
      if (!read) return end(read.take_error());
      Ledger ledger = read.take();
      if (!ledger.mark) return end({});
      if (!may_forget(*shared, *ledger.mark))
        return end(make_error(kMarkRefused, "{}/{}: the drive is one of its holders, or knows a newer write",
                              shared->name.bucket, shared->name.key));
      const Mark mark = std::move(*std::exchange(ledger.mark, std::nullopt));
      MR_FAULT("cluster.forgotten");
      // Durable: what was forgotten must not come back after everyone was told that it is gone.
      shelf_.write(shared->drive, shared->name, ledger, Shelf::Haste::kDurable,
                   [this, drive = shared->drive, mark, end](Status written) {
                     if (!written) return end(written.take_error());
                     if (mark.has_slice && has_slice_beside(mark.record))
                       shelf_.drop_slice(drive, mark.record.spread);
                     end({});
                   });
    });
  };
  // A late mark of an older epoch would find nothing to tell it that it is late.
  promising_ = std::max(promising_, shared->epoch);
  shelf_.promise(shared->epoch, [this, shared, forget_now, done](Status promised) {
    if (!promised) return done(promised.take_error());
    in_turn({shared->drive, shared->name}, forget_now);
  });
}

struct Holder::Comparison {
  CompareRequest request;
  CompareReply reply;
  uint32_t position = 0;
  Done<Reply> done;
};

void Holder::compare(CompareRequest request, Done<Reply> done) {
  if (!shelf_.in_service(request.drive))
    return done(make_error(Code::kUnavailable, "drive {:016x} is not in service", request.drive));
  compare_next(std::make_shared<Comparison>(Comparison{std::move(request), {}, 0, std::move(done)}));
}

// One after another: whoever compares has time, and requests of clients do not wait behind it.
void Holder::compare_next(const std::shared_ptr<Comparison>& comparison) {
  if (comparison->position == comparison->request.known.size())
    return comparison->done(Reply(std::move(comparison->reply)));
  const CompareRequest::Known& known = comparison->request.known[comparison->position];
  shelf_.read(comparison->request.drive, known.name, [this, comparison](Result<Ledger> read) {
    if (!read) return comparison->done(read.take_error());
    const store::Version& version = comparison->request.known[comparison->position].version;
    if (!read->mark || read->mark->record.version != version)
      comparison->reply.differing.push_back(comparison->position);
    ++comparison->position;
    compare_next(comparison);
  });
}

void Holder::drop(DropRequest request, Done<Reply> done) {
  const auto shared = std::make_shared<const DropRequest>(std::move(request));
  in_turn({shared->drive, shared->name}, [this, shared, done](std::function<void()> finished) {
    Done<void> end = ending(std::move(finished), with_reply(done));
    shelf_.read(shared->drive, shared->name, [this, shared, end](Result<Ledger> read) {
      if (!read) return end(read.take_error());
      Ledger ledger = read.take();
      const auto is_meant = [&](const store::Spread& one) {
        return one.write_id == shared->spread.write_id && one.slot == shared->spread.slot;
      };
      if (ledger.mark && ledger.mark->has_slice && is_meant(ledger.mark->record.spread)) return end({});
      shelf_.drop_slice(shared->drive, shared->spread);
      const size_t gone =
          std::erase_if(ledger.prepared, [&](const Prepared& slice) { return is_meant(slice.spread); });
      if (gone == 0) return end({});
      shelf_.write(shared->drive, shared->name, ledger, Shelf::Haste::kLazy, end);
    });
  });
}

void Holder::complete(CompleteRequest request, Done<Reply> done) {
  const auto shared = std::make_shared<const CompleteRequest>(std::move(request));
  if (!shelf_.in_service(shared->drive)) return done(Reply(DoneReply{}));
  in_turn({shared->drive, shared->name}, [this, shared, done](std::function<void()> finished) {
    Done<void> end = ending(std::move(finished), with_reply(done));
    shelf_.read(shared->drive, shared->name, [this, shared, end](Result<Ledger> read) {
      if (!read) return end(read.take_error());
      Ledger ledger = read.take();
      if (!ledger.mark || ledger.mark->record.version != shared->version || ledger.mark->complete)
        return end({});
      ledger.mark->complete = true;
      shelf_.write(shared->drive, shared->name, ledger, Shelf::Haste::kLazy, end);
    });
  });
}

}  // namespace millrace::cluster
