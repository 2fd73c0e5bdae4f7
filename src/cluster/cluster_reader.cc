// Where each stretch comes from, and what happens if it does not come from there.
#include "cluster/cluster_reader.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/snapshot.h"
#include "cluster/kept_cells.h"
#include "cluster/race.h"
#include "cluster/read_allotment.h"
#include "cluster/reasons.h"
#include "cluster/slice_shelf.h"
#include "cluster/stripe.h"
#include "store/waiting.h"

namespace millrace::cluster {

namespace {

constexpr size_t kAhead = 4;        // stretches asked for before they are needed
constexpr size_t kKeptStripes = 2;  // of cells, where slices have to be brought back
// When a holder counts as slow.
constexpr uint64_t kLeastHedgeUs = 20'000;
constexpr uint64_t kMostHedgeUs = 1'000'000;

// A stretch on its way, or here before it is needed.
struct Fetch {
  Charge charge;      // where it was asked for ahead
  uint64_t size = 0;  // 0: it is not asked for yet
  std::optional<Result<store::Extent>> outcome;
  Done<store::Extent> waiting;
};

class ReaderState : public std::enable_shared_from_this<ReaderState> {
 public:
  ReaderState(Cluster& cluster, store::ObjectPointer object, std::shared_ptr<ReadAllotment> allotment)
      : cluster_(cluster),
        allotment_(std::move(allotment)),
        object_(std::move(object)),
        spread_(object_->record().spread),
        layout_{spread_.k, spread_.m, spread_.k == 1 ? kCellBytes : spread_.cell, object_->record().size},
        cells_(cluster.cell_memory(), kKeptStripes * spread_.k) {
    holders_.store(std::make_shared<const std::vector<DriveId>>(spread_.holders));
    const size_t slots = spread_.holders.size();
    for (unsigned slot = 0; slot < slots; ++slot) {
      if (cluster_.is_own(spread_.holders[slot])) own_.push_back(slot);
    }
  }

  std::optional<store::Extent> find_ready(uint64_t offset, uint64_t size) {
    const Layout::Stretch stretch = locate(offset, size);
    Charge ended;
    const MutexLock lock(mutex_);
    if (const auto local = local_.find(stretch.slot); local != local_.end())
      return local->second->find_ready(stretch.offset, stretch.size);
    const auto fetch = fetches_.find(offset);
    if (fetch == fetches_.end() || !fetch->second.outcome || !*fetch->second.outcome) return std::nullopt;
    store::Extent extent = fetch->second.outcome->take();
    ended = std::move(fetch->second.charge);
    fetches_.erase(fetch);
    extent.size = std::min(extent.size, size);
    return extent;
  }

  // Every wait begins here, so this is where more is asked for ahead.
  void prepare(uint64_t offset, uint64_t size, Done<store::Extent> done) {
    const Layout::Stretch stretch = locate(offset, size);
    if (is_own(stretch.slot)) return prepare_local(stretch, std::move(done));
    std::vector<Fetch> ended;
    std::optional<Result<store::Extent>> outcome;
    uint64_t next = offset;
    {
      const MutexLock lock(mutex_);
      // What was fetched for a reader that went elsewhere.
      for (auto entry = fetches_.begin(); entry != fetches_.end();) {
        const auto one = entry++;
        if (!one->second.outcome || (one->first >= offset && one->first < offset + size)) continue;
        ended.push_back(std::move(one->second));
        fetches_.erase(one);
      }
      Fetch& fetch = fetches_[offset];
      if (fetch.outcome) {
        next += fetch.size;
        outcome = std::move(fetch.outcome);
        ended.push_back(std::move(fetch));
        fetches_.erase(offset);
      } else {
        fetch.waiting = std::move(done);
      }
    }
    if (outcome) {
      done(std::move(*outcome));
      return fetch_ahead(next, offset + size);
    }
    allotment_->when_allotted([self = shared_from_this(), offset, size](Status allotted) {
      if (!allotted) return self->arrive(offset, allotted.take_error());
      self->fetch_wanted(offset, offset + size);
    });
  }

