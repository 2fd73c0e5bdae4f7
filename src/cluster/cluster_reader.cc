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
#include "cluster/slice_shelf.h"
#include "cluster/stripe.h"
#include "store/waiting.h"

namespace millrace::cluster {

namespace {

constexpr uint64_t kFetchBytes = 1 << 20;
constexpr size_t kAhead = 4;  // stretches asked for before they are needed
// When a holder counts as slow.
constexpr uint64_t kLeastHedgeUs = 20'000;
constexpr uint64_t kMostHedgeUs = 1'000'000;

// A stretch on its way, or here before it is needed.
struct Fetch {
  bool begun = false;
  std::optional<Result<store::Extent>> outcome;
  Done<store::Extent> waiting;
};

// Some bytes of one slice.
struct SliceRange {
  unsigned slot = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
};

class ReaderState : public std::enable_shared_from_this<ReaderState> {
 public:
  ReaderState(Cluster& cluster, store::ObjectPointer object)
      : cluster_(cluster),
        object_(std::move(object)),
        spread_(object_->record().spread),
        layout_{spread_.k, spread_.m, spread_.k == 1 ? kCellBytes : spread_.cell, object_->record().size} {
    holders_.store(std::make_shared<const std::vector<DriveId>>(spread_.holders));
    const size_t slots = spread_.holders.size();
    for (unsigned slot = 0; slot < slots; ++slot) {
      if (cluster_.is_own(spread_.holders[slot])) own_.push_back(slot);
    }
  }

  std::optional<store::Extent> find_ready(uint64_t offset, uint64_t size) {
    const Layout::Stretch stretch = locate(offset, size);
    const MutexLock lock(mutex_);
    if (const auto local = local_.find(stretch.slot); local != local_.end())
      return local->second->find_ready(stretch.offset, stretch.size);
    const auto fetch = fetches_.find(offset);
    if (fetch == fetches_.end() || !fetch->second.outcome || !*fetch->second.outcome) return std::nullopt;
    store::Extent extent = fetch->second.outcome->take();
    fetches_.erase(fetch);
    extent.size = std::min(extent.size, size);
    return extent;
  }

  // Every wait begins here, so this is where more is asked for ahead.
  void prepare(uint64_t offset, uint64_t size, Done<store::Extent> done) {
    const Layout::Stretch stretch = locate(offset, size);
    if (is_own(stretch.slot)) return prepare_local(stretch, std::move(done));
    std::optional<Result<store::Extent>> outcome;
    {
      const MutexLock lock(mutex_);
      // What was fetched for a reader that went elsewhere.
      std::erase_if(fetches_, [&](const auto& entry) {
        return entry.second.outcome && (entry.first < offset || entry.first >= offset + size);
      });
      Fetch& fetch = fetches_[offset];
      if (fetch.outcome) {
        outcome = std::move(fetch.outcome);
        fetches_.erase(offset);
      } else {
        fetch.waiting = std::move(done);
      }
    }
    if (outcome) done(std::move(*outcome));
    fetch_from(offset, offset + size);
  }

 private:
  Layout::Stretch locate(uint64_t offset, uint64_t size) const {
    Layout::Stretch stretch = layout_.locate(offset);
    // Every slice is a copy: one of this node's, if there is one.
    if (spread_.k == 1) stretch.slot = own_.empty() ? first_copy_.load() : own_.front();
    stretch.size = std::min({stretch.size, size, kFetchBytes});
    return stretch;
  }
  bool is_own(unsigned slot) const { return std::ranges::find(own_, slot) != own_.end(); }

  void prepare_local(const Layout::Stretch& stretch, Done<store::Extent> done) {
    const auto kept = std::make_shared<Done<store::Extent>>(std::move(done));
    const bool taken = cluster_.workers().submit([self = shared_from_this(), stretch, kept] {
      const auto slice = self->cluster_.slices().get(
          slice_name(self->spread_.write_id, stretch.slot, self->spread_.holders[stretch.slot]));
      if (!slice) return self->recover(stretch, slice.error().copy(), *kept);
      // The end of an object may be a few bytes, which lie in the drive's index.
      if ((*slice)->is_inline())
        return (*kept)(in_buffer((*slice)->inline_bytes().substr(stretch.offset, stretch.size)));
      self->open_local(stretch.slot, *slice)
          ->prepare(stretch.offset, stretch.size, [self, stretch, kept](Result<store::Extent> brought) {
            if (brought) return (*kept)(std::move(brought));
            self->recover(stretch, brought.take_error(), *kept);
          });
    });
    if (!taken) (*kept)(make_error(Code::kUnavailable, "too many calls are waiting for the drives"));
  }

