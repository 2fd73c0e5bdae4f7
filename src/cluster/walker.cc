// Pages of rows, keys to be mended, and what is counted on the way.
#include "cluster/walker.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "cluster/mender.h"
#include "cluster/needed.h"
#include "cluster/places.h"
#include "cluster/reasons.h"

namespace millrace::cluster {

namespace {

// Enough that the protocol is not held up by looking at rows.
constexpr uint64_t kBetweenPagesUs = 1000;
// A key that could not be mended is tried again in the same walk: a node that was slow for a moment must not
// cost a walk over all rows. Many such keys have one cause, which lasts: the next walk tries them.
constexpr unsigned kMostTries = 3;
constexpr size_t kMostToTryAgain = 1000;
constexpr uint64_t kBeforeTryingAgainUs = 500'000;

}  // namespace

struct Walker::Task {
  ObjectName name;
  DriveId drive = 0;
  std::vector<store::Spread> litter = {};  // slices that nobody committed for long
  unsigned tries = 0;
};

struct Walker::Compared {
  Task task;
  store::Version version;
};

struct Walker::Walk {
  std::shared_ptr<const Maps> maps;
  std::vector<DriveId> drives;
  size_t drive = 0;  // position
  ObjectName after;
  Look look = Look::kUrgent;
  bool reading = false;  // a page is on its way: whoever else wants the next one need not ask
  bool all_read = false;
  size_t running = 0;
  std::deque<Task> tasks;
  std::deque<Task> again;                     // failed, and are tried once more when nothing else is left
  bool pausing = false;                       // before that
  std::map<size_t, std::deque<Task>> urgent;  // by the slices that are left
  size_t urgent_count = 0;
  bool clean = true;
  uint64_t tombstones = 0;
  Progress counted;  // objects, below, …: shown when a look is over
  std::set<std::string> prepared;
  std::map<DriveId, std::vector<Compared>> comparisons;  // by the drive that is to know the rows

