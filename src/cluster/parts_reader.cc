// Offsets of the object become offsets of its parts.
#include "cluster/parts_reader.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "cluster/hidden_bucket.h"
#include "store/reasons.h"

namespace millrace::cluster {

namespace {

using store::Done;
using store::Extent;

constexpr uint64_t kAheadBytes = 4 << 20;  // before the end of a part the next one is begun

class PartsState : public std::enable_shared_from_this<PartsState> {
 public:
  PartsState(store::ObjectPointer object, PartSource source)
      : object_(std::move(object)), source_(std::move(source)) {
    uint64_t begin = 0;
    for (const store::Piece& piece : object_->record().pieces) {
      begins_.push_back(begin);
      begin += piece.size;
    }
  }

  std::optional<Extent> find_ready(uint64_t offset, uint64_t size) {
    const Stretch stretch = locate(offset, size);
    const MutexLock lock(mutex_);
    const auto found = parts_.find(stretch.part);
    if (found == parts_.end()) return std::nullopt;
    Part& part = found->second;
    if (auto here = take_here(part, stretch)) return here;
    if (part.reader == nullptr || part.first_asked) return std::nullopt;
    return part.reader->find_ready(stretch.offset, stretch.size);
  }

  void prepare(uint64_t offset, uint64_t size, Done<Extent> done) {
    const Stretch stretch = locate(offset, size);
    {
      const MutexLock lock(mutex_);
      // Parts that the reader has left behind, or will not come to.
      std::erase_if(
          parts_, [&](const auto& one) { return one.first < stretch.part || one.first > stretch.part + 1; });
    }
    open(stretch.part, [self = shared_from_this(), stretch, done = std::move(done)](Status opened) {
      if (!opened) return done(opened.take_error());
      self->bring(stretch, done);
    });
    const uint64_t left = piece(stretch.part).size - stretch.offset;
    if (size > left && left <= kAheadBytes) begin_next(stretch.part + 1, size - left);
  }

 private:
  struct Stretch {
    size_t part = 0;
    uint64_t offset = 0;  // in the part
    uint64_t size = 0;
  };
  struct Part {
    std::vector<Done<void>> waiting;
    bool asked = false;
    std::shared_ptr<store::Reader> reader;
    std::optional<Bytes> bytes;   // of a small part
    bool reached = false;         // somebody wants its bytes: they are not asked for ahead any more
    bool first_asked = false;     // its first bytes are on their way: its reader is busy
    std::optional<Extent> first;  // they are here
    std::function<void()> then;   // once its reader is free again
  };

  const store::Piece& piece(size_t part) const { return object_->record().pieces[part]; }

  Stretch locate(uint64_t offset, uint64_t size) const {
    // The last one that begins there: those before it are empty.
    const auto behind = std::ranges::upper_bound(begins_, offset);
    const auto part = static_cast<size_t>(behind - begins_.begin()) - 1;
    const uint64_t inside = offset - begins_[part];
    return {part, inside, std::min(size, piece(part).size - inside)};
  }

  // What needs no reader: the bytes of a small part, or the first bytes of the part, once.
  static std::optional<Extent> take_here(Part& part, const Stretch& stretch) {
    if (part.bytes) {
      Extent extent;
      extent.buffer = *part.bytes;
      extent.offset = stretch.offset;
      extent.size = stretch.size;
      return extent;
    }
    if (stretch.offset != 0 || !part.first) return std::nullopt;
    std::optional<Extent> first = std::exchange(part.first, std::nullopt);
    first->size = std::min(first->size, stretch.size);
    return first;
  }

  // Calls `done` once the part can be read; at once where it can already.
  void open(size_t number, Done<void> done) {
    {
      const MutexLock lock(mutex_);
      Part& part = parts_[number];
      if (part.reader == nullptr && !part.bytes) {
        part.waiting.push_back(std::move(done));
        if (std::exchange(part.asked, true)) return;
        done = nullptr;
      }
    }
    if (done) return done({});
    source_.get(part_key(object_->record().upload, piece(number).file),
                [self = shared_from_this(), number](Result<store::ObjectPointer> part) {
                  self->opened(number, std::move(part));
                });
  }

