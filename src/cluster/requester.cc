// Asks holders and homes by the newest map, and asks again while that helps.
#include "cluster/requester.h"

#include <algorithm>

#include "base/fault.h"
#include "cluster/places.h"
#include "cluster/reasons.h"
#include "store/reasons.h"

namespace millrace::cluster {

namespace {

// Whoever was asked said that he did nothing and will do nothing.
bool is_refusal(const Error& error) {
  return error.is(kOldEpoch) || error.is(kNotHome) || error.is(kNotDelivered);
}

}  // namespace

bool did_nothing(const Error& error) {
  return is_refusal(error) || error.is(kHoldersChanged) || error.is(kUndecided) || error.is(kClosing) ||
         error.is(store::kConditionFailed) || error.is(store::kNoSuchObject);
}

// One read on its way.
struct Requester::Finding {
  ObjectName name;
  Done<std::optional<FoundObject>> done;
  uint64_t deadline = 0;
  uint64_t attempt = 0;              // an answer to an earlier one counts no more: it may be a drive's second
  std::shared_ptr<const Maps> maps;  // of this attempt
  std::vector<DriveId> left;         // holders that were not asked yet, the best at the end
  size_t wanted = 0;                 // answers
  size_t asked = 0;                  // and no answer yet
  std::vector<Ledger> heard;
  bool at_home = false;  // the holders could not say it
};

Status Requester::check_lease() const {
  if (membership_.has_lease()) return {};
  // Others would refuse what it asks, or cannot be reached: that takes them longer to say.
  return make_error(Code::kUnavailable, "this node has lost its lease: it does not reach the registry")
      .with_hint("ask another node; millrace cluster status says which ones serve");
}

Result<store::Spread> Requester::choose_spread(const ObjectName& name, Size size) const {
  MR_TRY(check_lease());
  MR_TRY(check_open(membership_, name.bucket));
  const auto maps = membership_.maps();
  Redundancy redundancy = MR_TRY(redundancy_in(*maps->back(), name.bucket, membership_));
  if (size == Size::kSmall) redundancy = redundancy.small();
  store::Spread spread;
  spread.k = redundancy.k;
  spread.m = redundancy.m;
  spread.holders = maps->back()->place_new(hash_of(name), redundancy.slices());
  if (spread.holders.size() < redundancy.floor) {
    const size_t serving = maps->back()->place(hash_of(name), redundancy.slices()).size();
    if (serving >= redundancy.floor)
      return make_error(Code::kNoSpace,
                        "{}/{}: {} drives have room, its bucket wants {} and at least {}: others are full",
                        name.bucket, name.key, spread.holders.size(), redundancy.slices(), redundancy.floor)
          .with_hint("remove objects, or add drives or nodes: millrace cluster status shows which are full");
    return make_error(Code::kUnavailable, "{}/{}: {} drives can hold it, its bucket wants {} and at least {}",
                      name.bucket, name.key, spread.holders.size(), redundancy.slices(), redundancy.floor)
        .with_hint("bring nodes back or lower the bucket's floor: millrace cluster status");
  }
  return spread;
}

void Requester::find(ObjectName name, Done<std::optional<FoundObject>> done) {
  const auto finding = std::make_shared<Finding>();
  finding->name = std::move(name);
  finding->done = std::move(done);
  finding->deadline = strand_.now_us() + kPatienceUs;
  peek(finding);
}

void Requester::peek(std::shared_ptr<Finding> finding) {
  if (Status has = check_lease(); !has) return std::exchange(finding->done, nullptr)(has.take_error());
  ++finding->attempt;
  finding->maps = membership_.maps();
  const auto redundancy = redundancy_in(*finding->maps->back(), finding->name.bucket, membership_);
  if (!redundancy) return finding->done(redundancy.error().copy());
  finding->heard.clear();
  finding->asked = 0;
  finding->at_home = false;
  finding->wanted = redundancy->k;
  finding->left = place_object(*finding->maps->back(), finding->name, membership_);
  const Map& map = *finding->maps->back();
  // Other nodes in any order, so that no holder gets all readers; this node's own drives first, grey nodes
  // last.
  for (size_t i = finding->left.size(); i > 1; --i)
    std::swap(finding->left[i - 1], finding->left[strand_.random() % i]);
  const auto worth = [&](DriveId drive) {
    const uint32_t node = map.node_of(drive)->number;
    return node == membership_.self() ? 2 : peers_.is_grey(node) ? 0 : 1;
  };
  std::ranges::sort(finding->left, {}, worth);
  const size_t first = std::min(finding->wanted, finding->left.size());
  if (first < finding->wanted) return ask_home(finding);
  for (size_t i = 0; i < first; ++i) peek_next(finding);
  overtake_slow(finding);
}

void Requester::overtake_slow(const std::shared_ptr<Finding>& finding) {
  const uint64_t attempt = finding->attempt;
  strand_.after(kSlowUs, [this, weak = std::weak_ptr(finding), attempt] {
    const auto slow = weak.lock();
    if (slow == nullptr || slow->attempt != attempt || slow->at_home || !slow->done || slow->left.empty())
      return;
    peek_next(slow);
    overtake_slow(slow);
  });
}

void Requester::peek_next(const std::shared_ptr<Finding>& finding) {
  if (finding->left.empty()) return;
  const DriveId drive = finding->left.back();
  finding->left.pop_back();
  ++finding->asked;
  const Map& map = *finding->maps->back();
  const uint64_t attempt = finding->attempt;
  peers_.call(map.node_of(drive)->number,
              StateRequest{StateRequest::Purpose::kPeek, map.epoch(), finding->name, {drive}},
              [this, finding, attempt](Result<Reply> reply) {
                if (finding->attempt != attempt || finding->at_home || !finding->done) return;
                --finding->asked;
                const StateReply* told = reply ? std::get_if<StateReply>(&*reply) : nullptr;
                if (told != nullptr && told->drives.size() == 1) {
                  finding->heard.push_back(told->drives.front().ledger);
                } else if (!reply && reply.error().is(kOldEpoch)) {
                  membership_.look_again();
                  return find_again(finding, reply.take_error());
                } else {
                  peek_next(finding);
                }
                if (finding->heard.size() >= finding->wanted) return judge_peeks(finding);
                if (finding->asked == 0) ask_home(finding);
              });
}

void Requester::judge_peeks(const std::shared_ptr<Finding>& finding) {
  const Mark* best = nullptr;
  for (const Ledger& ledger : finding->heard) {
    if (!ledger.mark || (best != nullptr && best->record.version > ledger.mark->record.version)) continue;
    if (best == nullptr || ledger.mark->complete || best->record.version < ledger.mark->record.version)
      best = &*ledger.mark;
  }
  const bool sure = best != nullptr && (best->complete || broken("quorum-read-unfinished"));
  if (!sure || !(broken("quorum-read-any-map") ||
                 is_settled_since(best->record.version.epoch, *finding->maps, finding->name, membership_)))
    return ask_home(finding);
  const Done<std::optional<FoundObject>> done = std::exchange(finding->done, nullptr);
  if (best->record.deleted) return done(std::optional<FoundObject>());
  FoundObject found{best->record, std::nullopt};
  for (const Ledger& ledger : finding->heard) {
    if (const std::string* bytes = ledger.find_bytes(best->record.spread.write_id)) found.bytes = *bytes;
  }
  done(std::optional(std::move(found)));
}

void Requester::ask_home(const std::shared_ptr<Finding>& finding) {
  finding->at_home = true;
  const Map& map = *finding->maps->back();
  const uint32_t home = map.home(hash_of(finding->name));
  if (home == 0)
    return find_again(finding, make_error(Code::kUnavailable, "the cluster has no drive that serves"));
  peers_.call(home, FindRequest{map.epoch(), finding->name}, [this, finding](Result<Reply> reply) {
    if (!reply) return find_again(finding, reply.take_error());
    const auto* told = std::get_if<ObjectReply>(&*reply);
    if (told == nullptr)
      return find_again(finding, make_error(Code::kUnavailable, "the home answered nonsense"));
    std::optional<FoundObject> found;
    if (told->record) found = FoundObject{*told->record, std::nullopt};
    std::exchange(finding->done, nullptr)(std::move(found));
  });
}

void Requester::find_again(const std::shared_ptr<Finding>& finding, Error error) {
  if (!finding->done) return;
  finding->at_home = true;  // late answers of holders count no more
  if (error.is(kUndecided) || error.code() != Code::kUnavailable || strand_.now_us() >= finding->deadline)
    return std::exchange(finding->done, nullptr)(std::move(error));
  if (error.is(kOldEpoch)) membership_.look_again();
  strand_.after(kRetryUs, [this, finding] { peek(finding); });
}

void Requester::put(CommitRequest request, std::vector<std::string> slices, Done<store::Record> done) {
  struct Preparing {
    CommitRequest request;
    Done<store::Record> done;
    size_t left = 0;
    std::optional<Error> error;
  };
  const auto preparing = std::make_shared<Preparing>();
  preparing->request = std::move(request);
  preparing->done = std::move(done);
  const store::Spread spread = preparing->request.record.spread;
  preparing->left = broken("mark-without-all-slices") ? spread.k : spread.holders.size();
  const auto maps = membership_.maps();
  const auto end = [this, preparing](Result<Reply> reply) {
    if (preparing->left == 0) return;
    if (!reply && !preparing->error) preparing->error = reply.take_error();
    if (--preparing->left > 0) return;
    if (preparing->error) {
      // Without a commit it did not happen and never will.
      drop(preparing->request.name, preparing->request.record.spread);
      return preparing->done(Error(kHoldersChanged, preparing->error->message()));
    }
    commit(std::move(preparing->request), [preparing](Result<std::optional<store::Record>> committed) {
      if (!committed) return preparing->done(committed.take_error());
      preparing->done(*committed.take());
    });
  };
  for (size_t slot = 0; slot < spread.holders.size(); ++slot) {
    const MapNode* node = maps->back()->node_of(spread.holders[slot]);
    if (node == nullptr) {
      end(make_error(kOldEpoch, "a holder is no longer in the map"));
      continue;
    }
    PrepareRequest prepare{spread.holders[slot], preparing->request.name, spread, std::move(slices[slot])};
    prepare.spread.slot = static_cast<uint8_t>(slot);
    prepare.inlined = !has_slice_beside(preparing->request.record);
    peers_.call(node->number, std::move(prepare), end);
  }
}

void Requester::commit(CommitRequest request, Done<std::optional<store::Record>> done) {
  if (Status has = check_lease(); !has) {
    // Nobody was asked to commit it.
    if (request.kind == CommitRequest::Kind::kPut) drop(request.name, request.record.spread);
    return done(has.take_error());
  }
  const auto shared = std::make_shared<const CommitRequest>(std::move(request));
  const auto end = [this, shared, done = std::move(done)](Result<std::optional<store::Record>> committed) {
    const bool has_slices =
        shared->kind == CommitRequest::Kind::kPut || shared->kind == CommitRequest::Kind::kMove;
    if (!committed && has_slices && did_nothing(committed.error())) drop(shared->name, shared->record.spread);
    done(std::move(committed));
  };
  commit_until(shared, strand_.now_us() + kPatienceUs, end);
}

void Requester::drop(const ObjectName& name, const store::Spread& spread) {
  const auto maps = membership_.maps();
  for (size_t slot = 0; slot < spread.holders.size(); ++slot) {
    const MapNode* node = maps->back()->node_of(spread.holders[slot]);
    if (node == nullptr) continue;
    DropRequest request{spread.holders[slot], name, spread};
    request.spread.slot = static_cast<uint8_t>(slot);
    peers_.call(node->number, std::move(request), [](Result<Reply>) {});
  }
}

void Requester::commit_until(std::shared_ptr<const CommitRequest> request, uint64_t deadline,
                             Done<std::optional<store::Record>> done) {
  const auto maps = membership_.maps();
  const uint32_t home = maps->back()->home(hash_of(request->name));
  CommitRequest sent = *request;
  sent.epoch = maps->back()->epoch();
  if (home == 0) return done(make_error(Code::kUnavailable, "the cluster has no drive that serves"));
  peers_.call(home, std::move(sent), [this, request, deadline, done = std::move(done)](Result<Reply> reply) {
    if (reply) {
      const auto* told = std::get_if<ObjectReply>(&*reply);
      if (told == nullptr) return done(make_error(kOutcomeUnknown, "the home answered nonsense"));
      return done(told->record);
    }
    // A refusal promises that nothing was and nothing will be done; silence promises nothing.
    const bool may_repeat = is_refusal(reply.error()) || broken("double-commit");
    if (!may_repeat || strand_.now_us() >= deadline) return done(reply.take_error());
    membership_.look_again();
    strand_.after(kRetryUs, [this, request, deadline, done] { commit_until(request, deadline, done); });
  });
}

}  // namespace millrace::cluster
