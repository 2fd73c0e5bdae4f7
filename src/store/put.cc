// The way of a PUT from the first byte to the commit queue.
#include "store/put.h"

#include <cstring>
#include <deque>

#include "base/assert.h"
#include "base/clock.h"
#include "base/crc.h"
#include "base/fault.h"
#include "base/mutex.h"
#include "store/block_writer.h"
#include "store/commit.h"
#include "store/shard_feed.h"
#include "store/trailer.h"
#include "store/unfinished_file.h"

namespace millrace::store {

namespace {

// While the node's buffers are not plenty a block begins in a small one of its own, and takes one of them
// when that is full: so senders that trickle cannot hold them all, and the others save a copy.
constexpr size_t kStartBytes = 16 << 10;
// Who needs longer than this for a block gives way where others wait.
constexpr uint64_t kLongestHold_us = 10'000'000;

// Of bodies that are known to be small: no block buffer is taken. One more byte than the size, so that there
// is always space and too long a body is noticed.
size_t small_space(const std::optional<uint64_t>& size) {
  return size && *size <= kInlineBytes ? static_cast<size_t>(*size) + 1 : 0;
}

}  // namespace

class PutWriter::State : public std::enable_shared_from_this<State> {
 public:
  State(Core& core, PutTarget target)
      : core_(core),
        target_(std::move(target)),
        size_(target_.options.size),
        buffer_(nullptr, {&core.buffers}) {
    if (target_.upload == nullptr) {
      small_.resize(small_space(size_));
      const std::string& key = target_.options.key;
      packed_ = is_shard_name(key) && !is_plain_tar(key);
      if (is_shard_name(key)) {
        feed_.emplace(key, packed_ ? ShardFeed::Packing::kRecognise : ShardFeed::Packing::kPlain,
                      core_.memory.indexes);
      }
    }
  }

  std::span<std::byte> space();
  Status advance(size_t bytes);
  void when_space(std::function<void()> ready);
  Status set_aside();
  uint64_t bytes() const { return bytes_; }
  uint32_t crc() const { return crc32c_join(whole_crc_, block_crc_, filled_); }
  void finish(Finish finish, LocalDone done);

 private:
  std::byte* memory() {
    if (buffer_ != nullptr) return buffer_.get();
    return reinterpret_cast<std::byte*>(small_.empty() ? start_.data() : small_.data());
  }
  bool is_at_start() const {
    return buffer_ == nullptr && !is_aside_ && filled_ < kStartBytes && !core_.buffers.has_plenty();
  }
  bool holds_too_long() const {
    return buffer_ != nullptr && core_.buffers.is_short() && steady_us() - taken_us_ > kLongestHold_us;
  }
  Status bring_back();
  void send_block();
  void block_done(Status status);
  void finish_inline();
  void finish_file();
  Result<Change> write_file();
  Record make_record(uint64_t number);
  bool is_full() const MR_REQUIRES(mutex_) {
    return in_flight_ >= kMaxInFlight || to_unpack_.size() >= kMaxInFlight;
  }
  void unpack_next();
  // What goes on once a block was written or unpacked; done without the mutex.
  struct Next {
    std::function<void()> ready;
    bool finish = false;
  };
  Next take_next() MR_REQUIRES(mutex_);
  void go_on(const Next& next);
  void settle_shard(Record& record, std::string& shard_index);
  std::string_view rest();

  Core& core_;
  PutTarget target_;
  const std::optional<uint64_t> size_;

  // The caller's thread, until finish().
  std::string small_;
  std::string start_;  // of a block that has no buffer yet
  BufferPool::Buffer buffer_;
  uint64_t taken_us_ = 0;  // when the buffer was
  bool is_aside_ = false;  // the file has what is filled; no buffer has it
  size_t filled_ = 0;
  uint64_t bytes_ = 0;
  uint32_t block_crc_ = 0;  // of what is in the buffer
  uint32_t whole_crc_ = 0;  // of the blocks before
  std::vector<uint32_t> block_crcs_;
  // Of a plain tar it is fed by the caller's thread; of a compressed one by core_.unpackers, block by block.
  std::optional<ShardFeed> feed_;
  bool packed_ = false;
  std::shared_ptr<UnfinishedFile> file_;
  Finish finish_;
  LocalDone done_;