  void opened(size_t number, Result<store::ObjectPointer> object) {
    Status status = check(number, object);
    std::vector<Done<void>> waiting;
    {
      const MutexLock lock(mutex_);
      const auto found = parts_.find(number);
      if (found == parts_.end()) return;
      Part& part = found->second;
      waiting = std::exchange(part.waiting, {});
      if (status && (*object)->is_inline()) {
        part.bytes = (*object)->inline_bytes();
      } else if (status) {
        part.reader = source_.open(*object);
      } else {
        parts_.erase(found);
      }
    }
    for (const Done<void>& one : waiting) one(status ? Status() : Status(status.error().copy()));
  }

  Status check(size_t number, Result<store::ObjectPointer>& part) const {
    const auto gone = [&](std::string_view why) {
      return make_error(Code::kUnavailable, "{}/{}: part {} of {} {}", object_->bucket(), object_->key(),
                        number + 1, begins_.size(), why)
          .with_hint("the object was replaced meanwhile: ask for it again");
    };
    if (!part && part.error().is(store::kNoSuchObject)) return gone("is gone");
    if (!part) return part.take_error();
    if ((*part)->record().size != piece(number).size) return gone("has another size");
    return {};
  }

  void bring(const Stretch& stretch, const Done<Extent>& done) {
    std::shared_ptr<store::Reader> reader;
    std::optional<Extent> here;
    {
      const MutexLock lock(mutex_);
      Part& part = parts_[stretch.part];
      part.reached = true;
      here = take_here(part, stretch);
      if (!here && part.first_asked) {
        part.then = [self = shared_from_this(), stretch, done] { self->bring(stretch, done); };
        return;
      }
      reader = part.reader;
    }
    if (here) return done(std::move(*here));
    if (reader == nullptr) return done(make_error(Code::kCancelled, "the reader went elsewhere"));
    reader->prepare(stretch.offset, stretch.size, done);
  }

  // Finds the next part and asks for its first bytes.
  void begin_next(size_t number, uint64_t size) {
    if (number >= begins_.size() || piece(number).size == 0) return;
    const uint64_t first = std::min(size, piece(number).size);
    open(number, [self = shared_from_this(), number, first](Status opened) {
      // Whoever comes to a part that cannot be opened asks again, and is told.
      if (opened) self->ask_first(number, first);
    });
  }

  void ask_first(size_t number, uint64_t size) {
    std::shared_ptr<store::Reader> reader;
    {
      const MutexLock lock(mutex_);
      Part& part = parts_[number];
      if (part.reader == nullptr || part.reached || part.first || part.first_asked) return;
      part.first_asked = true;
      reader = part.reader;
    }
    reader->prepare(0, size, [self = shared_from_this(), number](Result<Extent> first) {
      std::function<void()> then;
      {
        const MutexLock lock(self->mutex_);
        const auto found = self->parts_.find(number);
        if (found == self->parts_.end()) return;
        found->second.first_asked = false;
        if (first) found->second.first = first.take();
        then = std::exchange(found->second.then, nullptr);
      }
      if (then) then();
    });
  }

  const store::ObjectPointer object_;
  const PartSource source_;
  std::vector<uint64_t> begins_;  // of the parts, in the object
  Mutex mutex_;
  std::map<size_t, Part> parts_ MR_GUARDED_BY(mutex_);  // the one that is read, and the next
};

class PartsReader final : public store::Reader {
 public:
  PartsReader(store::ObjectPointer object, PartSource source)
      : state_(std::make_shared<PartsState>(std::move(object), std::move(source))) {}
  std::optional<Extent> find_ready(uint64_t offset, uint64_t size) override {
    return state_->find_ready(offset, size);
  }
  void prepare(uint64_t offset, uint64_t size, Done<Extent> done) override {
    state_->prepare(offset, size, std::move(done));
  }

 private:
  const std::shared_ptr<PartsState> state_;
};

}  // namespace

std::unique_ptr<store::Reader> open_parts_reader(store::ObjectPointer object, PartSource source) {
  return std::make_unique<PartsReader>(std::move(object), std::move(source));
}

}  // namespace millrace::cluster
