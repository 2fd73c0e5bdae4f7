// Cells, stripes, and the messages that carry them.
#include "cluster/cluster_writer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/clock.h"
#include "base/crc.h"
#include "base/mutex.h"
#include "base/random.h"
#include "cluster/cluster_shards.h"
#include "cluster/hidden_bucket.h"
#include "cluster/places.h"
#include "cluster/reasons.h"
#include "cluster/stripe.h"
#include "store/put.h"
#include "store/shard_feed.h"

namespace millrace::cluster {

namespace {

constexpr size_t kLeastGrowth = 4 << 10;  // of what a PUT holds before it is clear that it is not small
constexpr uint64_t kCellStep = 64 << 10;
// While others wait for memory, a PUT that is slower than this for so long makes room.
constexpr uint64_t kPatienceUs = 20'000'000;
constexpr uint64_t kLeastBytesPerSecond = 256 << 10;
// Each time costs as much as the first.
constexpr uint64_t kSendAgainUs = 1'000'000;

// Cells of objects below k MiB are smaller, so that all k drives share the work.
uint32_t cell_for(std::optional<uint64_t> size, unsigned k) {
  if (!size) return kCellBytes;
  const uint64_t share = (std::max(*size, kCopiedBytes + 1) / k + kCellStep) / kCellStep * kCellStep;
  return static_cast<uint32_t>(std::clamp<uint64_t>(share, kCellStep, kCellBytes));
}

store::PutOptions options_of(const ObjectName& name, const store::Record& moved) {
  store::PutOptions options;
  options.bucket = name.bucket;
  options.key = name.key;
  options.size = moved.size;
  return options;
}

}  // namespace

class ClusterWriter::State : public std::enable_shared_from_this<State> {
 public:
  State(Cluster& cluster, store::PutOptions options, ClusterShards* shards,
        std::optional<store::Record> moved)
      : cluster_(cluster),
        options_(std::move(options)),
        name_{options_.bucket, options_.key},
        shards_(store::is_shard_name(name_.key) ? shards : nullptr),
        moved_(std::move(moved)),
        memory_(cluster.stripe_memory()) {
    if (shards_ != nullptr && store::is_plain_tar(name_.key))
      feed_.emplace(name_.key, store::ShardFeed::Packing::kPlain, shards_->feed_memory());
  }

  std::span<std::byte> space() {
    if (spread_.holders.empty()) return grow_start();
    {
      const MutexLock lock(mutex_);
      if (!charged_ || (filled_ == stripe_bytes() && sending_ > 0)) return {};
    }
    make_cells();
    return space_in_cell();
  }

  Status advance(size_t bytes) {
    {
      const MutexLock lock(mutex_);
      if (error_) return error_->copy();
    }
    if (Status fast = check_speed(); !fast) return fast;
    const bool begun = !spread_.holders.empty();
    if (bytes > 0) take_in(begun ? space_in_cell() : space_at_start(), bytes);
    if (!begun) return filled_ <= kCopiedBytes ? Status() : begin_slices();
    return filled_ < stripe_bytes() ? Status() : send_if_free();
  }

  void when_space(std::function<void()> ready) {
    {
      const MutexLock lock(mutex_);
      if ((sending_ > 0 || must_wait()) && !error_) {
        ready_ = std::move(ready);
        return;
      }
    }
    static_cast<void>(send_if_free());
    ready();
  }

  uint64_t bytes() const { return bytes_; }
  uint32_t crc() const { return crc_; }

  void finish(store::Finish finish, Done<store::ObjectPointer> done) {
    if (moved_ && (moved_->size != bytes_ || moved_->crc32c != crc_)) {
      // Without done_: cells that are on their way must not go on with this.
      abandon();
      return done(make_error(Code::kCorrupt, "{}/{}: what was read of it is not what was written",
                             name_.bucket, name_.key));
    }
    done_ = std::move(done);
    make_record(finish);
    deadline_us_ = steady_us() + Requester::kPatienceUs;
    if (spread_.holders.empty()) return finish_small();
    bool wait = false;
    {
      const MutexLock lock(mutex_);
      finishing_ = true;
      wait = sending_ > 0 || must_wait();
    }
    if (!wait) finish_slices();
  }