  std::shared_ptr<store::Reader> open_local(unsigned slot, const store::ObjectPointer& slice) {
    const MutexLock lock(mutex_);
    std::shared_ptr<store::Reader>& reader = local_[slot];
    if (reader == nullptr) reader = cluster_.slices().open(slice);
    return reader;
  }

  // Asks for what is wanted now and for some stretches behind it that are not this node's.
  void fetch_from(uint64_t offset, uint64_t end) {
    for (size_t i = 0; i <= kAhead && offset < end; ++i) {
      const Layout::Stretch stretch = locate(offset, end - offset);
      const uint64_t at = offset;
      offset += stretch.size;
      if (is_own(stretch.slot)) continue;
      {
        const MutexLock lock(mutex_);
        if (i > 0) fetches_.try_emplace(at);
        const auto fetch = fetches_.find(at);
        if (fetch == fetches_.end() || std::exchange(fetch->second.begun, true)) continue;
      }
      fetch(stretch, [self = shared_from_this(), at](Result<std::string> bytes) {
        self->arrive(at, std::move(bytes));
      });
    }
  }

  static Result<store::Extent> in_buffer(Result<std::string> bytes) {
    if (!bytes) return bytes.take_error();
    store::Extent extent;
    extent.size = bytes->size();
    extent.buffer = std::make_shared<const std::string>(bytes.take());
    return extent;
  }

  void arrive(uint64_t at, Result<std::string> bytes) {
    Result<store::Extent> outcome = in_buffer(std::move(bytes));
    Done<store::Extent> waiting;
    {
      const MutexLock lock(mutex_);
      const auto fetch = fetches_.find(at);
      if (fetch == fetches_.end()) return;
      waiting = std::move(fetch->second.waiting);
      if (waiting) {
        fetches_.erase(fetch);
      } else {
        fetch->second.outcome = std::move(outcome);
      }
    }
    if (waiting) waiting(std::move(outcome));
  }

  // A stretch that may come from two sides: from its holder, and from others if that one is slow.
  struct Race {
    Mutex mutex;
    unsigned runners MR_GUARDED_BY(mutex) = 1;
    bool hedged MR_GUARDED_BY(mutex) = false;
    Done<std::string> done MR_GUARDED_BY(mutex);

    // The first that has the bytes is the answer; an error only if nobody is left.
    void end(Result<std::string> bytes) {
      Done<std::string> answer;
      {
        const MutexLock lock(mutex);
        --runners;
        if (bytes || runners == 0) answer = std::exchange(done, nullptr);
      }
      if (answer) answer(std::move(bytes));
    }
    // Whether others are to be read now.
    bool hedge() {
      const MutexLock lock(mutex);
      if (!done || std::exchange(hedged, true)) return false;
      ++runners;
      return true;
    }
  };

  // The bytes of a stretch, from its holder or, if that fails or is slow, from others.
  void fetch(const Layout::Stretch& stretch, Done<std::string> done) {
    if (!relayed_.exchange(true)) ++cluster_.read_counts().relayed;
    const auto race = std::make_shared<Race>();
    {
      const MutexLock lock(race->mutex);
      race->done = std::move(done);
    }
    const uint64_t began_us = steady_us();
    read_slice({stretch.slot, stretch.offset, stretch.size}, [self = shared_from_this(), stretch, race,
                                                              began_us](Result<std::string> bytes) {
      self->cluster_.read_counts().slices.note(steady_us() - began_us);
      if (bytes && bytes->size() == stretch.size) return race->end(std::move(bytes));
      Error error = bytes ? make_error(Code::kCorrupt, "a slice is too short") : bytes.take_error();
      if (race->hedge()) {
        self->count_degraded();
        self->rebuild(stretch, error.copy(),
                      [race](Result<std::string> rebuilt) { race->end(std::move(rebuilt)); });
      }
      race->end(std::move(error));
    });
    if (spread_.holders.size() <= spread_.k) return;  // nobody else has it
    cluster_.after(hedge_after_us(), [weak = weak_from_this(), stretch, race] {
      const auto self = weak.lock();
      if (self == nullptr || !race->hedge()) return;
      ++self->cluster_.read_counts().hedged;
      self->rebuild(stretch, make_error(Code::kUnavailable, "a holder is slow"),
                    [race](Result<std::string> rebuilt) { race->end(std::move(rebuilt)); });
    });
  }