 private:
  Layout::Stretch locate(uint64_t offset, uint64_t size) const {
    Layout::Stretch stretch = layout_.locate(offset);
    // Every slice is a copy: one of this node's, if there is one.
    if (spread_.k == 1) stretch.slot = own_.empty() ? first_copy_.load() : own_.front();
    stretch.size = std::min({stretch.size, size, ReadAllotment::kWholeBytes});
    return stretch;
  }
  bool is_own(unsigned slot) const { return std::ranges::find(own_, slot) != own_.end(); }

  // From this node's own drive; from others where that is slow or fails.
  void prepare_local(const Layout::Stretch& stretch, Done<store::Extent> done) {
    const DriveId drive = spread_.holders[stretch.slot];
    if (passes_over(drive)) {
      if (wants_probe(drive)) read_local(stretch, [](const Result<store::Extent>&) {});
      return recover(stretch, make_error(Code::kUnavailable, "this node's drive is slow"), done);
    }
    const auto race = std::make_shared<Race<store::Extent>>(std::move(done));
    read_local(stretch, [self = shared_from_this(), stretch, race](Result<store::Extent> brought) {
      if (!brought && race->hedge())
        self->recover(stretch, brought.error().copy(),
                      [race](Result<store::Extent> rebuilt) { race->end(std::move(rebuilt)); });
      race->end(std::move(brought));
    });
    hedge_later(stretch, race, [race](Result<Bytes> bytes) { race->end(in_buffer(std::move(bytes))); });
  }

  // Counts how long the drive takes.
  void read_local(const Layout::Stretch& stretch, Done<store::Extent> done) {
    const DriveId drive = spread_.holders[stretch.slot];
    const uint64_t began_us = steady_us();
    cluster_.read_counts().drives.begin(drive, began_us);
    const auto end = [self = shared_from_this(), drive, began_us,
                      done = std::move(done)](Result<store::Extent> brought) {
      self->note_drive(drive, began_us);
      done(std::move(brought));
    };
    const bool taken = cluster_.workers().submit([self = shared_from_this(), stretch, drive, end] {
      const auto slice = self->cluster_.slices().get(slice_name(self->spread_.write_id, stretch.slot, drive));
      if (!slice) return end(slice.error().copy());
      // The end of an object may be a few bytes, which lie in the drive's index.
      if ((*slice)->is_inline())
        return end(in_buffer(Bytes((*slice)->inline_bytes().substr(stretch.offset, stretch.size))));
      self->open_local(stretch.slot, *slice)->prepare(stretch.offset, stretch.size, end);
    });
    if (!taken) end(make_error(Code::kUnavailable, "too many calls are waiting for the drives"));
  }

  // An error is an answer too: what is wrong with one slice says nothing about the drive's others. Silence
  // ends as an answer that took long.
  void note_drive(DriveId drive, uint64_t began_us) {
    cluster_.read_counts().drives.end(drive, began_us, steady_us(), AnswerTimes::Outcome::kAnswered);
  }

  std::shared_ptr<store::Reader> open_local(unsigned slot, const store::ObjectPointer& slice) {
    const MutexLock lock(mutex_);
    std::shared_ptr<store::Reader>& reader = local_[slot];
    if (reader == nullptr) reader = cluster_.slices().open(slice);
    return reader;
  }

  // Asks for what is wanted now, if that was not done ahead.
  void fetch_wanted(uint64_t offset, uint64_t end) {
    Layout::Stretch stretch = locate(offset, end - offset);
    stretch.size = std::min(stretch.size, allotment_->bytes());
    bool begun = true;
    {
      const MutexLock lock(mutex_);
      const auto wanted = fetches_.find(offset);
      begun = wanted == fetches_.end() || wanted->second.size > 0;
      if (!begun) wanted->second.size = stretch.size;
      if (wanted != fetches_.end()) stretch.size = wanted->second.size;
    }
    if (!begun) fetch_at(offset, stretch);
    fetch_ahead(offset + stretch.size, end);
  }