  // The caller is gone; without a commit nothing stays.
  void abandon() {
    {
      const MutexLock lock(mutex_);
      if (std::exchange(finishing_, true)) return;
    }
    drop_slices();
  }

 private:
  void make_record(const store::Finish& finish) {
    if (moved_) {
      record_ = *moved_;
      return;
    }
    record_.size = bytes_;
    record_.crc32c = crc_;
    record_.modified_ms = wall_ms();
    record_.headers = options_.headers;
    record_.headers.insert(record_.headers.end(), finish.headers.begin(), finish.headers.end());
    record_.tags = options_.tags;
    record_.etag = finish.etag;
    if (record_.etag.empty() && !spread_.holders.empty()) record_.etag = own_etag();
    if (shards_ != nullptr) settle_shard();
  }

  // What the record says of the index, which is kept once the shard is there.
  void settle_shard() {
    record_.shard = store::ShardState::kPending;
    if (!feed_) return;
    auto index = feed_->finish();
    if (!feed_->starved()) store::note_index(record_, index, feed_->samples());
    if (index && keeps_index(record_)) {
      record_.shard_index_size = index->size();
      index_ = std::make_shared<const std::string>(index.take());
    }
    feed_.reset();
  }

  std::string own_etag() const { return store::make_etag(mix(hash64_of_write()), crc_, 1); }
  uint64_t hash64_of_write() const {
    uint64_t value = 0;
    std::memcpy(&value, spread_.write_id.data(), std::min(sizeof(value), spread_.write_id.size()));
    return value;
  }

  // More than a small object: chooses its holders, and waits for the memory of two stripes.
  Status begin_slices() {
    auto spread = cluster_.choose_spread(name_, Requester::Size::kLarge);
    if (!spread) return spread.take_error();
    cell_ = cell_for(options_.size, spread->k);
    if (spread->k > 1) spread->cell = cell_;
    coder_.emplace(spread->k, spread->m);
    const uint64_t slots = spread->k == 1 ? 1 : size_t{spread->k} + spread->m;
    {
      const MutexLock lock(mutex_);
      spread_ = spread.take();
    }
    ++memory_->waiting;
    const auto granted = [self = shared_from_this()](Charge charge) { self->hear_memory(std::move(charge)); };
    Status asked = memory_->budget.take_later(cell_ * (spread_.k + slots), granted);
    if (!asked) --memory_->waiting;
    return asked;
  }

  // Slow senders could hold all memory for as long as they like.
  Status check_speed() const {
    if (charged_us_ == 0 || memory_->waiting == 0) return {};
    const uint64_t took_us = steady_us() - charged_us_;
    if (took_us < kPatienceUs || bytes_ * 1'000'000 / took_us >= kLeastBytesPerSecond) return {};
    return make_error(
               Code::kUnavailable,
               "{}/{} comes at less than {} KiB a second, and others wait for the memory that it holds",
               name_.bucket, name_.key, kLeastBytesPerSecond >> 10)
        .with_hint("send it again later, or in parts");
  }

  void hear_memory(Charge charge) {
    --memory_->waiting;
    charged_us_ = steady_us();
    std::function<void()> ready;
    bool finish = false;
    {
      const MutexLock lock(mutex_);
      charge_ = std::move(charge);
      charged_ = true;
      ready = std::exchange(ready_, nullptr);
      finish = finishing_ && done_ != nullptr;
    }
    if (finish) return finish_slices();
    if (ready) ready();
  }

  // For the memory of its stripes.
  bool must_wait() const MR_REQUIRES(mutex_) { return !spread_.holders.empty() && !charged_; }

  uint64_t stripe_bytes() const { return uint64_t{cell_} * spread_.k; }

  void take_in(std::span<const std::byte> filled, size_t bytes) {
    const std::string_view added(reinterpret_cast<const char*>(filled.data()), bytes);
    crc_ = millrace::crc32c(added, crc_);
    if (feed_) feed_->add(added);
    filled_ += bytes;
    bytes_ += bytes;
  }

