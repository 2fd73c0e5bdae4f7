// Look, ask, make slices, commit, tell, let go; and again until nothing is left to do.
#include "cluster/mender.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/fault.h"
#include "cluster/home.h"
#include "cluster/places.h"
#include "cluster/reasons.h"
#include "cluster/requester.h"

namespace millrace::cluster {

namespace {

constexpr uint64_t kRateUs = 2'000'000;  // over which bytes a second are counted

Error not_yet(const ObjectName& name) {
  return make_error(kNotYet, "{}/{}: a slice waits for its drive to come back, or for a drive to move to",
                    name.bucket, name.key);
}

}  // namespace

// One key being mended.
struct Mender::Job {
  ObjectName name;
  std::set<DriveId> also;  // drives to be asked though no map names them
  std::vector<Done<Reply>> done;
  // They came when drives had been asked already, perhaps by an older map and not the drive that they name:
  // what the job finds is no answer to them.
  std::vector<std::pair<MendRequest, Done<Reply>>> later;
  unsigned rounds = 0;
  bool changed = false;
  // Of this round.
  uint32_t epoch = 0;  // of the map by which drives are asked
  std::optional<store::Record> last;
  std::map<DriveId, Ledger> heard;
  std::set<DriveId> asked;
  size_t to_hear = 0;
  size_t wanted = 0;  // slots
  Mending mending;
  size_t built = 0;  // of mending.builds
};

void Mender::set_builder(SliceBuilder& builder, MenderOptions options) {
  builder_ = &builder;
  options_ = options;
}

void Mender::mend(MendRequest request, Done<Reply> done) {
  const auto maps = membership_.maps();
  if (request.epoch != maps->back()->epoch()) {
    if (request.epoch > maps->back()->epoch()) membership_.look_again();
    return done(
        make_error(kOldEpoch, "asked in epoch {}, this node knows {}", request.epoch, maps->back()->epoch()));
  }
  if (const auto begun = jobs_.find(request.name); begun != jobs_.end()) {
    Job& job = *begun->second;
    if (!broken("join-mending")) {
      job.later.emplace_back(std::move(request), std::move(done));
      return;
    }
    job.also.insert(request.drive);
    job.done.push_back(std::move(done));
    return;
  }
  const auto job = std::make_shared<Job>();
  jobs_[request.name] = job;
  job->name = request.name;
  if (request.drive != 0) job->also.insert(request.drive);
  job->done.push_back(std::move(done));
  begin(job);
}

void Mender::begin(const JobPointer& job) {
  {
    const MutexLock lock(mutex_);
    ++counts_.under_way;
  }
  look(job);
}

void Mender::adopt_map() {
  const auto maps = membership_.maps();
  std::map<DriveId, uint64_t> away;
  for (const MapNode& node : maps->back()->nodes()) {
    for (const MapDrive& drive : node.drives) {
      const DriveId id = drive.hash();
      const bool gone = node.state == NodeState::kGone || drive.state == DriveStanding::kGone;
      if (gone || maps->back()->is_alive(id)) continue;
      const auto known = away_since_.find(id);
      away[id] = known == away_since_.end() ? strand_.now_us() : known->second;
    }
  }
  away_since_ = std::move(away);
}

bool Mender::may_return(DriveId drive) const {
  // It is there and did not answer: it is asked again.
  if (membership_.maps()->back()->is_alive(drive)) return true;
  const auto away = away_since_.find(drive);
  return away != away_since_.end() && strand_.now_us() < away->second + options_.grace_us;
}

bool Mender::is_outlived(const store::Record& last) const {
  return last.deleted && last.version.epoch < membership_.maps()->front()->epoch();
}

bool Mender::is_doubted(const Job& job) const {
  // Where nothing is away, older maps are closed soon.
  return !job.last->deleted && !away_since_.empty() &&
         !is_settled_since(job.last->version.epoch, *membership_.maps(), job.name, membership_);
}

void Mender::look(const JobPointer& job) {
  if (++job->rounds > kMostRounds)
    return end(job, make_error(Code::kUnavailable, "{}/{}: it is not in order after {} attempts",
                               job->name.bucket, job->name.key, kMostRounds));
  home_.look(job->name, [this, job](Result<std::optional<store::Record>> last) {
    if (!last) return end(job, last.take_error());
    job->last = last.take();
    ask_drives(job);
  });
}

void Mender::ask_drives(const JobPointer& job) {
  const auto maps = membership_.maps();
  job->epoch = maps->back()->epoch();
  std::set<DriveId> drives = may_hold(*maps, job->name, membership_);
  drives.insert(job->also.begin(), job->also.end());
  if (job->last) drives.insert(job->last->spread.holders.begin(), job->last->spread.holders.end());
  std::map<uint32_t, std::vector<DriveId>> by_node;
  for (const DriveId drive : drives) {
    if (maps->back()->is_alive(drive)) by_node[maps->back()->node_of(drive)->number].push_back(drive);
  }
  job->heard.clear();
  job->asked.clear();
  for (const auto& [node, of_node] : by_node) job->asked.insert(of_node.begin(), of_node.end());
  job->to_hear = by_node.size();
  if (by_node.empty())
    return end(job, make_error(Code::kUnavailable, "the cluster has no drive that serves"));
  for (auto& [node, of_node] : by_node) {
    StateRequest request{StateRequest::Purpose::kPeek, maps->back()->epoch(), job->name, std::move(of_node)};
    peers_.call(node, std::move(request), [this, job](Result<Reply> reply) {
      auto* told = reply ? std::get_if<StateReply>(&*reply) : nullptr;
      if (told != nullptr) {
        for (StateReply::Held& held : told->drives) job->heard[held.drive] = std::move(held.ledger);
      }
      if (--job->to_hear == 0) hear(job);
    });
  }
}

void Mender::hear(const JobPointer& job) {
  // Other drives may have to be asked by the map that came meanwhile.
  if (job->epoch != membership_.maps()->back()->epoch() && !broken("join-mending")) return look(job);
  // One that did not answer may know an old write. If the others forgot its removal now, it would come back.
  const auto silent = [&](DriveId drive) { return !job->heard.contains(drive); };
  if (std::ranges::any_of(job->asked, silent))
    return end(job, make_error(kNotYet, "{}/{}: a drive that may know of it did not answer", job->name.bucket,
                               job->name.key));
  if (!job->last) return hear_of_nothing(job);
  const auto maps = membership_.maps();
  const std::vector<DriveId> readers = place_object(*maps->back(), job->name, membership_);
  const auto whole = redundancy_in(*maps->back(), job->name.bucket, membership_);
  if (!whole) return end(job, whole.error().copy());
  const Redundancy redundancy = job->last->deleted ? *whole : redundancy_for(*job->last, *whole);
  job->wanted = redundancy.slices();
  const std::vector<DriveId> placement = maps->back()->place(hash_of(job->name), job->wanted);
  if (!job->last->deleted && job->last->spread.k != redundancy.k) return recode(job);
  const std::vector<DriveId> takers = maps->back()->place_new(hash_of(job->name), job->wanted);
  act(job, plan_mending({*job->last, placement, job->wanted, takers, readers, job->heard,
                         [this](DriveId drive) { return may_return(drive); }}));
}

// The home knows of no write at all: whoever knows one has a tombstone that the others let go already.
void Mender::hear_of_nothing(const JobPointer& job) {
  std::vector<DriveId> rests;
  for (const auto& [drive, ledger] : job->heard) {
    if (!ledger.mark) continue;
    if (!is_outlived(ledger.mark->record))
      return end(job,
                 make_error(Code::kUnavailable, "{}/{}: drive {:016x} knows a write that its home does not",
                            job->name.bucket, job->name.key, drive));
    job->last = ledger.mark->record;
    rests.push_back(drive);
  }
  if (rests.empty()) return end(job, {});
  let_go(job, rests);
}

void Mender::act(const JobPointer& job, Mending mending) {
  job->mending = std::move(mending);
  job->built = 0;
  const Mending& plan = job->mending;
  if (is_outlived(*job->last)) {
    std::vector<DriveId> knowing;
    for (const auto& [drive, ledger] : job->heard) {
      if (ledger.mark) knowing.push_back(drive);
    }
    return let_go(job, knowing);
  }
  if (broken("let-go-first") && !plan.strays.empty()) return let_go(job, plan.strays);
  const bool lacks = !plan.builds.empty();
  if (lacks && plan.slices < job->last->spread.k)
    return end(job, make_error(kTooFewSlices, "{}/{}: {} of the {} slices that are needed can be reached",
                               job->name.bucket, job->name.key, plan.slices, job->last->spread.k));
  if (lacks && builder_ == nullptr)
    return end(job, make_error(kNotYet, "this node does not make slices yet"));
  if (lacks) return build_next(job);
  if (plan.moves || (!plan.waits && is_doubted(*job))) return commit(job);
  if (!plan.unmarked.empty() || !plan.incomplete.empty()) return tell_marks(job);
  // Whoever waits for a drive may need every slice that is there.
  if (!plan.waits) drop(*job, plan.superfluous);
  if (!plan.strays.empty()) return let_go(job, plan.strays);
  end(job, plan.waits ? Status(not_yet(job->name)) : Status());
}

void Mender::recode(const JobPointer& job) {
  if (builder_ == nullptr) return end(job, make_error(kNotYet, "this node does not make slices yet"));
  builder_->recode(job->name, *job->last, [this, job](Result<uint64_t> recoded) {
    if (!recoded) return end(job, recoded.take_error());
    job->changed = true;
    count_built(*recoded);
    look(job);
  });
}

void Mender::build_next(const JobPointer& job) {
  if (job->built == job->mending.builds.size()) return commit(job);
  build(job, job->mending.builds[job->built]);
}

void Mender::build(const JobPointer& job, const Mending::Slice& build) {
  store::Spread spread = job->last->spread;
  spread.slot = static_cast<uint8_t>(build.slot);
  spread.m = static_cast<uint8_t>(job->wanted - spread.k);
  spread.holders = job->mending.holders;
  if (has_slice_beside(*job->last)) {
    // The builder rests by itself.
    return builder_->build(
        {job->name, *job->last, std::move(spread), build.drive},
        [this, job](Result<uint64_t> built) { hear_built(job, strand_.now_us(), std::move(built)); });
  }
  const uint64_t began_us = strand_.now_us();
  // The bytes are in the ledgers: any of them has all.
  PrepareRequest request{build.drive, job->name, spread, "", true};
  for (const auto& [drive, ledger] : job->heard) {
    if (const std::string* bytes = ledger.find_bytes(spread.write_id)) request.bytes = *bytes;
  }
  const uint64_t size = request.bytes.size();
  const MapNode* node = membership_.maps()->back()->node_of(build.drive);
  if (node == nullptr) return end(job, make_error(kOldEpoch, "a holder is no longer in the map"));
  peers_.call(node->number, std::move(request), [this, job, began_us, size](Result<Reply> reply) {
    hear_built(job, began_us, reply ? Result<uint64_t>(size) : reply.take_error());
  });
}

void Mender::hear_built(const JobPointer& job, uint64_t began_us, Result<uint64_t> built) {
  if (!built) {
    drop(*job, {job->mending.builds[job->built]});
    return end(job, built.take_error());
  }
  ++job->built;
  job->changed = true;
  count_built(*built);
  rest(began_us, [this, job] { build_next(job); });
}

void Mender::count_built(uint64_t bytes) {
  const MutexLock lock(mutex_);
  ++counts_.built;
  counts_.built_bytes += bytes;
  const uint64_t now = strand_.now_us();
  if (now < rate_since_us_ + kRateUs) return;
  counts_.bytes_per_second = (counts_.built_bytes - rate_bytes_) * 1'000'000 / (now - rate_since_us_);
  rate_since_us_ = now;
  rate_bytes_ = counts_.built_bytes;
}

void Mender::rest(uint64_t began_us, std::function<void()> then) {
  strand_.after(options_.rest_us(strand_.now_us() - began_us), std::move(then));
}

void Mender::commit(const JobPointer& job) {
  CommitRequest request{
      CommitRequest::Kind::kMove, membership_.maps()->back()->epoch(), job->name, *job->last, {}};
  request.record.spread.holders = job->mending.holders;
  request.record.spread.m = static_cast<uint8_t>(job->wanted - request.record.spread.k);
  request.record.spread.slot = 0;  // each holder knows its own; there may be fewer of them now
  MR_FAULT("cluster.built");
  home_.commit(std::move(request), [this, job](Result<Reply> committed) {
    job->changed = true;
    if (committed) return look(job);
    if (did_nothing(committed.error())) drop(*job, job->mending.builds);
    end(job, committed.take_error());
  });
}

void Mender::tell_marks(const JobPointer& job) {
  const uint32_t epoch = membership_.maps()->back()->epoch();
  job->changed = true;
  const auto mark = [job, epoch](DriveId drive) -> Request {
    return MarkRequest{epoch, drive, job->name, *job->last, true};
  };
  tell(job->mending.unmarked, mark, [this, job](bool) {
    std::vector<DriveId> drives = job->mending.unmarked;
    drives.insert(drives.end(), job->mending.incomplete.begin(), job->mending.incomplete.end());
    const auto complete = [job](DriveId drive) -> Request {
      return CompleteRequest{drive, job->name, job->last->version};
    };
    tell(drives, complete, [this, job](bool) { look(job); });
  });
}

void Mender::let_go(const JobPointer& job, const std::vector<DriveId>& drives) {
  const uint32_t epoch = membership_.maps()->back()->epoch();
  const auto forget = [job, epoch](DriveId drive) -> Request {
    return ForgetRequest{epoch, drive, job->name, job->last->version};
  };
  tell(drives, forget, [this, job, count = drives.size()](bool well) {
    if (!well)
      return end(job, make_error(Code::kUnavailable, "{}/{}: an old place did not let it go",
                                 job->name.bucket, job->name.key));
    {
      const MutexLock lock(mutex_);
      counts_.forgotten += count;
    }
    const bool waits = job->mending.waits;
    end(job, waits ? Status(not_yet(job->name)) : Status());
  });
}

void Mender::drop(const Job& job, const std::vector<Mending::Slice>& slices) {
  for (const Mending::Slice& slice : slices) {
    const MapNode* node = membership_.maps()->back()->node_of(slice.drive);
    if (node == nullptr) continue;
    DropRequest request{slice.drive, job.name, job.last->spread};
    store::Spread& spread = request.spread;
    spread.slot = static_cast<uint8_t>(slice.slot);
    // One of those that the object had before its redundancy was lowered.
    spread.m = static_cast<uint8_t>(
        std::max<size_t>(spread.m, slice.slot + 1 - std::min<size_t>(spread.k, slice.slot + 1)));
    peers_.call(node->number, std::move(request), [](Result<Reply>) {});
  }
}

void Mender::tell(const std::vector<DriveId>& drives, const ForDrive& request,
                  std::function<void(bool well)> then) {
  struct Round {
    size_t left = 0;
    bool well = true;
    std::function<void(bool)> then;
  };
  const auto round = std::make_shared<Round>(Round{drives.size(), true, std::move(then)});
  if (drives.empty()) return strand_.post([round] { round->then(true); });
  for (const DriveId drive : drives) {
    const MapNode* node = membership_.maps()->back()->node_of(drive);
    const auto hear_one = [round](const Result<Reply>& reply) {
      if (!reply) round->well = false;
      if (--round->left == 0) round->then(round->well);
    };
    if (node == nullptr) {
      strand_.post([hear_one] { hear_one(make_error(kOldEpoch, "the drive is no longer in the map")); });
      continue;
    }
    peers_.call(node->number, request(drive), hear_one);
  }
}

void Mender::end(const JobPointer& job, Status status) {
  {
    const MutexLock lock(mutex_);
    --counts_.under_way;
    if (status && job->changed) ++counts_.mended;
  }
  jobs_.erase(job->name);
  begin_again(*job);
  for (const Done<Reply>& done : job->done) {
    if (status) {
      done(Reply(DoneReply{}));
    } else {
      done(status.error().copy());
    }
  }
}

// One job for all who came during the one that ended.
void Mender::begin_again(Job& ended) {
  JobPointer job;
  for (auto& [request, done] : std::exchange(ended.later, {})) {
    if (job && request.epoch == membership_.maps()->back()->epoch()) {
      if (request.drive != 0) job->also.insert(request.drive);
      job->done.push_back(std::move(done));
      continue;
    }
    const ObjectName name = request.name;
    mend(std::move(request), std::move(done));
    const auto begun = jobs_.find(name);
    if (begun != jobs_.end()) job = begun->second;
  }
}

void Mender::add_counts(Progress& progress) const {
  const MutexLock lock(mutex_);
  progress.mended = counts_.mended;
  progress.built = counts_.built;
  progress.built_bytes = counts_.built_bytes;
  progress.bytes_per_second = counts_.under_way == 0 ? 0 : counts_.bytes_per_second;
  progress.forgotten = counts_.forgotten;
  progress.under_way = counts_.under_way;
}

}  // namespace millrace::cluster