  // Asks for some stretches that are not this node's, while there is memory for them.
  void fetch_ahead(uint64_t offset, uint64_t end) {
    for (size_t i = 0; i < kAhead && offset < end; ++i) {
      Layout::Stretch stretch = locate(offset, end - offset);
      const uint64_t at = offset;
      if (!is_own(stretch.slot)) stretch.size = std::min(stretch.size, allotment_->bytes());
      offset += stretch.size;
      if (is_own(stretch.slot)) continue;
      {
        const MutexLock lock(mutex_);
        if (const auto known = fetches_.find(at); known != fetches_.end()) {
          offset = at + known->second.size;
          continue;
        }
        Charge charge = allotment_->take_ahead(stretch.size);
        if (charge.bytes() == 0) return;
        fetches_.emplace(at, Fetch{std::move(charge), stretch.size, {}, {}});
      }
      fetch_at(at, stretch);
    }
  }

  void fetch_at(uint64_t at, const Layout::Stretch& stretch) {
    fetch(stretch,
          [self = shared_from_this(), at](Result<Bytes> bytes) { self->arrive(at, std::move(bytes)); });
  }

  static Result<store::Extent> in_buffer(Result<Bytes> bytes) {
    if (!bytes) return bytes.take_error();
    store::Extent extent;
    extent.size = bytes->size();
    extent.buffer = bytes.take();
    return extent;
  }

  void arrive(uint64_t at, Result<Bytes> bytes) {
    Result<store::Extent> outcome = in_buffer(std::move(bytes));
    Done<store::Extent> waiting;
    Charge ended;
    {
      const MutexLock lock(mutex_);
      const auto fetch = fetches_.find(at);
      if (fetch == fetches_.end()) return;
      waiting = std::move(fetch->second.waiting);
      if (waiting) {
        ended = std::move(fetch->second.charge);
        fetches_.erase(fetch);
      } else {
        fetch->second.outcome = std::move(outcome);
      }
    }
    if (waiting) waiting(std::move(outcome));
  }

  // The bytes of a stretch, from its holder or, if that fails or is slow, from others.
  void fetch(const Layout::Stretch& stretch, Done<Bytes> done) {
    if (!relayed_.exchange(true)) ++cluster_.read_counts().relayed;
    const DriveId holder = find_holder(stretch.slot);
    const SliceRange range{stretch.slot, stretch.offset, stretch.size};
    if (passes_over(holder)) {
      count_degraded();
      if (wants_probe(holder)) ask_holder(range, [](const Result<Bytes>&) {});
      return rebuild(stretch, make_error(Code::kUnavailable, "a holder is away or slow"), std::move(done));
    }
    const auto race = std::make_shared<Race<Bytes>>(std::move(done));
    const uint64_t began_us = steady_us();
    read_slice(range, [self = shared_from_this(), stretch, race, began_us](Result<Bytes> bytes) {
      self->cluster_.read_counts().slices.note(steady_us() - began_us);
      if (bytes && bytes->size() == stretch.size) return race->end(std::move(bytes));
      Error error = bytes ? make_error(Code::kCorrupt, "a slice is too short") : bytes.take_error();
      if (race->hedge()) {
        self->count_degraded();
        self->rebuild(stretch, error.copy(),
                      [race](Result<Bytes> rebuilt) { race->end(std::move(rebuilt)); });
      }
      race->end(std::move(error));
    });
    hedge_later(stretch, race, [race](Result<Bytes> rebuilt) { race->end(std::move(rebuilt)); });
  }

  // There are others to be read, and this one answers later than they do, or not at all.
  bool passes_over(DriveId holder) const { return has_others() && !cluster_.is_prompt(holder); }
  bool has_others() const { return spread_.holders.size() > spread_.k; }