  // Long enough that it is rare where all holders are well: reading twice is work for others.
  uint64_t hedge_after_us() const {
    return std::clamp<uint64_t>(3 * cluster_.read_counts().slices.us(), kLeastHedgeUs, kMostHedgeUs);
  }

  void count_degraded() {
    if (!degraded_.exchange(true)) ++cluster_.read_counts().degraded;
  }

  void recover(const Layout::Stretch& stretch, Error error, const Done<store::Extent>& done) {
    count_degraded();
    rebuild(stretch, std::move(error),
            [done](Result<std::string> bytes) { done(in_buffer(std::move(bytes))); });
  }

  void read_slice(const SliceRange& range, Done<std::string> done) {
    const DriveId drive = (*holders_.load())[range.slot];
    const uint32_t node = cluster_.node_of(drive);
    if (node == 0) return done(make_error(Code::kUnavailable, "the node of a slice is not in the map"));
    ReadRequest request{drive, spread_.write_id, static_cast<uint8_t>(range.slot), range.offset,
                        static_cast<uint32_t>(range.size)};
    cluster_.call(node, std::move(request), [done = std::move(done)](Result<Reply> reply) {
      if (!reply) return done(reply.take_error());
      auto* bytes = std::get_if<BytesReply>(&*reply);
      if (bytes == nullptr) return done(make_error(Code::kCorrupt, "a holder answered nonsense"));
      done(std::move(bytes->bytes));
    });
  }

  // One after the other the slots that were not tried; copies are read, others gathered until there are k.
  struct Rebuilding {
    Layout::Stretch stretch;
    uint64_t stripe = 0;
    std::vector<unsigned> untried;  // the best at the end
    std::vector<unsigned> slots;
    std::vector<std::string> bytes;  // at the same positions
    std::optional<Error> error;
    bool found_again = false;  // the holders were looked up once more
    Done<std::string> done;
  };

  void rebuild(const Layout::Stretch& stretch, Error error, Done<std::string> done) {
    const auto rebuilding = std::make_shared<Rebuilding>();
    rebuilding->stretch = stretch;
    rebuilding->stripe = stretch.offset / layout_.cell;
    rebuilding->error = std::move(error);
    rebuilding->done = std::move(done);
    fill_untried(*rebuilding);
    gather(rebuilding);
  }

  void gather(const std::shared_ptr<Rebuilding>& rebuilding) {
    if (rebuilding->slots.size() == spread_.k) return decode(*rebuilding);
    if (rebuilding->untried.empty()) return find_again(rebuilding);
    const unsigned slot = rebuilding->untried.back();
    rebuilding->untried.pop_back();
    const uint64_t size = slice_bytes(*rebuilding, slot);
    if (size == 0) {  // a short stripe: this slot's cell ends before
      add(rebuilding, slot, "");
      return;
    }
    read_slice({slot, rebuilding->stretch.offset, size},
               [self = shared_from_this(), rebuilding, slot, size](Result<std::string> bytes) {
                 if (bytes && bytes->size() == size) return self->add(rebuilding, slot, bytes.take());
                 if (!bytes) rebuilding->error = bytes.take_error();
                 self->gather(rebuilding);
               });
  }