  // One byte more than a small object has: so it shows where one is not small, or longer than was said.
  std::span<std::byte> grow_start() {
    constexpr size_t kMost = kCopiedBytes + 1;
    if (filled_ == start_.size()) {
      const uint64_t said = options_.size ? *options_.size + 1 : 0;
      start_.resize(std::min<uint64_t>(kMost, std::max({said, 2 * filled_, filled_ + kLeastGrowth})));
    }
    return space_at_start();
  }
  std::span<std::byte> space_at_start() { return std::as_writable_bytes(std::span(start_)).subspan(filled_); }

  // Where the next bytes of the stripe go.
  std::span<std::byte> space_in_cell() const {
    if (filled_ == stripe_bytes()) return {};
    return cells_[filled_ / cell_].span().subspan(filled_ % cell_);
  }

  // What came before the first stripe is less than that.
  void make_cells() {
    if (!cells_.empty()) return;
    for (unsigned slot = 0; slot < spread_.k; ++slot) cells_.push_back(cluster_.blocks().take(cell_));
    if (start_.empty()) return;
    MR_ASSERT(filled_ < stripe_bytes());
    for (size_t at = 0; at < filled_; at += cell_) {
      const size_t now = std::min<size_t>(cell_, filled_ - at);
      std::memcpy(cells_[at / cell_].span().data(), start_.data() + at, now);
    }
    std::string().swap(start_);
  }

  Status send_if_free() {
    {
      const MutexLock lock(mutex_);
      if (error_) return error_->copy();
      if (sending_ > 0 || spread_.holders.empty() || !charged_ || filled_ < stripe_bytes()) return {};
    }
    return send_stripe();
  }

  // By slot: what each holder gets of the stripe. The last stripe may be short.
  std::vector<Bytes> take_slices() {
    const std::vector<Block> cells = std::exchange(cells_, {});
    if (spread_.k == 1) return std::vector<Bytes>(spread_.holders.size(), cells.front().share(filled_));
    std::vector<Bytes> slices;
    std::vector<Cell> views;
    for (size_t slot = 0; slot < spread_.k; ++slot) {
      const size_t begin = std::min<size_t>(slot * cell_, filled_);
      slices.push_back(cells[slot].share(std::min<size_t>(cell_, filled_ - begin)));
      views.push_back(std::as_bytes(std::span(slices.back().view())));
    }
    std::vector<Block> parity;
    std::vector<CellSpace> spaces;
    for (unsigned i = 0; i < spread_.m; ++i) {
      parity.push_back(cluster_.blocks().take(slices.front().size()));
      spaces.push_back(parity.back().span());
    }
    coder_->encode(views, spaces);
    for (const Block& cell : parity) slices.push_back(cell.share(cell.size()));
    return slices;
  }

  // Gives every holder its cell of what is in the buffer.
  Status send_stripe() {
    make_cells();
    std::vector<Bytes> slices = take_slices();
    if (is_whole()) whole_ = slices;
    // Before the first answer can come: the last one goes on with what is in the buffer then.
    filled_ = 0;
    send(std::move(slices));
    return {};
  }

  // The stripe that is about to be sent is all of the object: it can be sent again if holders go away.
  bool is_whole() {
    const MutexLock lock(mutex_);
    return !moved_ && sent_[0] == 0 && (finishing_ || options_.size == bytes_);
  }

  // A cell to each holder.
  void send(std::vector<Bytes> slices) {
    {
      const MutexLock lock(mutex_);
      sending_ = spread_.holders.size();
    }
    for (size_t slot = 0; slot < spread_.holders.size(); ++slot) {
      AppendRequest append{spread_.holders[slot], spread_.write_id, static_cast<uint8_t>(slot), sent_[slot],
                           std::move(slices[slot])};
      sent_[slot] += append.bytes.size();
      cluster_.call(cluster_.node_of(append.drive), std::move(append),
                    [self = shared_from_this()](Result<Reply> reply) { self->hear(std::move(reply)); });
    }
  }