  // It serves: whether it is prompt again is found out beside the reading from others.
  bool wants_probe(DriveId holder) {
    return cluster_.is_alive(holder) && cluster_.read_counts().drives.take_probe(holder, steady_us());
  }

  // Reads others too if the race is not over by then.
  template <typename T>
  void hedge_later(const Layout::Stretch& stretch, const std::shared_ptr<Race<T>>& race, Done<Bytes> done) {
    if (!has_others()) return;
    cluster_.after(hedge_after_us(), [weak = weak_from_this(), stretch, race, done = std::move(done)] {
      const auto self = weak.lock();
      if (self == nullptr || !race->hedge()) return;
      ++self->cluster_.read_counts().hedged;
      self->rebuild_allotted(stretch, make_error(Code::kUnavailable, "a holder is slow"), done);
    });
  }

  // Long enough that it is rare where all holders are well: reading twice is work for others.
  uint64_t hedge_after_us() const {
    return std::clamp<uint64_t>(3 * cluster_.read_counts().slices.us(), kLeastHedgeUs, kMostHedgeUs);
  }

  void count_degraded() {
    if (!degraded_.exchange(true)) ++cluster_.read_counts().degraded;
  }

  void recover(const Layout::Stretch& stretch, const Error& error, const Done<store::Extent>& done) {
    count_degraded();
    rebuild_allotted(stretch, error, [done](Result<Bytes> bytes) { done(in_buffer(std::move(bytes))); });
  }

  // A stretch that was to come from this node's drive: as much of it as there is room for.
  void rebuild_allotted(const Layout::Stretch& stretch, const Error& error, Done<Bytes> done) {
    const auto why = std::make_shared<const Error>(error.copy());
    allotment_->when_allotted([self = shared_from_this(), stretch, why, done = std::move(done)](Status room) {
      if (!room) return done(room.take_error());
      Layout::Stretch part = stretch;
      part.size = std::min(part.size, self->allotment_->bytes());
      self->rebuild(part, why->copy(), done);
    });
  }

  // Once slices had to be brought back, cells are kept for a while and asked for once: those that bring one
  // back are those that the reader wants next.
  void read_slice(const SliceRange& range, Done<Bytes> done) {
    if (!keeping_) return ask_holder(range, std::move(done));
    if (cells_.wait(range, std::move(done)) == KeptCells::Coming::kYes) return;
    ask_holder(range, [self = shared_from_this(), range](const Result<Bytes>& bytes) {
      self->cells_.arrive(range, bytes);
    });
  }

  // 0: nobody; the object may have fewer slices by now.
  DriveId find_holder(unsigned slot) const {
    const auto holders = holders_.load();
    return slot < holders->size() ? (*holders)[slot] : 0;
  }

  void ask_holder(const SliceRange& range, Done<Bytes> done) {
    const DriveId drive = find_holder(range.slot);
    const uint32_t node = cluster_.node_of(drive);
    if (node == 0) return done(make_error(Code::kUnavailable, "the node of a slice is not in the map"));
    ReadRequest request{drive, spread_.write_id, static_cast<uint8_t>(range.slot), range.offset,
                        static_cast<uint32_t>(range.size)};
    const uint64_t began_us = steady_us();
    cluster_.read_counts().drives.begin(drive, began_us);
    cluster_.call(node, std::move(request),
                  [self = shared_from_this(), drive, began_us, done = std::move(done)](Result<Reply> reply) {
                    self->note_drive(drive, began_us);
                    if (!reply) return done(reply.take_error());
                    auto* bytes = std::get_if<BytesReply>(&*reply);
                    if (bytes == nullptr)
                      return done(make_error(Code::kCorrupt, "a holder answered nonsense"));
                    done(std::move(bytes->bytes));
                  });
  }

