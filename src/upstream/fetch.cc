// Chooses stretches, receives them, hands bytes to readers and to the writer.
#include "upstream/fetch.h"

#include <algorithm>
#include <utility>

#include "store/reasons.h"
#include "store/waiting.h"

namespace millrace::upstream {

namespace {

// Stays in the second-level cache between socket and writer.
constexpr size_t kReadBytes = 256 << 10;

uint64_t block_of(uint64_t offset) {
  return offset / kFetchBlock * kFetchBlock;
}

}  // namespace

Fetch::Fetch(Surroundings around, FetchPlan plan, std::shared_ptr<Source> source)
    : around_(std::move(around)),
      plan_(std::move(plan)),
      source_(std::move(source)),
      verifier_(plan_.checksum) {}

void Fetch::start(Result<std::unique_ptr<store::Writer>> writer, Ended ended) {
  if (writer) writer_ = writer.take();
  {
    const MutexLock lock(mutex_);
    ended_.push_back(std::move(ended));
    if (state_ != State::kWaiting) return;
    state_ = State::kRunning;
    writing_ = plan_.size == 0 && writer_ != nullptr;
  }
  around_.memory->add(weak_from_this());
  if (!writer) return take_write_error(writer.take_error());
  if (plan_.size == 0) return finish_writing();
  pump();
}

size_t Fetch::slot_bytes(uint64_t begin) const {
  return static_cast<size_t>(std::min(kFetchBlock, plan_.size - begin));
}

uint64_t Fetch::readable_end(const Wanted& wanted) const {
  return wanted.whole && !verified_ ? block_of(plan_.size - 1) : plan_.size;
}

std::optional<store::Extent> Fetch::find_now(const Wanted& wanted) {
  const uint64_t begin = block_of(wanted.offset);
  const auto found = slots_.find(begin);
  if (found == slots_.end()) return std::nullopt;
  Slot& slot = found->second;
  const uint64_t end = std::min({begin + slot.filled, wanted.offset + wanted.size, readable_end(wanted)});
  if (end <= wanted.offset) return std::nullopt;
  slot.touched = ++clock_;
  const std::span<std::byte> all = slot.memory->span();
  const std::string_view view(reinterpret_cast<const char*>(all.data()), static_cast<size_t>(end - begin));
  store::Extent extent;
  extent.buffer = Bytes(slot.memory, view);
  extent.offset = wanted.offset - begin;
  extent.size = end - wanted.offset;
  return extent;
}

std::optional<store::Extent> Fetch::find(const Wanted& wanted) {
  const MutexLock lock(mutex_);
  return find_now(wanted);
}

void Fetch::wait(const Wanted& wanted, Arrived arrived) {
  Answers answers;
  {
    const MutexLock lock(mutex_);
    waiters_.push_back({wanted, std::move(arrived)});
    answers = take_answers();
  }
  for (const auto& answer : answers) answer();
  pump();
}

store::ObjectPointer Fetch::stored() const {
  const MutexLock lock(mutex_);
  return stored_;
}

uint64_t Fetch::bytes_written() const {
  const MutexLock lock(mutex_);
  return unstored_ ? 0 : written_;
}

void Fetch::when_ended(Ended ended) {
  std::optional<Result<store::ObjectPointer>> outcome;
  {
    const MutexLock lock(mutex_);
    if (state_ == State::kStored) outcome.emplace(stored_);
    if (failure_) outcome.emplace(failure_->copy());
    if (!outcome) ended_.push_back(ended);
  }
  if (outcome) ended(std::move(*outcome));
}

Fetch::Answers Fetch::take_answers() {
  Answers answers;
  std::erase_if(waiters_, [&](Waiter& waiter) MR_REQUIRES(mutex_) {
    auto extent = find_now(waiter.wanted);
    if (!extent && !has_ended()) return false;
    // Shared, because what a std::function holds must be copyable, and an error is not.
    using Outcome = Result<std::optional<store::Extent>>;
    const bool is_lost = !extent && state_ == State::kFailed;
    auto outcome =
        std::make_shared<Outcome>(is_lost ? Outcome(failure_->copy()) : Outcome(std::move(extent)));
    answers.push_back([arrived = std::move(waiter.arrived), outcome] { arrived(std::move(*outcome)); });
    return true;
  });
  return answers;
}

void Fetch::answer_waiters() {
  Answers answers;
  {
    const MutexLock lock(mutex_);
    answers = take_answers();
  }
  for (const auto& answer : answers) answer();
}

bool Fetch::is_covered(uint64_t offset) const {
  if (slots_.contains(block_of(offset))) return true;
  // All of them: what was dropped behind one that runs may be on its way again.
  return std::ranges::any_of(running_, [&](const auto& running) {
    const Stretch& stretch = running.second;
    return offset < stretch.end && offset >= block_of(stretch.reached);
  });
}

uint64_t Fetch::free_end(uint64_t begin, uint64_t most) const {
  const uint64_t limit = std::min(plan_.size, begin + most);
  uint64_t end = begin + kFetchBlock;
  while (end < limit && !is_covered(end)) end += kFetchBlock;
  return std::min(end, limit);
}

uint64_t Fetch::begin_stretch(uint64_t begin, uint64_t end, uint64_t promised) {
  running_[++last_number_] = {begin, end, begin, promised};
  return last_number_;
}

std::optional<uint64_t> Fetch::choose_wanted() {
  if (plan_.parts == Parts::kNone) return std::nullopt;
  for (const Waiter& waiter : waiters_) {
    const uint64_t begin = block_of(waiter.wanted.offset);
    if (is_covered(begin)) continue;
    const uint64_t end = free_end(begin, kStretch);
    const uint64_t bytes = (end - begin + kFetchBlock - 1) / kFetchBlock * kFetchBlock;
    if (around_.memory->try_promise(bytes)) return begin_stretch(begin, end, bytes);
    const uint64_t block_end = free_end(begin, kFetchBlock);
    if (around_.memory->try_promise(kFetchBlock)) return begin_stretch(begin, block_end, kFetchBlock);
    // One block that can be dropped again at once is always given. Others wait for the drive: a reader who is
    // faster than that would pull the whole object into memory.
    if (unstored_ || block_end <= written_) return begin_stretch(begin, block_end, 0);
  }
  return std::nullopt;
}

std::optional<uint64_t> Fetch::choose_ahead() {
  if (running_.size() >= kStreamsAhead) return std::nullopt;
  next_ = std::max(next_, block_of(written_));
  while (next_ < plan_.size && is_covered(next_)) next_ += kFetchBlock;
  if (next_ >= plan_.size || next_ > written_ + kAhead) return std::nullopt;
  const uint64_t end = free_end(next_, kStretch);
  const uint64_t bytes = (end - next_ + kFetchBlock - 1) / kFetchBlock * kFetchBlock;
  if (!around_.memory->try_promise(bytes)) return std::nullopt;
  return begin_stretch(std::exchange(next_, end), end, bytes);
}

std::optional<uint64_t> Fetch::choose_stretch() {
  if (state_ != State::kRunning) return std::nullopt;
  // The front first: it frees memory. It needs no promise.
  const uint64_t front = block_of(written_);
  if (!unstored_ && written_ < plan_.size && !is_covered(front)) {
    const uint64_t end = free_end(front, plan_.parts == Parts::kNone ? plan_.size : kStretch);
    next_ = std::max(next_, end);
    return begin_stretch(front, end, 0);
  }
  if (auto wanted = choose_wanted()) return wanted;
  return unstored_ || plan_.parts == Parts::kNone ? std::nullopt : choose_ahead();
}

void Fetch::pump() {
  around_.memory->make_room(kStretch);
  std::vector<uint64_t> begun;
  {
    const MutexLock lock(mutex_);
    while (running_.size() < kStreams) {
      const auto number = choose_stretch();
      if (!number) break;
      begun.push_back(*number);
    }
  }
  for (const uint64_t number : begun) {
    const bool taken = around_.workers.submit([self = shared_from_this(), number] { self->run(number); });
    if (taken) continue;
    end_stretch(number);
    fail(make_error(Code::kUnavailable, "too many fetches are waiting"));
  }
}

void Fetch::end_stretch(uint64_t number) {
  const MutexLock lock(mutex_);
  around_.memory->give_back_promise(running_.at(number).promised);
  running_.erase(number);
}

void Fetch::run(uint64_t number) {
  const Status received = receive(number);
  end_stretch(number);
  if (!received) return fail(received.error());
  pump();
}

Status Fetch::receive(uint64_t number) {
  Stretch stretch;
  {
    const MutexLock lock(mutex_);
    if (has_ended()) return {};
    stretch = running_.at(number);
  }
  const auto stream = MR_TRY(source_->open(stretch.begin, stretch.end - stretch.begin));
  for (uint64_t offset = stretch.begin; offset < stretch.end;) {
    const auto memory = memory_for(number, offset);
    const size_t within = offset % kFetchBlock;
    const uint64_t most = std::min({kFetchBlock - within, stretch.end - offset, uint64_t{kReadBytes}});
    const size_t got = MR_TRY(stream->read_some(memory->span().subspan(within, static_cast<size_t>(most))));
    if (got == 0)
      return source_->told(
          make_error(Code::kTruncated, "the bytes end at {}, and {} were announced", offset, plan_.size));
    if (!publish(number, offset, got)) return {};
    offset += got;
  }
  return {};
}

std::shared_ptr<FetchMemory::Memory> Fetch::memory_for(uint64_t number, uint64_t offset) {
  const uint64_t block = block_of(offset);
  bool promised = false;
  {
    const MutexLock lock(mutex_);
    if (const auto found = slots_.find(block); found != slots_.end()) return found->second.memory;
    promised = running_.at(number).promised >= kFetchBlock;
  }
  if (!promised) around_.memory->make_room(kFetchBlock);
  auto memory = around_.memory->take();
  const MutexLock lock(mutex_);
  if (promised) {
    running_.at(number).promised -= kFetchBlock;
    around_.memory->give_back_promise(kFetchBlock);
  }
  slots_[block] = {memory, 0, ++clock_};
  return memory;
}

bool Fetch::publish(uint64_t number, uint64_t offset, size_t bytes) {
  Answers answers;
  bool is_awaited = false;
  {
    const MutexLock lock(mutex_);
    if (has_ended()) return false;
    Slot& slot = slots_.at(block_of(offset));
    slot.filled = static_cast<size_t>(offset % kFetchBlock) + bytes;
    slot.touched = ++clock_;
    running_.at(number).reached = offset + bytes;
    answers = take_answers();
    is_awaited = !waiters_.empty();
  }
  for (const auto& answer : answers) answer();
  write_out();
  if (is_awaited) pump();
  return true;
}

void Fetch::write_out() {
  while (write_next()) {
  }
}

bool Fetch::write_next() {
  std::shared_ptr<FetchMemory::Memory> memory;
  std::string_view bytes;
  {
    const MutexLock lock(mutex_);
    if (writing_ || has_ended() || unstored_) return false;
    const auto slot = slots_.find(block_of(written_));
    const size_t within = written_ % kFetchBlock;
    if (slot == slots_.end() || slot->second.filled <= within) return false;
    memory = slot->second.memory;
    bytes = {reinterpret_cast<const char*>(memory->span().data()) + within, slot->second.filled - within};
    writing_ = true;
  }
  verifier_.add(bytes);
  const Status written = store::fill(*writer_, bytes);
  bool whole = false;
  {
    const MutexLock lock(mutex_);
    if (written) written_ += bytes.size();
    whole = written && written_ == plan_.size && !has_ended();
    writing_ = whole;
    // Whoever ended the fetch meanwhile left the writer to this thread.
    if (has_ended()) writer_.reset();
  }
  if (!written) take_write_error(written.error().copy());
  if (whole) finish_writing();
  return written && !whole;
}

// The upstream is well: whoever reads gets bytes, also where they cannot be kept.
void Fetch::take_write_error(Error error) {
  if (error.code() == Code::kCancelled || plan_.parts == Parts::kNone) return fail(error);
  go_on_unstored(std::move(error));
}

void Fetch::go_on_unstored(Error why) {
  std::vector<Ended> ended;
  {
    const MutexLock lock(mutex_);
    if (has_ended()) return;
    unstored_ = true;
    verified_ = true;
    failure_.emplace(why.copy());
    if (!writing_) writer_.reset();
    ended.swap(ended_);
  }
  answer_waiters();
  for (const Ended& one : ended) one(why.copy());
  pump();
}

void Fetch::finish_writing() {
  Status good = verifier_.finish(writer_->crc32c());
  if (!good) good = source_->told(good.error().copy());
  if (good) good = source_->check_unchanged();
  {
    const MutexLock lock(mutex_);
    if (!good) writing_ = false;
    verified_ = good.has_value();
  }
  if (!good) return fail(good.error());
  answer_waiters();
  writer_->finish(plan_.finish, [self = shared_from_this()](Result<store::ObjectPointer> object) {
    self->take_written(std::move(object));
  });
}

void Fetch::take_written(Result<store::ObjectPointer> object) {
  {
    const MutexLock lock(mutex_);
    if (has_ended()) return;
  }
  if (object) return end(std::move(object));
  if (!object.error().is(store::kConditionFailed)) return take_write_error(object.take_error());
  // Another node of the cluster was faster, or somebody wrote something else.
  plan_.find_winner([self = shared_from_this()](Result<store::ObjectPointer> winner) {
    const bool is_same = winner && (*winner)->record().etag == self->plan_.finish.etag;
    if (is_same) return self->end(std::move(winner));
    self->fail(make_error(store::kUpstreamChanged, "something else was stored while it was fetched"));
  });
}

void Fetch::fail(const Error& why) {
  end(why.copy());
}

void Fetch::end(Result<store::ObjectPointer> outcome) {
  Answers answers;
  std::vector<Ended> ended;
  std::unique_ptr<store::Writer> writer;
  std::map<uint64_t, Slot> dropped;
  {
    const MutexLock lock(mutex_);
    if (has_ended()) return;
    state_ = outcome ? State::kStored : State::kFailed;
    if (outcome) stored_ = *outcome;
    if (!outcome) failure_.emplace(outcome.error().copy());
    answers = take_answers();
    if (!outcome) dropped.swap(slots_);
    ended.swap(ended_);
    if (!writing_) writer = std::move(writer_);
  }
  writer.reset();
  for (const auto& answer : answers) answer();
  for (const Ended& one : ended)
    one(outcome ? Result<store::ObjectPointer>(*outcome) : outcome.error().copy());
}

void Fetch::drop(uint64_t bytes) {
  std::vector<std::shared_ptr<FetchMemory::Memory>> dropped;
  const MutexLock lock(mutex_);
  std::vector<std::pair<uint64_t, uint64_t>> oldest;  // touched, first byte
  for (const auto& [begin, slot] : slots_) {
    const bool is_full = slot.filled == slot_bytes(begin);
    const bool is_elsewhere = unstored_ || state_ == State::kStored || begin + slot.filled <= written_;
    if (is_full && is_elsewhere) oldest.emplace_back(slot.touched, begin);
  }
  std::ranges::sort(oldest);
  for (const auto& [touched, begin] : oldest) {
    if (dropped.size() * kFetchBlock >= bytes) return;
    dropped.push_back(std::move(slots_.extract(begin).mapped().memory));
  }
}

}  // namespace millrace::upstream