  void hear(Result<Reply> reply) {
    std::function<void()> ready;
    bool finish = false;
    {
      const MutexLock lock(mutex_);
      if (!reply && !error_) error_ = reply.take_error().within("a holder's slice");
      if (--sending_ > 0) return;
      ready = std::exchange(ready_, nullptr);
      finish = finishing_ && done_ != nullptr;
    }
    if (finish) return finish_slices();
    if (!ready) return;
    // The next stripe may be full already.
    ready();
  }

  void finish_small() {
    {
      const MutexLock lock(mutex_);
      finishing_ = true;
    }
    if (bytes_ > store::kInlineBytes) record_.pieces = {{0, bytes_}};
    put_small();
  }

  // The bytes are all here: while holders are missing it is tried again, until the map says who is left.
  void put_small() {
    auto spread = cluster_.choose_spread(name_, Requester::Size::kSmall);
    if (!spread) return done_(spread.take_error());
    spread_ = spread.take();
    record_.spread = spread_;
    CommitRequest request{commit_kind(), 0, name_, record_, options_.condition};
    if (record_.etag.empty()) request.record.etag = own_etag();
    std::vector<std::string> slices(spread_.holders.size(), start_.substr(0, filled_));
    cluster_.put(std::move(request), std::move(slices),
                 [self = shared_from_this()](Result<store::Record> put) {
                   if (put) return self->answer(put.take());
                   if (!put.error().is(kHoldersChanged) || steady_us() >= self->deadline_us_)
                     return self->done_(put.take_error());
                   self->cluster_.after(Requester::kRetryUs, [self] { self->put_small(); });
                 });
  }

  // The rest of the last stripe, then the flushes, then the commit.
  void finish_slices() {
    if (auto error = take_error()) return fail_or_send_again(std::move(*error));
    if (filled_ > 0) {
      static_cast<void>(send_stripe());
      return;
    }
    {
      const MutexLock lock(mutex_);
      flushing_ = spread_.holders.size();
    }
    for (size_t slot = 0; slot < spread_.holders.size(); ++slot) {
      FinishRequest request{spread_.holders[slot], name_, spread_, sent_[slot]};
      request.spread.slot = static_cast<uint8_t>(slot);
      cluster_.call(cluster_.node_of(request.drive), std::move(request),
                    [self = shared_from_this()](Result<Reply> reply) { self->hear_flush(std::move(reply)); });
    }
  }

  void hear_flush(Result<Reply> reply) {
    {
      const MutexLock lock(mutex_);
      if (!reply && !error_) error_ = reply.take_error().within("a holder's slice");
      if (--flushing_ > 0) return;
    }
    if (auto error = take_error()) return fail_or_send_again(std::move(*error));
    record_.pieces = {{0, bytes_}};
    record_.spread = spread_;
    CommitRequest request{commit_kind(), 0, name_, record_, options_.condition};
    cluster_.commit(std::move(request),
                    [self = shared_from_this()](Result<std::optional<store::Record>> committed) {
                      if (committed) return self->answer(*committed.take());
                      // Any other error says that it was refused for good, or may have happened.
                      if (committed.error().is(kHoldersChanged))
                        return self->fail_or_send_again(committed.take_error());
                      self->done_(committed.take_error());
                    });
  }

  // While holders are missing it is tried again, until the map says who is left.
  void fail_or_send_again(Error error) {
    if (whole_.empty() || steady_us() >= deadline_us_) return fail(std::move(error));
    drop_slices();
    const auto why = std::make_shared<Error>(std::move(error));
    cluster_.after(kSendAgainUs, [self = shared_from_this(), why] { self->send_again(*why); });
  }

  void send_again(const Error& why) {
    auto spread = cluster_.choose_spread(name_, Requester::Size::kLarge);
    // Parity of a redundancy that was changed meanwhile is not here.
    const bool fits =
        spread && spread->k == spread_.k && (spread->k == 1 || spread->holders.size() <= whole_.size());
    if (!fits) return done_(spread ? why.copy() : spread.take_error());
    spread->cell = spread_.cell;
    {
      const MutexLock lock(mutex_);
      spread_ = spread.take();
    }
    sent_ = {};
    std::vector<Bytes> slices = whole_;
    slices.resize(spread_.holders.size(), whole_.front());
    send(std::move(slices));
  }