  // A stretch that its holder does not give: another copy of it, or k other slices that bring it back.
  struct Rebuilding {
    Layout::Stretch stretch;
    uint64_t stripe = 0;
    Done<Bytes> done;

    Mutex mutex;
    bool ended MR_GUARDED_BY(mutex) = false;
    bool looking MR_GUARDED_BY(mutex) = false;  // nobody is left to be asked, and one thread has seen to that
    bool found_again MR_GUARDED_BY(mutex) = false;       // the holders were looked up once more
    size_t asked MR_GUARDED_BY(mutex) = 0;               // that have not answered
    std::vector<unsigned> untried MR_GUARDED_BY(mutex);  // the best at the end
    std::vector<unsigned> slots MR_GUARDED_BY(mutex) = {};
    std::vector<Bytes> bytes MR_GUARDED_BY(mutex) = {};  // at the same positions
    std::optional<Error> error MR_GUARDED_BY(mutex);
    // Where its slices were looked for. Another stretch may have learnt of a later list meanwhile.
    std::shared_ptr<const std::vector<DriveId>> holders MR_GUARDED_BY(mutex);
  };

  void rebuild(const Layout::Stretch& stretch, Error error, Done<Bytes> done) {
    keeping_ = true;
    const auto rebuilding = std::make_shared<Rebuilding>();
    rebuilding->stretch = stretch;
    rebuilding->stripe = stretch.offset / layout_.cell;
    rebuilding->done = std::move(done);
    {
      const MutexLock lock(rebuilding->mutex);
      rebuilding->error = std::move(error);
      rebuilding->holders = holders_.load();
      rebuilding->untried = order_slots(*rebuilding->holders, stretch.slot);
    }
    gather(rebuilding);
  }

  // All slots but this one, those that are worth asking first at the end. Only slots that the object had when
  // it was opened: parity that was added since is not needed, and its layout is another one.
  std::vector<unsigned> order_slots(const std::vector<DriveId>& holders,
                                    std::optional<unsigned> without) const {
    std::vector<unsigned> slots;
    const auto known = static_cast<unsigned>(std::min(holders.size(), spread_.holders.size()));
    const auto worth = [&](unsigned slot) {
      return (cluster_.is_alive(holders[slot]) ? 1 : 0) + (cluster_.is_prompt(holders[slot]) ? 1 : 0);
    };
    for (const int wanted : {0, 1, 2}) {
      for (unsigned slot = known; slot-- > 0;) {
        if (slot != without && worth(slot) == wanted) slots.push_back(slot);
      }
    }
    return slots;
  }

  // Asks so many slots at once as lack; decodes when all are there.
  void gather(const std::shared_ptr<Rebuilding>& rebuilding) {
    std::vector<SliceRange> ranges;
    bool enough = false;
    {
      const MutexLock lock(rebuilding->mutex);
      if (rebuilding->ended) return;
      while (rebuilding->slots.size() + rebuilding->asked < spread_.k && !rebuilding->untried.empty()) {
        const unsigned slot = rebuilding->untried.back();
        rebuilding->untried.pop_back();
        const uint64_t size = slice_bytes(*rebuilding, slot);
        if (size == 0) {  // a short stripe: this slot's cell ends before
          rebuilding->slots.push_back(slot);
          rebuilding->bytes.emplace_back();
        } else {
          ++rebuilding->asked;
          ranges.push_back({slot, rebuilding->stretch.offset, size});
        }
      }
      enough = rebuilding->slots.size() == spread_.k;
      // Two last answers may come at once.
      if (!enough && ranges.empty() && (rebuilding->asked > 0 || std::exchange(rebuilding->looking, true)))
        return;
      rebuilding->ended = enough;
    }
    if (enough) return decode(*rebuilding);
    if (ranges.empty()) return find_again(rebuilding);
    for (const SliceRange& range : ranges) {
      read_slice(range, [self = shared_from_this(), rebuilding, range](Result<Bytes> bytes) {
        self->hear(rebuilding, range, std::move(bytes));
      });
    }
  }