  const Map& map() const { return *maps->back(); }
};

Walker::~Walker() = default;

void Walker::start(const WalkerOptions& options) {
  options_ = options;
  started_ = true;
  adopt_map();
}

void Walker::adopt_map() {
  if (started_) walk_after(0, Scope::kChanged);
}

void Walker::walk_after(uint64_t us, Scope scope) {
  if (!started_) return;
  const uint64_t plan = ++planned_;
  strand_.after(us, [this, plan, scope] {
    if (plan == planned_) begin(scope);
  });
}

void Walker::begin(Scope scope) {
  if (scope == Scope::kAll) verified_ = 0;
  walk_ = std::make_shared<Walk>();
  walk_->maps = membership_.maps();
  const MapNode* self = walk_->map().find_node(membership_.self());
  if (self == nullptr || !self->is_alive() || !membership_.has_lease())
    return walk_after(options_.retry_us, scope);
  for (const MapDrive& drive : self->drives) {
    if (walk_->map().is_alive(drive.hash())) {
      walk_->drives.push_back(drive.hash());
    } else if (drive.state != DriveStanding::kGone) {
      walk_->clean = false;  // nobody knows what lies there
    }
  }
  {
    const MutexLock lock(mutex_);
    progress_.walking = walk_->map().epoch();
    progress_.rows = 0;
    progress_.failures = 0;
    progress_.problem.clear();
  }
  next_page();
}

void Walker::next_page() {
  Walk& walk = *walk_;
  if (walk.reading) return;
  if (walk.drive >= walk.drives.size()) {
    walk.all_read = true;
    {
      const MutexLock lock(mutex_);
      progress_.objects = walk.counted.objects;
      progress_.below = walk.counted.below;
      progress_.below_floor = walk.counted.below_floor;
      progress_.to_move_bytes = walk.counted.to_move_bytes;
      progress_.needed = walk.counted.needed;
      progress_.held = walk.counted.held;
    }
    return pump();
  }
  const DriveId drive = walk.drives[walk.drive];
  walk.reading = true;
  shelf_.list(drive, walk.after, options_.page, [this, of = walk_](Result<std::vector<Shelf::Row>> rows) {
    of->reading = false;
    if (of != walk_) return;
    if (!rows) {
      hear(of, rows.take_error());
      ++of->drive;
      of->after = {};
      return next_page();
    }
    take_page(*rows);
  });
}

void Walker::take_page(const std::vector<Shelf::Row>& rows) {
  Walk& walk = *walk_;
  for (const Shelf::Row& row : rows) look_at(row);
  {
    const MutexLock lock(mutex_);
    progress_.rows += rows.size();
  }
  if (rows.size() < options_.page) {
    ++walk.drive;
    walk.after = {};
  } else {
    walk.after = rows.back().name;
  }
  if (!walk.tasks.empty()) return pump();
  strand_.after(kBetweenPagesUs, [this, of = walk_] {
    if (of == walk_) next_page();
  });
}

size_t Walker::count(const store::Record& record, const Redundancy& redundancy) {
  Walk& walk = *walk_;
  const store::Spread& spread = record.spread;
  size_t left = 0;
  DriveId first = 0;
  for (const DriveId holder : spread.holders) {
    if (walk.map().is_alive(holder) && left++ == 0) first = holder;
  }
  const size_t floor = size_t{redundancy.floor} - redundancy.k + spread.k;
  if (is_needed(walk.map(), record, redundancy, walk.drives[walk.drive])) ++walk.counted.needed;
  if (first != walk.drives[walk.drive]) return left;
  const Redundancy wanted = redundancy_for(record, redundancy);
  ++walk.counted.objects;
  const uint64_t slice_bytes = (record.size + wanted.k - 1) / wanted.k;
  if (spread.k != wanted.k) {  // all of it is encoded anew
    ++walk.counted.below;
    walk.counted.to_move_bytes += slice_bytes * wanted.slices();
  } else if (left < wanted.slices()) {
    ++walk.counted.below;
    walk.counted.to_move_bytes += slice_bytes * (wanted.slices() - left);
  }
  if (left < floor) ++walk.counted.below_floor;
  return left;
}

bool Walker::is_urgent(const Shelf::Row& row, const std::vector<DriveId>& placed, size_t left) const {
  const store::Record& record = row.ledger.mark->record;
  if (record.deleted || left >= size_t{record.spread.k} + record.spread.m) return false;
  const DriveId drive = walk_->drives[walk_->drive];
  if (placed.front() == drive || !contains(placed, drive)) return true;
  // Its home may know nothing of it: the first holder that is there tells it.
  const std::vector<DriveId>& holders = record.spread.holders;
  const auto first =
      std::ranges::find_if(holders, [&](DriveId holder) { return walk_->map().is_alive(holder); });
  return !contains(holders, placed.front()) && first != holders.end() && *first == drive;
}

bool Walker::is_verified(const Shelf::Row& row, const std::vector<DriveId>& placed) const {
  const Mark& mark = *row.ledger.mark;
  if (mark.record.deleted || !mark.complete || mark.record.version.epoch > verified_) return false;
  // A write that began under an older map lies elsewhere, even if it was committed after the last walk.
  if (!contains(placed, walk_->drives[walk_->drive])) return false;
  const auto in_place = [&](DriveId holder) {
    return walk_->map().is_alive(holder) && contains(placed, holder);
  };
  const auto redundancy = redundancy_in(walk_->map(), row.name.bucket, membership_);
  return std::ranges::all_of(mark.record.spread.holders, in_place) && redundancy &&
         !is_spread_otherwise(mark.record, *redundancy) &&
         is_settled_since(verified_, *walk_->maps, row.name, membership_);
}

void Walker::look_at(const Shelf::Row& row) {
  Walk& walk = *walk_;
  const auto redundancy = redundancy_in(walk.map(), row.name.bucket, membership_);
  if (!redundancy) return;  // the bucket is gone, or not known here yet
  const DriveId drive = walk.drives[walk.drive];
  if (!row.ledger.prepared.empty() && walk.look == Look::kAll) look_at_prepared(row);
  if (!row.ledger.mark) return;
  const store::Record& record = row.ledger.mark->record;
  if (is_of_removed_bucket(record.version, row.name.bucket, membership_)) return forget_removed(row);
  if (record.deleted && walk.look == Look::kAll) ++walk.tombstones;
  if (row.ledger.mark->has_slice) ++walk.counted.held;
  const size_t left = record.deleted ? 0 : count(record, *redundancy);
  const std::vector<DriveId> placed = place_object(walk.map(), row.name, membership_);
  if (placed.empty())
    return hear(walk_, make_error(kNotYet, "no drive takes slices: all are away, or drain"));
  if (walk.look == Look::kUrgent) {
    if (!is_urgent(row, placed, left) || walk.urgent_count >= kMostUrgent) return;
    ++walk.urgent_count;
    walk.urgent[left].push_back({row.name, drive});
    return;
  }
  if (is_verified(row, placed)) return;
  if (placed.front() == drive || !contains(placed, drive)) {
    walk.tasks.push_back({row.name, drive});
    return;
  }
  std::vector<Compared>& rows = walk.comparisons[placed.front()];
  rows.push_back({{row.name, drive}, record.version});
  if (rows.size() == CompareRequest::kMost) compare(placed.front());
}

void Walker::forget_removed(const Shelf::Row& row) {
  if (walk_->look != Look::kAll) return;
  const DriveId drive = walk_->drives[walk_->drive];
  peers_.call(membership_.self(),
              ForgetRequest{walk_->map().epoch(), drive, row.name, row.ledger.mark->record.version},
              [](Result<Reply>) {});
}

void Walker::compare(DriveId drive) {
  const auto rows = std::make_shared<std::vector<Compared>>(std::move(walk_->comparisons[drive]));
  walk_->comparisons.erase(drive);
  CompareRequest request{walk_->map().epoch(), drive, {}};
  for (const Compared& row : *rows) request.known.push_back({row.task.name, row.version});
  ++walk_->running;
  peers_.call(
      walk_->map().node_of(drive)->number, std::move(request), [this, of = walk_, rows](Result<Reply> reply) {
        --of->running;
        const auto* told = reply ? std::get_if<CompareReply>(&*reply) : nullptr;
        if (told == nullptr)
          hear(of, reply ? make_error(Code::kUnavailable, "a node answered nonsense") : reply.take_error());
        for (const uint32_t position : told == nullptr ? std::vector<uint32_t>() : told->differing) {
          if (position < rows->size()) of->tasks.push_back((*rows)[position].task);
        }
        if (of == walk_) pump();
      });
}

void Walker::look_at_prepared(const Shelf::Row& row) {
  const uint64_t now = strand_.now_us();
  Task task{row.name, walk_->drives[walk_->drive]};
  for (const Prepared& slice : row.ledger.prepared) {
    const std::string& id = slice.spread.write_id;
    walk_->prepared.insert(id);
    if (litter_since_.size() >= kMostLitter && !litter_since_.contains(id)) continue;
    const uint64_t since = litter_since_.try_emplace(id, now).first->second;
    if (now >= since + options_.litter_us) task.litter.push_back(slice.spread);
  }
  if (!task.litter.empty()) walk_->tasks.push_back(std::move(task));
}

void Walker::drop_litter(const Task& task) {
  for (const store::Spread& spread : task.litter)
    peers_.call(membership_.self(), DropRequest{task.drive, task.name, spread}, [](Result<Reply>) {});
}

void Walker::pump() {
  Walk& walk = *walk_;
  if (walk.all_read && walk.tasks.empty() && !walk.urgent.empty()) {
    walk.tasks = std::move(walk.urgent.begin()->second);
    walk.urgent.erase(walk.urgent.begin());
  }
  while (walk.running < options_.at_once && !walk.tasks.empty()) {
    const Task task = std::move(walk.tasks.front());
    walk.tasks.pop_front();
    ++walk.running;
    run(task);
  }
  if (walk.running > 0 || !walk.tasks.empty()) return;
  if (!walk.all_read) return next_page();
  while (!walk.comparisons.empty()) compare(walk.comparisons.begin()->first);
  if (walk.running > 0 || walk.pausing) return;
  if (!walk.again.empty()) return try_again();
  end_look();
}

void Walker::try_again() {
  walk_->pausing = true;
  strand_.after(kBeforeTryingAgainUs, [this, of = walk_] {
    if (of != walk_) return;
    of->pausing = false;
    of->tasks = std::exchange(of->again, {});
    pump();
  });
}

void Walker::run(const Task& task) {
  const Map& map = walk_->map();
  const uint32_t home = map.home(hash_of(task.name));
  const auto ended = [this, of = walk_, task](const Result<Reply>& reply) {
    --of->running;
    if (reply) {
      drop_litter(task);
    } else if (task.tries + 1 < kMostTries && of->again.size() < kMostToTryAgain &&
               !reply.error().is(kOldEpoch)) {
      of->again.push_back({task.name, task.drive, task.litter, task.tries + 1});
    } else {
      hear(of, reply.error().copy());
    }
    if (of == walk_) pump();
  };
  if (home == 0) return strand_.post([ended] { ended(make_error(kNotYet, "no drive takes slices")); });
  const MendRequest request{map.epoch(), task.name, task.drive};
  if (home != membership_.self()) return peers_.call(home, request, ended);
  // Later, so that a row of mendings that need nothing is no recursion.
  strand_.post([this, request, ended] { mender_.mend(request, ended); });
}

void Walker::hear(const std::shared_ptr<Walk>& walk, Status status) {
  if (status || walk != walk_) return;
  walk->clean = false;
  if (status.error().is(kOldEpoch)) return;  // the walk of the next map is about to begin
  const MutexLock lock(mutex_);
  ++progress_.failures;
  progress_.problem = status.error().message();
}

void Walker::end_look() {
  Walk& walk = *walk_;
  if (walk.look == Look::kAll) return end_walk();
  walk.look = Look::kAll;
  walk.counted = {};
  walk.drive = 0;
  walk.after = {};
  walk.all_read = false;
  {
    const MutexLock lock(mutex_);
    progress_.rows_before = progress_.rows;
    progress_.rows = 0;
  }
  next_page();
}

bool Walker::is_leaving(const Map& map) const {
  const MapNode* self = map.find_node(membership_.self());
  return self != nullptr &&
         (self->state == NodeState::kDraining || std::ranges::any_of(self->drives, [](const MapDrive& drive) {
            return drive.state == DriveStanding::kDraining;
          }));
}

void Walker::end_walk() {
  const std::shared_ptr<Walk> walk = std::move(walk_);
  std::erase_if(litter_since_, [&](const auto& entry) { return !walk->prepared.contains(entry.first); });
  const uint32_t epoch = walk->map().epoch();
  const bool clean = walk->clean && membership_.maps()->back()->epoch() == epoch;
  {
    const MutexLock lock(mutex_);
    progress_.walking = 0;
    if (clean) progress_.clean = epoch;
  }
  if (clean) {
    verified_ = epoch;
    membership_.note_walked({epoch, walk->tombstones});
  }
  const uint64_t again_us =
      litter_since_.empty() ? options_.again_us : std::min(options_.again_us, options_.litter_us);
  // Slices are counted before the walk moves them: whoever has to become empty counts again.
  if (clean && walk->counted.held > 0 && is_leaving(walk->map()))
    return walk_after(options_.retry_us, Scope::kChanged);
  if (clean && walk->counted.below == 0) return walk_after(again_us, Scope::kAll);
  walk_after(clean ? options_.recount_us : options_.retry_us, Scope::kChanged);
}

Progress Walker::progress() const {
  const MutexLock lock(mutex_);
  return progress_;
}

}  // namespace millrace::cluster
