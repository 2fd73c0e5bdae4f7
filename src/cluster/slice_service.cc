// Appends, reads, lists and verifies, on workers.
#include "cluster/slice_service.h"

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "base/crc.h"
#include "base/fault.h"
#include "cluster/listed_elsewhere.h"
#include "cluster/merge_lists.h"
#include "cluster/slice_shelf.h"
#include "cluster/stripe.h"
#include "store/coding.h"
#include "store/on_workers.h"
#include "store/waiting.h"

namespace millrace::cluster {

void SliceService::run(std::function<Result<Reply>()> work, Done<Reply> done) {
  store::run_on<Reply>(workers_, std::move(work), std::move(done));
}

namespace {

Error too_many_appends() {
  return make_error(Code::kUnavailable, "too many appends are waiting for the drives");
}

}  // namespace

SliceService::Name SliceService::name_of(const AppendRequest& request) {
  return {request.drive, slice_name(request.write_id, request.slot, request.drive)};
}

SliceService::Name SliceService::name_of(DriveId drive, const store::Spread& spread) {
  return {drive, slice_name(spread.write_id, spread.slot, drive)};
}

void SliceService::append(AppendRequest request, Done<Reply> done) {
  const auto filling = std::make_shared<Filling>(Filling{std::move(request), std::move(done)});
  const bool taken = fillers_->submit([this, filling] {
    auto incoming = claim(filling->request);
    if (!incoming) return filling->done(incoming.take_error());
    filling->incoming = incoming.take();
    fill(filling);
  });
  if (!taken) filling->done(too_many_appends());
}

void SliceService::fill(const std::shared_ptr<Filling>& filling) {
  store::Writer& writer = *filling->incoming->writer;
  const std::string_view bytes = filling->request.bytes.view();
  const auto filled = store::fill_some(writer, bytes.substr(filling->filled));
  if (!filled) return end(*filling, filled.error().copy());
  filling->filled += *filled;
  if (filling->filled < bytes.size()) return fill_later(filling);
  end(*filling, writer.set_aside());
}

// Whoever gives a buffer back calls this, perhaps when the service is gone: then no filler takes it.
void SliceService::fill_later(const std::shared_ptr<Filling>& filling) {
  filling->incoming->writer->when_space([this, filling, fillers = fillers_] {
    const bool taken = fillers->submit([this, filling] {
      if (Status good = filling->incoming->writer->advance(0); !good) return end(*filling, std::move(good));
      fill(filling);
    });
    if (taken) return;
    // The buffer that is free goes to the next one who waits, when this writer goes.
    static_cast<void>(filling->incoming->writer->space());
    filling->done(too_many_appends());
  });
}

void SliceService::end(Filling& filling, Status status) {
  Incoming& incoming = *filling.incoming;
  if (!status) {
    const MutexLock lock(mutex_);
    const auto found = incoming_.find(name_of(filling.request));
    if (found != incoming_.end() && found->second == filling.incoming) incoming_.erase(found);
  } else {
    const MutexLock lock(incoming.mutex);
    incoming.bytes += filling.request.bytes.size();
    incoming.appending = false;
  }
  incoming.last_us = steady_us();
  if (!status) return filling.done(status.take_error());
  filling.done(Reply(DoneReply{}));
}

void SliceService::finish(FinishRequest request, Done<Reply> done) {
  auto whole = take_whole(request);
  if (!whole) return done(whole.take_error());
  // Here until the call has returned; else until it is answered.
  const IncomingPointer incoming = whole.take();
  const auto held = std::make_shared<IncomingPointer>(incoming);
  incoming->writer->finish(
      {}, [this, request, held, done = std::move(done)](Result<store::ObjectPointer> finished) {
        let_go(std::exchange(*held, nullptr));
        if (!finished) return done(finished.take_error());
        MR_FAULT("cluster.slice");
        enter_(request.drive, request.name, {request.spread, ""}, [done](Status entered) {
          if (!entered) return done(entered.take_error());
          done(Reply(DoneReply{}));
        });
      });
}

Result<SliceService::IncomingPointer> SliceService::take_whole(const FinishRequest& request) {
  const Name name = name_of(request.drive, request.spread);
  const MutexLock lock(mutex_);
  const auto found = incoming_.find(name);
  if (found == incoming_.end())
    return make_error(Code::kUnavailable, "the bytes of slice {} are not here", name.second);
  const IncomingPointer incoming = found->second;
  {
    const MutexLock its_lock(incoming->mutex);
    if (incoming->appending || incoming->bytes != request.size) {
      return make_error(Code::kInvalid, "slice {} has {} bytes, not {}", name.second, incoming->bytes,
                        request.size);
    }
  }
  incoming_.erase(found);
  return incoming;
}

// Its end may wait for the drive. If no filler takes it, it ends here.
void SliceService::let_go(IncomingPointer incoming) {
  static_cast<void>(fillers_->submit([incoming = std::move(incoming)] {}));
}

void SliceService::forget(const DropRequest& request) {
  const Name name = name_of(request.drive, request.spread);
  IncomingPointer incoming;
  {
    const MutexLock lock(mutex_);
    const auto found = incoming_.find(name);
    if (found == incoming_.end()) return;
    incoming = std::move(found->second);
    incoming_.erase(found);
  }
  let_go(std::move(incoming));
}

void SliceService::forget_silent(uint64_t now_us) {
  std::vector<IncomingPointer> silent;
  {
    const MutexLock lock(mutex_);
    std::erase_if(incoming_, [&](const auto& entry) {
      const bool is_silent = entry.second->last_us + kPatienceUs < now_us;
      if (is_silent) silent.push_back(entry.second);
      return is_silent;
    });
  }
  for (IncomingPointer& one : silent) let_go(std::move(one));
}

size_t SliceService::incoming() const {
  const MutexLock lock(mutex_);
  return incoming_.size();
}

void SliceService::stop() {
  verifiers_.stop();
  fillers_->stop();
  std::map<Name, IncomingPointer> incoming;
  const MutexLock lock(mutex_);
  incoming.swap(incoming_);
}

void SliceService::read(ReadRequest request, Done<Reply> done) {
  run([this, request = std::move(request)] { return read_now(request); }, std::move(done));
}

void SliceService::list(ListRequest request, ListView view, Done<Reply> done) {
  run([this, request = std::move(request), view = std::move(view)] { return list_now(request, view); },
      std::move(done));
}

void SliceService::verify(VerifyRequest request, Done<Reply> done) {
  store::run_on<Reply>(
      verifiers_, [this, request = std::move(request)] { return verify_now(request); }, std::move(done));
}

Result<SliceService::IncomingPointer> SliceService::begin(const AppendRequest& request, const Name& name) {
  const auto incoming = std::make_shared<Incoming>();
  incoming->last_us = steady_us();
  incoming->writer = MR_TRY(slices_.put(request.drive, name.second, std::nullopt));
  const MutexLock lock(mutex_);
  if (incoming_.size() >= kMostIncoming)
    return make_error(Code::kUnavailable, "too many slices are being written");
  incoming_[name] = incoming;
  return incoming;
}

SliceService::IncomingPointer SliceService::find(const Name& name) {
  const MutexLock lock(mutex_);
  const auto found = incoming_.find(name);
  return found == incoming_.end() ? nullptr : found->second;
}

// The slice that the bytes belong to, for this append alone.
Result<SliceService::IncomingPointer> SliceService::claim(const AppendRequest& request) {
  const Name name = name_of(request);
  const IncomingPointer incoming = request.offset == 0 ? MR_TRY(begin(request, name)) : find(name);
  if (incoming == nullptr)
    return make_error(Code::kUnavailable, "the beginning of slice {} is not here", name.second);
  const MutexLock lock(incoming->mutex);
  if (incoming->bytes != request.offset) {
    return make_error(Code::kInvalid, "slice {} has {} bytes, not {}", name.second, incoming->bytes,
                      request.offset);
  }
  if (std::exchange(incoming->appending, true))
    return make_error(Code::kInvalid, "slice {}: another append is under way", name.second);
  return incoming;
}

Result<Reply> SliceService::read_now(const ReadRequest& request) {
  if (request.size > kMostReadBytes) return make_error(Code::kTooLarge, "{} bytes at once", request.size);
  const store::ObjectPointer slice =
      MR_TRY(slices_.get(slice_name(request.write_id, request.slot, request.drive)));
  store::WaitingReader reader(slice, slice->is_inline() ? nullptr : slices_.open(slice));
  const Block block = blocks_.take(request.size);
  const size_t bytes = MR_TRY(reader.read(request.offset, block.span()));
  return Reply(BytesReply{block.share(bytes)});
}

namespace {

Result<ListReply::Entry> make_entry(std::string_view key, const LedgerSummary& row, bool whole) {
  ListReply::Entry entry{std::string(key), row.object.version,     row.object.deleted,
                         row.object.size,  row.object.modified_ms, std::string(row.object.etag),
                         nullptr};
  if (whole && !entry.deleted)
    entry.record = std::make_shared<const store::Record>(MR_TRY(store::decode_record(row.record)));
  return entry;
}

}  // namespace

Result<Reply> SliceService::list_now(const ListRequest& request, const ListView& view) {
  const store::Slices::Range range{request.bucket, request.prefix, request.after,
                                   std::min(request.limit, kMostListed)};
  std::vector<ListEntries> lists;
  ListReply reply;
  size_t bytes = 0;  // of records
  for (const store::Slices::OwnDrive& drive : slices_.drives()) {
    if (!slices_.in_service(drive.hash)) continue;
    ListEntries& entries = lists.emplace_back();
    std::string last;
    constexpr auto go_on = store::Slices::Visit::kGoOn;
    const auto take = [&](std::string_view key, std::string_view value) -> Result<store::Slices::Visit> {
      last = key;
      const auto row = MR_TRY(summarize_ledger(value).within(request.bucket + "/" + last));
      if (!row) return go_on;
      const bool is_left_out =
          row->object.version.epoch < view.since ||
          (view.once_by != nullptr && MR_TRY(is_listed_elsewhere(*row, drive.hash, *view.once_by)));
      if (is_left_out) return go_on;
      if (request.records) bytes += row->record.size();
      entries.push_back(MR_TRY(make_entry(key, *row, request.records)));
      return bytes < kMostListedBytes ? go_on : store::Slices::Visit::kStop;
    };
    const auto seen = MR_TRY(slices_.visit_ledgers(drive.hash, range, take));
    if (!seen.is_end && (reply.reached.empty() || last < reply.reached)) reply.reached = last;
    reply.drives.push_back(drive.hash);
  }
  reply.entries = merge_lists(std::move(lists), reply.reached);
  return Reply(std::move(reply));
}

Result<Reply> SliceService::verify_now(const VerifyRequest& request) {
  const auto found = MR_TRY(slices_.find_ledger(request.drive, request.name.bucket, request.name.key));
  Ledger ledger;
  if (found) {
    store::Decoder in(*found);
    ledger = MR_TRY(decode_ledger(in));
  }
  VerifyReply reply;
  const auto unmarked = [&](std::string_view why) {
    reply.found = VerifyReply::Found::kUnmarked;
    reply.why = why;
    return Reply(reply);
  };
  if (!ledger.mark || ledger.mark->record.spread.write_id != request.write_id)
    return unmarked("the drive does not know of the write");
  const Mark& mark = *ledger.mark;
  if (!mark.has_slice || mark.record.spread.slot != request.slot)
    return unmarked("the drive knows of the write and has not its slice");
  if (has_slice_beside(mark.record)) return Reply(verify_slice(request, mark.record));
  // An object that is nothing but parts has no bytes of its own.
  if (!mark.record.upload.empty()) return Reply(reply);
  if (mark.bytes.size() == mark.record.size && crc32c(mark.bytes) == mark.record.crc32c) {
    reply.bytes = mark.bytes.size();
    return Reply(reply);
  }
  reply.found = VerifyReply::Found::kDamaged;
  reply.why = "the bytes in the index are not those that were written";
  return Reply(reply);
}

VerifyReply SliceService::verify_slice(const VerifyRequest& request, const store::Record& record) {
  const auto checked = slices_.check(slice_name(request.write_id, request.slot, request.drive),
                                     {request.block, kMostVerifiedBlocks});
  VerifyReply reply;
  if (!checked) {
    const bool gone = checked.error().code() == Code::kNotFound;
    reply.found = gone ? VerifyReply::Found::kMissing : VerifyReply::Found::kDamaged;
    reply.why = checked.error().message();
    return reply;
  }
  reply.bytes = checked->good_bytes;
  const uint64_t end = request.block + kMostVerifiedBlocks;
  if (end < checked->blocks) reply.next = end;
  const store::Spread& spread = record.spread;
  const Layout layout{spread.k, spread.m, spread.k == 1 ? kCellBytes : spread.cell, record.size};
  if (checked->slice_bytes != layout.slice_size(request.slot)) {
    reply.found = VerifyReply::Found::kDamaged;
    reply.why = "the slice has not its size";
  } else if (!checked->bad_blocks.empty()) {
    reply.found = VerifyReply::Found::kDamaged;
    reply.bad_block = checked->bad_blocks.front();
    reply.why = "its checksum is wrong";
  }
  return reply;
}

}  // namespace millrace::cluster