  void hear(const std::shared_ptr<Rebuilding>& rebuilding, const SliceRange& range, Result<Bytes> bytes) {
    const bool good = bytes && bytes->size() == range.size;
    const bool is_answer = good && (spread_.k == 1 || range.slot == rebuilding->stretch.slot);
    {
      const MutexLock lock(rebuilding->mutex);
      --rebuilding->asked;
      if (rebuilding->ended) return;
      rebuilding->ended = is_answer;
      if (good && !is_answer) {
        rebuilding->slots.push_back(range.slot);
        rebuilding->bytes.push_back(*bytes);
      } else if (!bytes) {
        rebuilding->error = bytes.take_error();
      }
    }
    if (!is_answer) return gather(rebuilding);
    if (spread_.k == 1) first_copy_ = range.slot;  // that one answers
    rebuilding->done(bytes.take());
  }

  // A reader that takes its time may find that all slices have moved: their holders are looked up once more.
  void find_again(const std::shared_ptr<Rebuilding>& rebuilding) {
    bool again = false;
    bool moved = false;
    {
      const MutexLock lock(rebuilding->mutex);
      moved = *holders_.load() != *rebuilding->holders;
      again = !moved && std::exchange(rebuilding->found_again, true);
    }
    if (moved) return begin_again(rebuilding);
    if (again) return fail(*rebuilding);
    const ObjectName name{object_->bucket(), object_->key()};
    cluster_.find(name, [self = shared_from_this(), rebuilding](Result<std::optional<FoundObject>> found) {
      const bool same = found && *found && (*found)->record.spread.write_id == self->spread_.write_id;
      if (!same && found && *found && is_recoded(self->object_->record(), (*found)->record))
        return self->read_recoded(rebuilding, std::move((*found)->record));
      if (!same) return fail(*rebuilding);
      self->holders_.store(std::make_shared<const std::vector<DriveId>>((*found)->record.spread.holders));
      self->find_again(rebuilding);
    });
  }

  void begin_again(const std::shared_ptr<Rebuilding>& rebuilding) {
    {
      const MutexLock lock(rebuilding->mutex);
      rebuilding->looking = false;
      rebuilding->holders = holders_.load();
      rebuilding->slots.clear();
      rebuilding->bytes.clear();
      rebuilding->untried = order_slots(*rebuilding->holders, std::nullopt);
    }
    gather(rebuilding);
  }

  static void fail(Rebuilding& rebuilding) {
    std::optional<Error> error;
    {
      const MutexLock lock(rebuilding.mutex);
      if (std::exchange(rebuilding.ended, true)) return;
      error = std::move(rebuilding.error);
    }
    // A slice that is not there is no missing object.
    rebuilding.done(Error(kTooFewSlices, "too few slices can be read: " + error->message())
                        .with_hint("millrace cluster where shows which drives hold them"));
  }

  // The bucket's redundancy was changed meanwhile: the same bytes lie in other slices.
  static bool is_recoded(const store::Record& before, const store::Record& now) {
    return now.size == before.size && now.crc32c == before.crc32c && now.etag == before.etag &&
           now.modified_ms == before.modified_ms;
  }

  void read_recoded(const std::shared_ptr<Rebuilding>& rebuilding, store::Record record) {
    const auto object = std::make_shared<const store::Object>(object_->bucket(), object_->key(),
                                                              std::move(record), std::string());
    read_on(std::make_shared<ReaderState>(cluster_, object, allotment_), rebuilding,
            std::make_shared<std::string>());
  }