  struct Block {
    std::shared_ptr<std::byte> buffer;
    size_t size = 0;
  };
  Mutex mutex_;
  unsigned in_flight_ MR_GUARDED_BY(mutex_) = 0;
  std::deque<Block> to_unpack_ MR_GUARDED_BY(mutex_);  // the first is being unpacked
  std::optional<Error> error_ MR_GUARDED_BY(mutex_);
  std::function<void()> ready_ MR_GUARDED_BY(mutex_);
  bool finishing_ MR_GUARDED_BY(mutex_) = false;
};

std::span<std::byte> PutWriter::State::space() {
  if (!small_.empty()) return {memory() + filled_, small_.size() - filled_};
  if (buffer_ == nullptr) {
    {
      const MutexLock lock(mutex_);
      if (is_full() || error_) return {};
    }
    if (is_at_start()) {
      start_.resize(kStartBytes);
      return {memory() + filled_, kStartBytes - filled_};
    }
    buffer_ = core_.buffers.take();
    if (buffer_ == nullptr) return {};
    taken_us_ = steady_us();
    if (Status back = bring_back(); !back) {
      buffer_.reset();
      const MutexLock lock(mutex_);
      error_ = back.take_error();
      return {};
    }
  }
  return {memory() + filled_, kBlockBytes - filled_};
}

// What came before there was a buffer.
Status PutWriter::State::bring_back() {
  if (!is_aside_) {
    std::memcpy(buffer_.get(), start_.data(), filled_);
    return {};
  }
  MR_TRY(file_->read_back(bytes_ - filled_, {buffer_.get(), padded_to_page(filled_)}));
  is_aside_ = false;
  return {};
}

Status PutWriter::State::set_aside() {
  if (buffer_ == nullptr || packed_ || core_.buffers.has_plenty()) return {};
  if (bytes_ <= kInlineBytes) {
    start_ = rest();
  } else {
    if (file_ == nullptr) file_ = std::make_shared<UnfinishedFile>(target_.drive, size_);
    MR_TRY(file_->write_tail(bytes_ - filled_, rest()));
    is_aside_ = true;
  }
  buffer_.reset();
  return {};
}

Status PutWriter::State::advance(size_t bytes) {
  {
    const MutexLock lock(mutex_);
    if (error_) return error_->copy();
  }
  if (bytes == 0) return {};
  if (size_ && bytes_ + bytes > *size_) {
    return make_error(Code::kInvalid, "the body is longer than the {} bytes that were announced", *size_);
  }
  if (bytes_ + bytes > kMaxObjectBytes) return make_error(Code::kTooLarge, "the object is above the maximum");
  const std::string_view fresh(reinterpret_cast<const char*>(memory() + filled_), bytes);
  block_crc_ = millrace::crc32c(fresh, block_crc_);
  if (feed_ && !packed_) feed_->add(fresh);
  filled_ += bytes;
  bytes_ += bytes;
  if (small_.empty() && filled_ == kBlockBytes) {
    send_block();
  } else if (holds_too_long()) {
    return make_error(Code::kUnavailable, "the body comes too slowly, and others wait for memory");
  }
  return {};
}

void PutWriter::State::send_block() {
  if (file_ == nullptr) file_ = std::make_shared<UnfinishedFile>(target_.drive, size_);
  block_crcs_.push_back(block_crc_);
  whole_crc_ = crc32c_join(whole_crc_, block_crc_, filled_);
  block_crc_ = 0;
  BlockWrite write;
  write.file = file_;
  write.buffer = std::move(buffer_);
  const Block block{write.buffer, filled_};
  write.offset = bytes_ - filled_;
  write.size = filled_;
  write.done = [self = shared_from_this()](Status status) { self->block_done(std::move(status)); };
  filled_ = 0;
  bool unpack = false;
  {
    const MutexLock lock(mutex_);
    ++in_flight_;
    if (feed_ && packed_) to_unpack_.push_back(block);
    unpack = to_unpack_.size() == 1;
  }
  target_.drive->blocks().push(std::move(write));
  if (!unpack || core_.unpackers.submit([self = shared_from_this()] { self->unpack_next(); })) return;
  // Too many wait already: this shard is indexed when it is whole.
  feed_.reset();
  const MutexLock lock(mutex_);
  to_unpack_.clear();
}

void PutWriter::State::unpack_next() {
  Block block;
  {
    const MutexLock lock(mutex_);
    block = to_unpack_.front();
  }
  feed_->add({reinterpret_cast<const char*>(block.buffer.get()), block.size});
  block.buffer.reset();
  Next next;
  bool more = false;
  {
    const MutexLock lock(mutex_);
    to_unpack_.pop_front();
    more = !to_unpack_.empty();
    next = take_next();
  }
  go_on(next);
  // One block at a time, so that no shard holds up the others.
  if (more && !core_.unpackers.submit([self = shared_from_this()] { self->unpack_next(); })) unpack_next();
}

void PutWriter::State::block_done(Status status) {
  Next next;
  {
    const MutexLock lock(mutex_);
    --in_flight_;
    if (!status && !error_) error_ = status.take_error();
    next = take_next();
  }
  go_on(next);
}

PutWriter::State::Next PutWriter::State::take_next() {
  return {std::exchange(ready_, nullptr), finishing_ && in_flight_ == 0 && to_unpack_.empty()};
}

void PutWriter::State::go_on(const Next& next) {
  if (next.ready) next.ready();
  if (next.finish) finish_file();
}

void PutWriter::State::when_space(std::function<void()> ready) {
  {
    const MutexLock lock(mutex_);
    if (!error_ && is_full()) {
      ready_ = std::move(ready);
      return;
    }
    if (error_ || buffer_ != nullptr || !small_.empty() || is_at_start()) {
      // Answered below.
    } else {
      // The pool is empty: whoever gives a buffer back wakes us.
      ready = [this_pool = &core_.buffers, ready = std::move(ready)] { this_pool->when_free(ready); };
    }
  }
  ready();
}

std::string_view PutWriter::State::rest() {
  return {reinterpret_cast<const char*>(memory()), filled_};
}

void PutWriter::State::finish(Finish finish, LocalDone done) {
  finish_ = std::move(finish);
  done_ = std::move(done);
  if (size_ && bytes_ != *size_) {
    done_(make_error(Code::kTruncated, "the body has {} bytes, {} were announced", bytes_, *size_));
    return;
  }
  if (target_.upload == nullptr && bytes_ <= kInlineBytes) {
    const bool taken =
        packed_ && target_.drive->finishers().submit([self = shared_from_this()] { self->finish_inline(); });
    if (!taken) finish_inline();
    return;
  }
  {
    const MutexLock lock(mutex_);
    finishing_ = true;
    if (in_flight_ > 0 || !to_unpack_.empty()) return;
  }
  finish_file();
}

Record PutWriter::State::make_record(uint64_t number) {
  Record record;
  record.version.counter = number;
  record.size = bytes_;
  record.modified_ms = wall_ms();
  record.crc32c = crc();
  record.etag = finish_.etag.empty() ? make_etag(number, record.crc32c, 1) : finish_.etag;
  if (target_.upload == nullptr) {
    record.headers = std::move(target_.options.headers);
    record.tags = std::move(target_.options.tags);
  }
  for (NameValue& header : finish_.headers) record.headers.push_back(std::move(header));
  return record;
}

void PutWriter::State::settle_shard(Record& record, std::string& shard_index) {
  if (target_.upload != nullptr || !is_shard_name(target_.options.key)) return;
  if (!feed_) {
    record.shard = ShardState::kPending;
    return;
  }
  if (packed_) feed_->add(rest());
  auto index = feed_->finish();
  if (feed_->starved()) {
    record.shard = ShardState::kPending;
    return;
  }
  note_index(record, index, feed_->samples());
  if (index) shard_index = index.take();
}

void PutWriter::State::finish_inline() {
  Change change;
  change.kind = Change::Kind::kPut;
  change.bucket = target_.options.bucket;
  change.key = target_.options.key;
  change.condition = target_.options.condition;
  change.durability = target_.durability;
  change.drive = target_.drive;
  // The etag needs a number of its own only where the client gave none; the version comes at the commit.
  change.record = make_record(core_.clock.next());
  change.record.version = {};
  // The index of a shard this small is made again whenever it is asked for.
  std::string shard_index;
  settle_shard(change.record, shard_index);
  change.inline_bytes = std::string(rest());
  change.done = std::move(done_);
  buffer_.reset();
  MR_FAULT("put.inline");
  core_.submit(std::move(change));
}

void PutWriter::State::finish_file() {
  auto work = [self = shared_from_this()] {
    auto change = self->write_file();
    self->buffer_.reset();
    self->file_.reset();
    if (!change) {
      self->done_(change.take_error());
      return;
    }
    change->done = std::move(self->done_);
    self->core_.submit(change.take());
  };
  if (!target_.drive->finishers().submit(std::move(work))) {
    done_(make_error(Code::kCancelled, "the store is being closed"));
  }
}

Result<Change> PutWriter::State::write_file() {
  {
    const MutexLock lock(mutex_);
    if (error_) return std::move(*error_);
  }
  const uint64_t started_us = steady_us();
  if (file_ == nullptr) file_ = std::make_shared<UnfinishedFile>(target_.drive, size_);
  const uint64_t name = core_.clock.next();
  Trailer trailer;
  trailer.record = make_record(name);
  if (filled_ > 0) block_crcs_.push_back(block_crc_);
  settle_shard(trailer.record, trailer.shard_index);
  trailer.record.pieces = {Piece{name, bytes_}};
  trailer.record.head = name;
  trailer.file = name;
  trailer.data_size = bytes_;
  trailer.bucket = target_.options.bucket;
  trailer.key = target_.options.key;
  trailer.block_crcs = std::move(block_crcs_);
  if (target_.upload != nullptr) {
    trailer.kind = FileKind::kPart;
    trailer.upload = target_.upload->id;
    trailer.part_number = target_.part;
    trailer.initiated_ms = target_.upload->initiated_ms;
    trailer.upload_headers = target_.upload->headers;
    trailer.upload_tags = target_.upload->tags;
  }
  const std::string end = encode_trailer(trailer);
  if (is_aside_) {
    MR_TRY(file_->write_tail(padded_to_page(bytes_), end));
  } else {
    // The last block, zeros up to the page, and the trailer in one go.
    std::string tail(rest());
    tail.resize(padded_to_page(tail.size()));
    tail += end;
    MR_TRY(file_->write_tail(bytes_ - filled_, tail));
  }
  MR_TRY(file_->publish(name, padded_to_page(bytes_) + end.size(), target_.durability));
  target_.drive->writes.count(filled_, steady_us() - started_us);

  Change change;
  change.kind = target_.upload != nullptr ? Change::Kind::kPart : Change::Kind::kPut;
  change.bucket = target_.options.bucket;
  change.key = target_.options.key;
  change.condition = target_.options.condition;
  change.durability = target_.durability;
  change.drive = target_.drive;
  change.new_files = {name};
  change.record = std::move(trailer.record);
  if (target_.upload != nullptr) change.upload = target_.upload->id;
  change.part = target_.part;
  return change;
}

PutWriter::PutWriter(Core& core, PutTarget target)
    : state_(std::make_shared<State>(core, std::move(target))) {}
PutWriter::~PutWriter() = default;

std::span<std::byte> PutWriter::space() {
  return state_->space();
}
Status PutWriter::advance(size_t bytes) {
  return state_->advance(bytes);
}
void PutWriter::when_space(std::function<void()> ready) {
  state_->when_space(std::move(ready));
}
Status PutWriter::set_aside() {
  return state_->set_aside();
}
uint64_t PutWriter::bytes() const {
  return state_->bytes();
}
uint32_t PutWriter::crc32c() const {
  return state_->crc();
}
void PutWriter::finish(Finish finish, Done<ObjectPointer> done) {
  state_->finish(std::move(finish),
                 [done = std::move(done)](Result<std::shared_ptr<const LocalObject>> object) {
                   done(shown(std::move(object)));
                 });
}

std::string make_etag(uint64_t version, uint32_t crc32c, size_t parts) {
  return fmt::format("{:016x}{:08x}{:08x}-{}", version, crc32c,
                     static_cast<uint32_t>(version * 0x9e3779b97f4a7c15 >> 32), parts);
}

Result<Record> write_head(Core& core, const HeadOptions& options, Record record) {
  Trailer trailer;
  trailer.kind = FileKind::kHead;
  trailer.file = core.clock.next();
  trailer.bucket = options.bucket;
  trailer.key = options.key;
  trailer.record = std::move(record);
  trailer.record.head = trailer.file;
  trailer.shard_index = options.shard_index;
  const std::string end = encode_trailer(trailer);
  UnfinishedFile file(options.drive, std::nullopt);
  MR_TRY(file.write_tail(0, end));
  MR_TRY(file.publish(trailer.file, end.size(), options.durability));
  MR_FAULT("head.written");
  return std::move(trailer.record);
}

}  // namespace millrace::store