  // A reader that takes its time may find that all slices have moved: their holders are looked up once more.
  void find_again(const std::shared_ptr<Rebuilding>& rebuilding) {
    const auto before = holders_.load();
    const auto fail = [](Rebuilding& failed) {
      failed.done(std::move(*failed.error).within("too few slices can be read"));
    };
    if (rebuilding->found_again) return fail(*rebuilding);
    rebuilding->found_again = true;
    const ObjectName name{object_->bucket(), object_->key()};
    cluster_.find(name, [self = shared_from_this(), rebuilding, before,
                         fail](Result<std::optional<FoundObject>> found) {
      const bool same = found && *found && (*found)->record.spread.write_id == self->spread_.write_id;
      if (!same && found && *found && is_recoded(self->object_->record(), (*found)->record))
        return self->read_recoded(rebuilding, std::move((*found)->record));
      if (!same || (*found)->record.spread.holders == *before) return fail(*rebuilding);
      self->holders_.store(std::make_shared<const std::vector<DriveId>>((*found)->record.spread.holders));
      rebuilding->slots.clear();
      rebuilding->bytes.clear();
      self->fill_untried(*rebuilding);
      self->gather(rebuilding);
    });
  }

  // The bucket's redundancy was changed meanwhile: the same bytes lie in other slices.
  static bool is_recoded(const store::Record& before, const store::Record& now) {
    return now.size == before.size && now.crc32c == before.crc32c && now.etag == before.etag &&
           now.modified_ms == before.modified_ms;
  }

  void read_recoded(const std::shared_ptr<Rebuilding>& rebuilding, store::Record record) {
    const auto object = std::make_shared<const store::Object>(object_->bucket(), object_->key(),
                                                              std::move(record), std::string());
    read_on(std::make_shared<ReaderState>(cluster_, object), rebuilding, std::make_shared<std::string>());
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

  void fill_untried(Rebuilding& rebuilding) const {
    for (unsigned slot = static_cast<unsigned>(holders_.load()->size()); slot-- > 0;) {
      if (slot != rebuilding.stretch.slot || rebuilding.found_again) rebuilding.untried.push_back(slot);
    }
  }

  void add(const std::shared_ptr<Rebuilding>& rebuilding, unsigned slot, std::string bytes) {
    if (spread_.k == 1) first_copy_ = slot;  // that one answers
    if (spread_.k == 1 || slot == rebuilding->stretch.slot) return rebuilding->done(std::move(bytes));
    rebuilding->slots.push_back(slot);
    rebuilding->bytes.push_back(std::move(bytes));
    gather(rebuilding);
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
    const Coder coder(spread_.k, spread_.m);
    const std::array<unsigned, 1> wanted = {rebuilding.stretch.slot};
    const auto decoding = Decoding::make(coder, rebuilding.slots, wanted);
    if (!decoding) return rebuilding.done(decoding.error().copy());
    std::vector<Cell> cells;
    for (const std::string& bytes : rebuilding.bytes) cells.push_back(std::as_bytes(std::span(bytes)));
    std::string rebuilt(rebuilding.stretch.size, '\0');
    const std::array<CellSpace, 1> space = {std::as_writable_bytes(std::span(rebuilt))};
    decoding->run(cells, space);
    rebuilding.done(std::move(rebuilt));
  }

  Cluster& cluster_;
  const store::ObjectPointer object_;
  const store::Spread spread_;
  const Layout layout_;
  Snapshot<std::vector<DriveId>> holders_;  // by slot; where they are by now
  std::vector<unsigned> own_;               // slots on this node's drives, as they were
  std::atomic<unsigned> first_copy_ = 0;    // of copies that are elsewhere: the one to ask
  std::atomic<bool> relayed_ = false;       // counted
  std::atomic<bool> degraded_ = false;      // counted

  Mutex mutex_;
  std::map<unsigned, std::shared_ptr<store::Reader>> local_ MR_GUARDED_BY(mutex_);  // by slot
  std::map<uint64_t, Fetch> fetches_ MR_GUARDED_BY(mutex_);                         // by offset in the object
};

class ClusterReader final : public store::Reader {
 public:
  ClusterReader(Cluster& cluster, store::ObjectPointer object)
      : state_(std::make_shared<ReaderState>(cluster, std::move(object))) {}
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