  // Until all of the stretch was read from the slices of now.
  void read_on(const std::shared_ptr<ReaderState>& reader, const std::shared_ptr<Rebuilding>& rebuilding,
               const std::shared_ptr<std::string>& bytes) {
    const size_t before = bytes->size();
    const uint64_t left = rebuilding->stretch.size - before;
    if (left == 0) return rebuilding->done(std::move(*bytes));
    reader->prepare(
        layout_.offset_of(rebuilding->stretch) + before, left,
        [self = shared_from_this(), reader, rebuilding, bytes, before](Result<store::Extent> extent) {
          if (!extent) return rebuilding->done(extent.take_error());
          bytes->resize(before + extent->size);
          const auto into = std::as_writable_bytes(std::span(*bytes)).subspan(before);
          if (Status copied = store::copy_bytes(*extent, 0, into); !copied)
            return rebuilding->done(copied.take_error());
          self->read_on(reader, rebuilding, bytes);
        });
  }

  // How much of the stretch a slot's cell covers.
  uint64_t slice_bytes(const Rebuilding& rebuilding, unsigned slot) const {
    const Layout::Stretch& stretch = rebuilding.stretch;
    if (spread_.k == 1) return stretch.size;
    const uint64_t begin = stretch.offset - layout_.cell_offset(rebuilding.stripe);
    const uint64_t cell = layout_.cell_size(rebuilding.stripe, slot);
    return begin >= cell ? 0 : std::min(stretch.size, cell - begin);
  }

  void decode(Rebuilding& rebuilding) {
    std::vector<unsigned> slots;
    std::vector<Bytes> bytes;
    {
      const MutexLock lock(rebuilding.mutex);
      slots.swap(rebuilding.slots);
      bytes.swap(rebuilding.bytes);
    }
    const Coder coder(spread_.k, spread_.m);
    const std::array<unsigned, 1> wanted = {rebuilding.stretch.slot};
    const auto decoding = Decoding::make(coder, slots, wanted);
    if (!decoding) return rebuilding.done(decoding.error().copy());
    std::vector<Cell> cells;
    for (const Bytes& cell : bytes) cells.push_back(std::as_bytes(std::span(cell.view())));
    const Block rebuilt = cluster_.blocks().take(rebuilding.stretch.size);
    const std::array<CellSpace, 1> space = {rebuilt.span()};
    decoding->run(cells, space);
    rebuilding.done(rebuilt.share(rebuilt.size()));
  }

  Cluster& cluster_;
  const std::shared_ptr<ReadAllotment> allotment_;
  const store::ObjectPointer object_;
  const store::Spread spread_;
  const Layout layout_;
  KeptCells cells_;
  Snapshot<std::vector<DriveId>> holders_;  // by slot; where they are by now
  std::vector<unsigned> own_;               // slots on this node's drives, as they were
  std::atomic<unsigned> first_copy_ = 0;    // of copies that are elsewhere: the one to ask
  std::atomic<bool> relayed_ = false;       // counted
  std::atomic<bool> degraded_ = false;      // counted
  std::atomic<bool> keeping_ = false;       // cells, because some had to be brought back

  Mutex mutex_;
  std::map<unsigned, std::shared_ptr<store::Reader>> local_ MR_GUARDED_BY(mutex_);  // by slot
  std::map<uint64_t, Fetch> fetches_ MR_GUARDED_BY(mutex_);                         // by offset in the object
};

class ClusterReader final : public store::Reader {
 public:
  ClusterReader(Cluster& cluster, store::ObjectPointer object)
      : state_(std::make_shared<ReaderState>(cluster, std::move(object),
                                             std::make_shared<ReadAllotment>(cluster.read_memory()))) {}
  std::optional<store::Extent> find_ready(uint64_t offset, uint64_t size) override {
    return state_->find_ready(offset, size);
  }
  void prepare(uint64_t offset, uint64_t size, Done<store::Extent> done) override {
    state_->prepare(offset, size, std::move(done));
  }

 private:
  const std::shared_ptr<ReaderState> state_;
};

}  // namespace

std::unique_ptr<store::Reader> open_cluster_reader(Cluster& cluster, store::ObjectPointer object) {
  return std::make_unique<ClusterReader>(cluster, std::move(object));
}

}  // namespace millrace::cluster
