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

}  // namespace

void Home::commit(CommitRequest request, Done<Reply> done) {
  if (Status acts = check(request.epoch, request.name); !acts) return done(acts.take_error());
  const ObjectName name = request.name;
  queue(name, {std::move(request), std::move(done), 0});
}

void Home::find(FindRequest request, Done<Reply> done) {
  if (Status acts = check(request.epoch, request.name); !acts) return done(acts.take_error());
  queue(request.name, {std::nullopt, std::move(done), 0});
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

void Home::fail_all(KeyState& state, const Error& error) {
  for (Waiting& one : state.waiting) answer(std::move(one.done), error.copy());
  state.waiting.clear();
}

void Home::drop_late(KeyState& state) {
  const uint64_t now = strand_.now_us();
  std::erase_if(state.waiting, [&](Waiting& one) {
    if (one.deadline > now) return false;
    answer(std::move(one.done),
           make_error(Code::kUnavailable, "the key's holders did not answer in time").with_hint("try again"));
    return true;
  });
}

void Home::step(const ObjectName& name) {
  const auto found = keys_.find(name);
  if (found == keys_.end()) return;
  KeyState& state = found->second;
  if (Status acts = check(state.epoch, name); !acts) {
    // Overtaken: whatever is under way here, the next home finds it by its sync.
    KeyState old = std::move(state);
    keys_.erase(found);
    if (old.busy && old.busy->done) answer(std::move(old.busy->done), outcome_unknown(name));
    fail_all(old, acts.error());
    return;
  }
  drop_late(state);
  if (!state.synced) {
    if (!state.asking && !state.waiting.empty()) ask(name, state);
    return;
  }
  while (!state.busy && !state.waiting.empty()) {
    Waiting next = std::move(state.waiting.front());
    state.waiting.pop_front();
    take(name, state, std::move(next));
  }
}

void Home::ask(const ObjectName& name, KeyState& state) {
  const auto maps = membership_.maps();
  std::map<uint32_t, std::vector<DriveId>> by_node;
  for (const DriveId drive : may_hold(*maps, name, membership_)) {
    if (maps->back()->is_alive(drive)) by_node[maps->back()->node_of(drive)->number].push_back(drive);
  }
  if (broken("no-sync")) {
    std::erase_if(by_node, [&](const auto& entry) { return entry.first != membership_.self(); });
  }
  state.asking = true;
  state.missed = false;
  state.heard.clear();
  state.to_hear = by_node.size();
  const uint64_t round = ++state.round;
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
  std::map<std::string, size_t> slices;  // by write
  for (const auto& [drive, ledger] : state.heard) {
    for (const Prepared& slice : ledger.prepared) ++slices[slice.spread.write_id];
    if (!ledger.mark) continue;
    const store::Record& record = ledger.mark->record;
    if (ledger.mark->has_slice) ++slices[record.spread.write_id];
    if (state.last && state.last->version > record.version) continue;
    complete = ledger.mark->complete || (complete && state.last->version == record.version);
    state.last = record;
  }
  MR_TRY(check_nothing_hides(name, state));
  if (const store::Record* object = object_of(state.last);
      object != nullptr && slices[object->spread.write_id] < object->spread.k) {
    return make_error(kUndecided, "{}/{}: {} of the {} slices that are needed are there", name.bucket,
                      name.key, slices[object->spread.write_id], object->spread.k)
        .with_hint("bring back a node or drive that holds others: millrace cluster where");
  }
  const bool unfinished = state.last && !complete && !broken("roll-back-marked");
  if (unfinished) MR_TRY(check_finishable(name, state));
  state.synced = true;
  if (unfinished) finish_commit(name, state);
  state.heard.clear();
  return {};
}

Status Home::check_nothing_hides(const ObjectName& name, const KeyState& state) const {
  if (broken("ignore-undecided") || broken("no-sync") || broken("sync-ignores-silent")) return {};
  const Redundancy whole = MR_TRY(membership_.redundancy(name.bucket));
  const auto maps = membership_.maps();
  for (const auto& map : *maps) {
    if (state.last && map->epoch() < state.last->version.epoch) continue;  // older writes may hide
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
    if (static_cast<size_t>(heard) + (record.deleted ? 1 : record.spread.k) > placed.size()) return {};
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
    busy.targets[drive] = heard == state.heard.end() || !heard->second.has_slice(record.spread.write_id);
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
  busy.targets = targets(name, busy.record);
  busy.needs_all = waiting.commit->kind != CommitRequest::Kind::kPut;
  busy.done = std::move(waiting.done);
  busy.deadline = waiting.deadline;
  state.busy = std::move(busy);
  MR_FAULT("cluster.judged");
  send_marks(name, state);
}

Result<store::Record> Home::judge(const ObjectName& name, const KeyState& state,
                                  const CommitRequest& request) const {
  const store::Record* object = object_of(state.last);
  MR_TRY(request.condition.judge(name.bucket, name.key, object));
  store::Record record = request.record;
  if (request.kind == CommitRequest::Kind::kTags) {
    if (object == nullptr) return store::no_such_object(name.bucket, name.key);
    record = *object;
    record.tags = request.record.tags;
  }
  record.deleted = request.kind == CommitRequest::Kind::kRemove;
  const uint64_t before =
      state.last && state.last->version.epoch == state.epoch ? state.last->version.counter : 0;
  record.version = {state.epoch, before + 1, membership_.self()};
  if (record.deleted) record.spread = {};
  MR_TRY(check_floor(name, record));
  if (request.kind != CommitRequest::Kind::kPut) return record;

  const auto maps = membership_.maps();
  const std::set<DriveId> known = may_hold(*maps, name, membership_);
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
  const Redundancy whole = MR_TRY(membership_.redundancy(name.bucket));
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
  if (!reply) return step(name);
  state.busy->marked.insert(drive);
  if (!is_whole(name, *state.busy)) return;
  // Only who still acts for the key may say that the write is there.
  if (Status acts = check(state.epoch, name); !acts) return step(name);
  settle(name, state);
  step(name);
}

void Home::settle(const ObjectName& name, KeyState& state) {
  Busy busy = std::move(*state.busy);
  state.busy.reset();
  state.last = busy.record;
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
  return map.place(hash_of(name), size_t{record.spread.k} + record.spread.m);
}

}  // namespace millrace::cluster
