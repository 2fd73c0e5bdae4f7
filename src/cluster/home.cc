// A key's requests in order: sync, judge, mark, answer.
#include "cluster/home.h"

#include <algorithm>

#include "base/fault.h"
#include "cluster/holder.h"
#include "cluster/places.h"
#include "cluster/reasons.h"
#include "store/reasons.h"

namespace millrace::cluster {

namespace {

const store::Record* object_of(const std::optional<store::Record>& last) {
  return last && !last->deleted ? &*last : nullptr;
}

Error outcome_unknown(const ObjectName& name) {
  return make_error(kOutcomeUnknown, "{}/{}: the write may have happened or not", name.bucket, name.key)
      .with_hint("write it again");
}

// What the record of a shard says of its index becomes what `noted` says.
Status enter_index(store::Record& record, const store::Record& noted) {
  if (record.spread.write_id != noted.spread.write_id)
    return make_error(store::kConditionFailed, "the shard was replaced meanwhile");
  record.shard = noted.shard;
  record.shard_samples = noted.shard_samples;
  record.shard_index_size = noted.shard_index_size;
  std::erase_if(record.headers,
                [](const store::NameValue& header) { return header.first == store::kIndexProblem; });
  record.headers.insert(record.headers.end(), noted.headers.begin(), noted.headers.end());
  return {};
}

}  // namespace

void Home::commit(CommitRequest request, Done<Reply> done) {
  if (Status acts = check_new(request.epoch, request.name); !acts) return done(acts.take_error());
  const ObjectName name = request.name;
  queue(name, {std::move(request), std::move(done), nullptr, 0});
}

void Home::find(FindRequest request, Done<Reply> done) {
  if (Status acts = check_new(request.epoch, request.name); !acts) return done(acts.take_error());
  queue(request.name, {std::nullopt, std::move(done), nullptr, 0});
}

void Home::look(const ObjectName& name, Done<std::optional<store::Record>> done) {
  if (Status acts = check_new(newest().epoch(), name); !acts) return done(acts.take_error());
  Waiting waiting;
  waiting.look = std::move(done);
  queue(name, std::move(waiting));
}

void Home::adopt_map() {
  std::vector<ObjectName> names;
  for (const auto& [name, state] : keys_) names.push_back(name);
  for (const ObjectName& name : names) step(name);
}

Status Home::check(uint32_t epoch, const ObjectName& name) const {
  const auto maps = membership_.maps();
  const Map& map = *maps->back();
  if (epoch != map.epoch()) {
    if (epoch > map.epoch()) membership_.look_again();
    return make_error(kOldEpoch, "asked in epoch {}, this node knows {}", epoch, map.epoch());
  }
  if (map.home(hash_of(name)) != membership_.self())
    return make_error(kNotHome, "{}/{}: this node is not its home", name.bucket, name.key);
  if (const auto redundancy = membership_.redundancy(name.bucket); redundancy && redundancy->since > epoch) {
    membership_.look_again();
    return make_error(kOldEpoch, "bucket {} was made in epoch {}", name.bucket, redundancy->since);
  }
  if (broken("no-fence")) return {};
  if (holder_.promised() > epoch) {
    membership_.look_again();
    return make_error(kOldEpoch, "epoch {} is over, {} has begun", epoch, holder_.promised());
  }
  if (!membership_.has_lease()) return make_error(kNotHome, "this node has lost its lease");
  return {};
}

Status Home::check_new(uint32_t epoch, const ObjectName& name) const {
  if (retired_) return make_error(kNotHome, "{}/{}: its home is leaving the cluster", name.bucket, name.key);
  return check(epoch, name);
}

bool Home::is_idle() const {
  return std::ranges::all_of(keys_, [](const auto& entry) { return entry.second.is_idle(); });
}

void Home::queue(const ObjectName& name, Waiting waiting) {
  if (keys_.size() >= kMostKeys) forget_some();
  waiting.deadline = strand_.now_us() + kPatienceUs;
  KeyState& state = keys_[name];
  if (state.epoch == 0) state.epoch = newest().epoch();
  state.waiting.push_back(std::move(waiting));
  step(name);
}

void Home::forget_some() {
  size_t wanted = keys_.size() / 4;
  std::erase_if(keys_,
                [&](const auto& entry) { return entry.second.is_idle() && wanted > 0 && wanted-- > 0; });
}

void Home::answer(Done<Reply> done, Result<Reply> reply) {
  const auto shared = std::make_shared<Result<Reply>>(std::move(reply));
  strand_.post([done = std::move(done), shared] { done(std::move(*shared)); });
}

void Home::refuse(Waiting& waiting, const Error& error) {
  if (!waiting.look) return answer(std::move(waiting.done), error.copy());
  const auto shared = std::make_shared<Error>(error.copy());
  strand_.post([look = std::move(waiting.look), shared] { look(std::move(*shared)); });
}

void Home::fail_all(KeyState& state, const Error& error) {
  for (Waiting& one : state.waiting) refuse(one, error);
  state.waiting.clear();
}

void Home::drop_late(const ObjectName& name, KeyState& state) {
  const uint64_t now = strand_.now_us();
  if (state.unsettled && state.unsettled->deadline <= now) {
    answer(std::move(state.unsettled->done), outcome_unknown(name));
    state.unsettled.reset();
  }
  std::erase_if(state.waiting, [&](Waiting& one) {
    if (one.deadline > now) return false;
    refuse(one,
           make_error(Code::kUnavailable, "the key's holders did not answer in time").with_hint("try again"));
    return true;
  });
}

void Home::step(const ObjectName& name) {
  const auto found = keys_.find(name);
  if (found == keys_.end()) return;
  KeyState& state = found->second;
  if (Status acts = check(state.epoch, name); !acts) {
    KeyState old = std::move(state);
    keys_.erase(found);
    return be_overtaken(name, std::move(old), acts.error());
  }
  drop_late(name, state);
  if (!state.synced) {
    if (!state.asking && (!state.waiting.empty() || state.unsettled)) ask(name, state);
    return;
  }
  while (!state.busy && !state.waiting.empty()) {
    Waiting next = std::move(state.waiting.front());
    state.waiting.pop_front();
    take(name, state, std::move(next));
  }
}

void Home::be_overtaken(const ObjectName& name, KeyState old, const Error& why) {
  std::optional<Unsettled> unsettled = std::move(old.unsettled);
  if (old.busy && old.busy->done)
    unsettled = Unsettled{old.busy->record.version, std::move(old.busy->done), old.busy->deadline};
  fail_all(old, why);
  if (!unsettled) return;
  if (!check(newest().epoch(), name)) return answer(std::move(unsettled->done), outcome_unknown(name));
  KeyState& state = keys_[name];
  state.epoch = newest().epoch();
  state.unsettled = std::move(unsettled);
  step(name);
}

void Home::settle_old(const ObjectName& name, KeyState& state) {
  Unsettled old = std::move(*state.unsettled);
  state.unsettled.reset();
  if (!state.last || state.last->version != old.version)
    return answer(std::move(old.done), outcome_unknown(name));
  // It is there; if it is not whole yet, that is waited for.
  if (state.busy) {
    state.busy->done = std::move(old.done);
    state.busy->deadline = old.deadline;
    return;
  }
  const store::Record* object = object_of(state.last);
  answer(std::move(old.done), Reply(ObjectReply{object == nullptr ? std::nullopt : std::optional(*object)}));
}

void Home::ask(const ObjectName& name, KeyState& state) {
  const auto maps = membership_.maps();
  std::map<uint32_t, std::vector<DriveId>> by_node;
  std::set<DriveId> knowing = may_hold(*maps, name, membership_);
  knowing.insert(state.also.begin(), state.also.end());
  for (const DriveId drive : knowing) {
    // Also where the drive is away: its node may be the home of before, and is to know that it is no more.
    const MapNode* const node = maps->back()->node_of(drive);
    if (node != nullptr && node->is_alive()) by_node[node->number].push_back(drive);
  }
  if (broken("no-sync")) {
    std::erase_if(by_node, [&](const auto& entry) { return entry.first != membership_.self(); });
  }
  state.asking = true;
  state.missed = false;
  state.heard.clear();
  state.to_hear = by_node.size();
  const uint64_t round = state.round = ++rounds_;
  const uint32_t epoch = state.epoch;
  for (auto& [node, drives] : by_node) {
    peers_.call(node, StateRequest{StateRequest::Purpose::kSync, epoch, name, std::move(drives)},
                [this, name, round](Result<Reply> reply) { hear(name, round, std::move(reply)); });
  }
}

void Home::hear(const ObjectName& name, uint64_t round, Result<Reply> reply) {
  const auto found = keys_.find(name);
  if (found == keys_.end() || found->second.round != round || !found->second.asking) return;
  KeyState& state = found->second;
  const StateReply* told = reply ? std::get_if<StateReply>(&*reply) : nullptr;
  if (told == nullptr && !broken("sync-ignores-silent")) state.missed = true;
  if (told != nullptr) {
    for (const StateReply::Held& held : told->drives) state.heard[held.drive] = held.ledger;
  }
  if (--state.to_hear > 0) return;
  state.asking = false;
  Status decided =
      state.missed ? Status(make_error(Code::kUnavailable, "a holder did not answer")) : decide(name, state);
  if (decided) return step(name);
  if (decided.error().is(kUndecided)) fail_all(state, decided.error());
  // Asked again while somebody waits for it.
  strand_.after(kRetryUs, [this, name] { step(name); });
}

Status Home::decide(const ObjectName& name, KeyState& state) {
  bool complete = false;
  state.last.reset();
  std::map<std::string, std::set<unsigned>> slices;  // slots, by write: a move leaves two of one for a while
  for (const auto& [drive, ledger] : state.heard) {
    for (const Prepared& slice : ledger.prepared) slices[slice.spread.write_id].insert(slice.spread.slot);
    if (!ledger.mark) continue;
    const store::Record& record = ledger.mark->record;
    if (ledger.mark->has_slice) slices[record.spread.write_id].insert(record.spread.slot);
    if (state.last && state.last->version > record.version) continue;
    complete = ledger.mark->complete || (complete && state.last->version == record.version);
    state.last = record;
  }
  MR_TRY(check_nothing_hides(name, state));
  if (const store::Record* object = object_of(state.last);
      object != nullptr && slices[object->spread.write_id].size() < object->spread.k) {
    if (find_unasked(state, *object)) return {};
    return make_error(kUndecided, "{}/{}: {} of the {} slices that are needed are there", name.bucket,
                      name.key, slices[object->spread.write_id].size(), object->spread.k)
        .with_hint("bring back a node or drive that holds others: millrace cluster where");
  }
  const bool unfinished = state.last && !complete && !broken("roll-back-marked");
  if (unfinished) MR_TRY(check_finishable(name, state));
  state.synced = true;
  if (unfinished) finish_commit(name, state);
  if (state.unsettled) settle_old(name, state);
  state.heard.clear();
  return {};
}

bool Home::find_unasked(KeyState& state, const store::Record& object) const {
  const size_t before = state.also.size();
  for (const DriveId drive : object.spread.holders) {
    if (!state.heard.contains(drive) && newest().is_alive(drive)) state.also.insert(drive);
  }
  return state.also.size() > before;
}

Status Home::check_nothing_hides(const ObjectName& name, const KeyState& state) const {
  if (broken("ignore-undecided") || broken("no-sync") || broken("sync-ignores-silent")) return {};
  const auto maps = membership_.maps();
  for (const auto& map : *maps) {
    if (state.last && map->epoch() < state.last->version.epoch) continue;  // older writes may hide
    const Redundancy whole = MR_TRY(redundancy_in(*map, name.bucket, membership_));
    if (map->epoch() < whole.since) continue;
    for (const Redundancy& redundancy : {whole, whole.small()}) {
      // Every write that was acknowledged under this map has at least |placed| - k + 1 marks there.
      const std::vector<DriveId> placed = map->place(hash_of(name), redundancy.slices());
      if (placed.size() < redundancy.floor) continue;
      const auto silent =
          std::ranges::count_if(placed, [&](DriveId drive) { return !state.heard.contains(drive); });
      if (static_cast<size_t>(silent) + redundancy.k <= placed.size()) continue;
      return make_error(kUndecided, "{}/{}: {} of the {} drives that know of its newest write are away",
                        name.bucket, name.key, silent, placed.size())
          .with_hint("bring one of them back: millrace cluster status shows which nodes are away");
    }
  }
  return {};
}

Status Home::check_finishable(const ObjectName& name, const KeyState& state) const {
  const store::Record& record = *state.last;
  const auto maps = membership_.maps();
  const auto map =
      std::ranges::find(*maps, record.version.epoch, [](const auto& one) { return one->epoch(); });
  if (map != maps->end()) {
    const std::vector<DriveId> placed = placement_of(**map, name, record);
    const auto heard =
        std::ranges::count_if(placed, [&](DriveId drive) { return state.heard.contains(drive); });
    const bool all = record.deleted || is_foreign(**map, name, record);
    if (static_cast<size_t>(heard) + (all ? 1 : record.spread.k) > placed.size()) return {};
  }
  return check_floor(name, record);
}

void Home::finish_commit(const ObjectName& name, KeyState& state) {
  const store::Record& record = *state.last;
  Busy busy;
  busy.record = record;
  busy.needs_all = true;
  const auto add = [&](DriveId drive) {
    const auto heard = state.heard.find(drive);
    busy.targets[drive] = heard == state.heard.end() || !heard->second.held_slot(record.spread, drive);
  };
  // All whom readers ask must know of it; others only if they are there.
  const auto is_holder = [&](DriveId drive) {
    return std::ranges::find(record.spread.holders, drive) != record.spread.holders.end();
  };
  for (const DriveId drive : placement_of(newest(), name, record)) {
    if (is_holder(drive) || !broken("no-pointer-marks")) add(drive);
  }
  for (const auto& [drive, ledger] : state.heard) {
    if (is_holder(drive) || !broken("no-pointer-marks")) add(drive);
  }
  state.busy = std::move(busy);
  send_marks(name, state);
}

void Home::take(const ObjectName& name, KeyState& state, Waiting waiting) {
  if (waiting.look) {
    strand_.post([look = std::move(waiting.look), last = state.last] { look(last); });
    return;
  }
  if (!waiting.commit) {
    const store::Record* object = object_of(state.last);
    return answer(std::move(waiting.done),
                  Reply(ObjectReply{object == nullptr ? std::nullopt : std::optional(*object)}));
  }
  Result<store::Record> judged = judge(name, state, *waiting.commit);
  if (!judged) return answer(std::move(waiting.done), judged.take_error());
  if (waiting.commit->kind == CommitRequest::Kind::kRemove && object_of(state.last) == nullptr)
    return answer(std::move(waiting.done), Reply(ObjectReply{}));
  Busy busy;
  busy.record = judged.take();
  given_ = busy.record.version.counter;
  busy.targets = targets(name, busy.record);
  busy.needs_all = waiting.commit->kind == CommitRequest::Kind::kRemove ||
                   waiting.commit->kind == CommitRequest::Kind::kTags ||
                   is_foreign(newest(), name, busy.record);
  busy.done = std::move(waiting.done);
  busy.deadline = waiting.deadline;
  state.busy = std::move(busy);
  MR_FAULT("cluster.judged");
  send_marks(name, state);
}

Result<store::Record> Home::judge(const ObjectName& name, const KeyState& state,
                                  const CommitRequest& request) const {
  if (request.kind != CommitRequest::Kind::kRemove) MR_TRY(check_open(membership_, name.bucket));
  const store::Record* object = object_of(state.last);
  MR_TRY(request.condition.judge(name.bucket, name.key, object));
  store::Record record = request.record;
  if (request.kind == CommitRequest::Kind::kTags || request.kind == CommitRequest::Kind::kIndex) {
    if (object == nullptr) return store::no_such_object(name.bucket, name.key);
    record = *object;
  }
  if (request.kind == CommitRequest::Kind::kTags) record.tags = request.record.tags;
  if (request.kind == CommitRequest::Kind::kIndex) MR_TRY(enter_index(record, request.record));
  if (request.kind == CommitRequest::Kind::kMove) {
    if (object == nullptr || object->version != request.record.version)
      return make_error(kHoldersChanged, "{}/{}: it was written again during the move", name.bucket,
                        name.key);
    record = *object;
    record.spread = request.record.spread;
  }
  record.deleted = request.kind == CommitRequest::Kind::kRemove;
  const uint64_t before =
      state.last && state.last->version.epoch == state.epoch ? state.last->version.counter : 0;
  record.version = {state.epoch, std::max(before, given_) + 1, membership_.self()};
  if (record.deleted) record.spread = {};
  MR_TRY(check_floor(name, record));
  if (request.kind == CommitRequest::Kind::kRemove || request.kind == CommitRequest::Kind::kTags)
    return record;

  const auto maps = membership_.maps();
  std::set<DriveId> known = may_hold(*maps, name, membership_);
  // A move may leave slices where they are, on drives that are away.
  if (request.kind == CommitRequest::Kind::kMove)
    known.insert(object->spread.holders.begin(), object->spread.holders.end());
  size_t alive = 0;
  for (const DriveId drive : record.spread.holders) {
    if (!known.contains(drive))
      return make_error(kHoldersChanged, "{}/{}: the map that chose its holders is gone", name.bucket,
                        name.key);
    if (maps->back()->is_alive(drive)) ++alive;
  }
  if (alive + record.spread.k <= record.spread.holders.size()) {
    return make_error(kHoldersChanged, "{}/{}: {} of its {} holders went away during the write", name.bucket,
                      name.key, record.spread.holders.size() - alive, record.spread.holders.size());
  }
  return record;
}

Status Home::check_floor(const ObjectName& name, const store::Record& record) const {
  const Redundancy whole = MR_TRY(redundancy_in(newest(), name.bucket, membership_));
  const size_t floor = size_t{whole.floor} - whole.k + (record.deleted ? 1 : record.spread.k);
  const size_t placed = placement_of(newest(), name, record).size();
  if (placed >= floor) return {};
  return make_error(kUndecided, "{}/{}: {} drives can hold it, at least {} must", name.bucket, name.key,
                    placed, floor)
      .with_hint("bring nodes back: millrace cluster status shows which are away");
}

std::map<DriveId, bool> Home::targets(const ObjectName& name, const store::Record& record) const {
  std::map<DriveId, bool> targets;
  if (!broken("no-pointer-marks")) {
    for (const DriveId drive : placement_of(newest(), name, record)) targets[drive] = true;
  }
  for (const DriveId drive : record.spread.holders) {
    if (newest().is_alive(drive)) targets[drive] = false;
  }
  return targets;
}

bool Home::is_whole(const ObjectName& name, const Busy& busy) const {
  if (busy.needs_all) return busy.marked.size() == busy.targets.size();
  const auto marked = [&](const std::vector<DriveId>& drives) {
    return static_cast<size_t>(
        std::ranges::count_if(drives, [&](DriveId d) { return busy.marked.contains(d); }));
  };
  const store::Spread& spread = busy.record.spread;
  if (marked(spread.holders) + spread.k <= spread.holders.size()) return false;
  if (broken("no-pointer-marks")) return true;
  const std::vector<DriveId> placed = placement_of(newest(), name, busy.record);
  return marked(placed) + spread.k > placed.size();
}

void Home::send_marks(const ObjectName& name, KeyState& state) {
  Busy& busy = *state.busy;
  const store::Version version = busy.record.version;
  std::vector<std::pair<uint32_t, MarkRequest>> marks;
  const auto maps = membership_.maps();
  for (const auto& [drive, pointer] : busy.targets) {
    const MapNode* node = maps->back()->node_of(drive);
    if (busy.marked.contains(drive) || busy.asked.contains(drive) || node == nullptr) continue;
    busy.asked.insert(drive);
    marks.emplace_back(node->number, MarkRequest{state.epoch, drive, name, busy.record, pointer});
  }
  if (broken("ack-after-home-mark") || busy.targets.empty()) settle(name, state);
  for (auto& [node, request] : marks) {
    const DriveId drive = request.drive;
    peers_.call(node, std::move(request), [this, name, version, drive](Result<Reply> reply) {
      hear_mark(name, version, drive, std::move(reply));
    });
  }
  // Those who did not answer are asked again; who waits too long is told that the outcome is unknown.
  strand_.after(kRetryUs, [this, name, version] {
    const auto found = keys_.find(name);
    if (found == keys_.end() || !found->second.busy || found->second.busy->record.version != version) return;
    Busy& late = *found->second.busy;
    if (late.done && late.deadline <= strand_.now_us())
      answer(std::exchange(late.done, nullptr), outcome_unknown(name));
    step(name);
    const auto still = keys_.find(name);
    if (still != keys_.end() && still->second.busy && still->second.busy->record.version == version)
      send_marks(name, still->second);
  });
}

void Home::hear_mark(const ObjectName& name, store::Version version, DriveId drive, Result<Reply> reply) {
  const auto found = keys_.find(name);
  if (found == keys_.end() || !found->second.busy || found->second.busy->record.version != version) return;
  KeyState& state = found->second;
  state.busy->asked.erase(drive);
  if (!reply && reply.error().is(kMarkRefused)) {
    // The slice is not there any more, or somebody knows a newer write: what the drives know decides.
    const Busy refused = std::move(*state.busy);
    state.busy.reset();
    state.synced = false;
    if (refused.done) answer(refused.done, outcome_unknown(name));
    return step(name);
  }
  if (!reply) return step(name);
  state.busy->marked.insert(drive);
  if (!is_whole(name, *state.busy)) return;
  // Only who still acts for the key may say that the write is there.
  if (Status acts = check(state.epoch, name); !acts) return step(name);
  // Whoever removes the bucket may have looked before.
  Busy& busy = *state.busy;
  if (busy.done && !busy.record.deleted && membership_.is_closing(name.bucket))
    answer(std::exchange(busy.done, nullptr), outcome_unknown(name));
  settle(name, state);
  step(name);
}

void Home::settle(const ObjectName& name, KeyState& state) {
  Busy busy = std::move(*state.busy);
  state.busy.reset();
  const std::optional<store::Record> before = std::exchange(state.last, busy.record);
  const store::Record* const old = object_of(before);
  if (replaced_ && old != nullptr && old->spread.write_id != busy.record.spread.write_id)
    replaced_(name, *old);
  const auto maps = membership_.maps();
  for (const auto& [drive, pointer] : busy.targets) {
    const MapNode* node = maps->back()->node_of(drive);
    // It only spares work later: nobody waits for it.
    if (node != nullptr)
      peers_.call(node->number, CompleteRequest{drive, name, busy.record.version}, [](Result<Reply>) {});
  }
  if (!busy.done) return;
  answer(std::move(busy.done),
         Reply(ObjectReply{busy.record.deleted ? std::nullopt : std::optional(busy.record)}));
}

std::vector<DriveId> Home::placement_of(const Map& map, const ObjectName& name,
                                        const store::Record& record) const {
  if (record.deleted) return place_object(map, name, membership_);
  size_t count = size_t{record.spread.k} + record.spread.m;
  if (is_foreign(map, name, record)) {
    const auto whole = redundancy_in(map, name.bucket, membership_);
    if (whole) count = std::max(count, whole->slices());
  }
  return map.place(hash_of(name), count);
}

bool Home::is_foreign(const Map& map, const ObjectName& name, const store::Record& record) const {
  const auto whole = redundancy_in(map, name.bucket, membership_);
  return whole && is_spread_otherwise(record, *whole);
}

}  // namespace millrace::cluster