  CommitRequest::Kind commit_kind() const {
    return moved_ ? CommitRequest::Kind::kMove : CommitRequest::Kind::kPut;
  }

  std::optional<Error> take_error() {
    const MutexLock lock(mutex_);
    return std::exchange(error_, std::nullopt);
  }

  void fail(Error error) {
    drop_slices();
    done_(std::move(error));
  }

  // Only what was never sent to a home is dropped: after that the outcome is not known here.
  void drop_slices() {
    if (!spread_.holders.empty()) cluster_.drop(name_, spread_);
  }

  void answer(store::Record record) {
    std::string bytes = record.pieces.empty() ? start_.substr(0, filled_) : "";
    const store::ObjectPointer object =
        std::make_shared<const store::Object>(name_.bucket, name_.key, std::move(record), std::move(bytes));
    if (index_ != nullptr) shards_->keep(object, std::move(index_));
    if (shards_ != nullptr && object->record().shard == store::ShardState::kPending)
      shards_->build_later(object);
    done_(object);
  }

  Cluster& cluster_;
  const store::PutOptions options_;
  const ObjectName name_;
  ClusterShards* const shards_;  // none: the object is no shard
  const std::optional<store::Record> moved_;
  const std::shared_ptr<StripeMemory> memory_;  // before the charge
  std::atomic<uint64_t> charged_us_ = 0;        // when it got its memory
  // The caller's thread, until finish(); then one callback after the other.
  std::string start_;         // the first bytes, until it is clear that the object is not small
  std::vector<Block> cells_;  // of the stripe that is being filled, by slot
  size_t filled_ = 0;         // bytes that were not sent yet
  uint64_t bytes_ = 0;
  uint32_t crc_ = 0;
  uint32_t cell_ = 0;
  store::Spread spread_;  // no holders: not begun, perhaps a small object
  std::optional<Coder> coder_;
  std::array<uint64_t, store::kMaxSlices> sent_{};  // by slot
  std::vector<Bytes> whole_;                        // by slot, where one stripe is the whole object
  uint64_t deadline_us_ = 0;                        // until which it is tried again, once all bytes are here
  store::Record record_;
  std::optional<store::ShardFeed> feed_;  // of a plain tar
  ClusterShards::Index index_;            // of one that is whole
  Done<store::ObjectPointer> done_;

  Mutex mutex_;
  Charge charge_ MR_GUARDED_BY(mutex_);  // for cells that are filled, and those on their way
  bool charged_ MR_GUARDED_BY(mutex_) = false;
  size_t sending_ MR_GUARDED_BY(mutex_) = 0;  // cells without an answer
  size_t flushing_ MR_GUARDED_BY(mutex_) = 0;
  bool finishing_ MR_GUARDED_BY(mutex_) = false;
  std::optional<Error> error_ MR_GUARDED_BY(mutex_);
  std::function<void()> ready_ MR_GUARDED_BY(mutex_);
};

ClusterWriter::ClusterWriter(Cluster& cluster, store::PutOptions options, ClusterShards* shards)
    : state_(std::make_shared<State>(cluster, std::move(options), shards, std::nullopt)) {}
ClusterWriter::ClusterWriter(Cluster& cluster, const ObjectName& name, store::Record moved)
    : state_(std::make_shared<State>(cluster, options_of(name, moved), nullptr, std::move(moved))) {}
ClusterWriter::~ClusterWriter() {
  state_->abandon();
}
std::span<std::byte> ClusterWriter::space() {
  return state_->space();
}
Status ClusterWriter::advance(size_t bytes) {
  return state_->advance(bytes);
}
void ClusterWriter::when_space(std::function<void()> ready) {
  state_->when_space(std::move(ready));
}
uint64_t ClusterWriter::bytes() const {
  return state_->bytes();
}
uint32_t ClusterWriter::crc32c() const {
  return state_->crc();
}
void ClusterWriter::finish(store::Finish finish, Done<store::ObjectPointer> done) {
  state_->finish(std::move(finish), std::move(done));
}

}  // namespace millrace::cluster
