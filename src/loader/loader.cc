// Implements Loader: its threads and the conditions they wait for.
#include "loader/loader.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "base/mutex.h"
#include "base/threads.h"
#include "loader/stream_plan.h"

namespace millrace::loader {

namespace {

// Encoded bytes that are asked for ahead: some batches, and enough for every fetch thread to have work.
constexpr uint64_t kBatchesAhead = 3;
constexpr uint64_t kUsuallyAhead = 32 << 20;
// Steps of the consumer from which on a worker looks by itself whether there is room, and how often: an
// eighth of the step, but at least every so often.
constexpr uint64_t kLongStepNs = 4'000'000;
constexpr uint64_t kLongestLookNs = 20'000'000;
// How often the planner looks whether memory has come back: whoever gives it back tells nobody.
constexpr auto kMemoryLook = std::chrono::milliseconds(5);
constexpr unsigned kFetchFiles = 2;
constexpr unsigned kFetchStores = 8;

// Threads that compute must not take the processor from the one that waits for what they made: as batch jobs
// they do not preempt others when they wake. Refused is fine too.
void yield_to_consumer() {
  const sched_param none{};
  ::sched_setscheduler(0, SCHED_BATCH, &none);
}

Error stopped() {
  return make_error(Code::kCancelled, "the loader was stopped");
}

}  // namespace

Loader::Loader(std::shared_ptr<const Catalogue> catalogue, Recipe recipe, const Start& start,
               Companions companions)
    : catalogue_(std::move(catalogue)),
      recipe_(std::move(recipe)),
      start_(start),
      companions_(std::move(companions)),
      pool_(std::make_shared<MemoryPool>(recipe_.memory)) {}

Result<std::unique_ptr<Loader>> Loader::open(std::shared_ptr<const Catalogue> catalogue, Recipe recipe,
                                             const Start& start, Companions companions) {
  MR_TRY(check(recipe));
  if (companions.keep && !catalogue->is_indexed()) {
    return make_error(Code::kInvalid,
                      "decoded images are kept by the numbers of their samples: streamed shards have none")
        .with_hint("leave out indexed=False, or the cache of decoded images");
  }
  if (start.step == 0) return make_error(Code::kInvalid, "steps of 0 batches go nowhere");
  if (start.world == 0 || start.rank >= start.world)
    return make_error(Code::kInvalid, "rank {} of {} is not possible: ranks count from 0", start.rank,
                      start.world);
  if (!recipe.weights.empty()) {
    MR_TRY(Mixture::make(recipe.weights));
    if (recipe.weights.size() + 1 != catalogue->parts().size())
      return make_error(Code::kInvalid, "there are {} weights for {} parts", recipe.weights.size(),
                        catalogue->parts().size() - 1);
    for (size_t part = 0; part < recipe.weights.size(); ++part) {
      uint64_t samples = 0;
      for (size_t i = catalogue->parts()[part]; i < catalogue->parts()[part + 1]; ++i)
        samples += catalogue->samples_per_shard()[i];
      if (samples == 0) return make_error(Code::kInvalid, "part {} of the mixture has no samples", part);
    }
  }
  if (start.world > recipe.batch) {
    return make_error(Code::kInvalid, "a global batch of {} cannot be shared by {} ranks", recipe.batch,
                      start.world)
        .with_hint("the batch counts over all ranks: batch = world x what each takes");
  }
  std::unique_ptr<Loader> loader(
      new Loader(std::move(catalogue), std::move(recipe), start, std::move(companions)));
  const Recipe& settled = loader->recipe_;
  loader->meters_.trace = loader->companions_.trace.get();
  if (!settled.cache.empty())
    loader->cache_ = MR_TRY(BlockCache::open(settled.cache, settled.cache_bytes, loader->meters_));
  loader->filling_ =
      MR_TRY(Filling::make(*loader->catalogue_, settled, loader->companions_.keep.get(), loader->meters_));
  const unsigned usual = loader->catalogue_->is_local() ? kFetchFiles : kFetchStores;
  const unsigned cores = std::max(std::thread::hardware_concurrency(), 1U);
  loader->fetch_threads_ = settled.fetch_threads == 0 ? usual : settled.fetch_threads;
  loader->threads_ = settled.threads == 0 ? cores : settled.threads;
  loader->fetcher_ = std::make_unique<Fetcher>(*loader->catalogue_, loader->fetch_threads_,
                                               loader->cache_.get(), loader->meters_);
  loader->start_threads();
  return loader;
}

void Loader::start_threads() {
  const MutexLock lock(mutex_);
  is_warm_ = !catalogue_->is_local();
  const MutexLock joining(joining_);
  for (unsigned i = 0; i < threads_; ++i)
    workers_.emplace_back([this] { within_memory([this] { work(); }); });
  planner_ = std::jthread([this] { within_memory([this] { plan(); }); });
}

Loader::~Loader() {
  stop();
}

void Loader::wake_all() {
  demand_.notify_all();
  work_.notify_all();
  ready_.notify_all();
}

void Loader::stop() {
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
  }
  wake_all();
  const MutexLock joining(joining_);
  if (fetcher_) fetcher_->stop();
  if (planner_.joinable()) planner_.join();
  workers_.clear();
}

// A thread that gets no memory ends the iteration, not the process.
void Loader::within_memory(const std::function<void()>& run) {
  try {
    run();
  } catch (const std::bad_alloc&) {
    const MutexLock lock(mutex_);
    plan_failure_ = out_of_memory();
    all_planned_ = true;
    planned_.clear();
    // What is complete in front of the gap is still handed out.
    const auto gap = std::ranges::find_if(under_way_, [](const Slot& slot) { return !slot.finished; });
    under_way_.erase(gap, under_way_.end());
    wake_all();
  }
}

// What a batch will occupy when it is filled.
uint64_t Loader::batch_bytes(const BatchPlan& plan) const {
  uint64_t bytes = 0;
  for (const FieldSpec& field : recipe_.fields) {
    if (field.kind == FieldKind::kImage) {
      const auto& image = field.image;
      const uint64_t item = image.type == decode::TransformSpec::Type::kUint8     ? 1
                            : image.type == decode::TransformSpec::Type::kFloat16 ? 2
                                                                                  : 4;
      bytes +=
          plan.elements.size() * image.size.width * image.size.height * decode::count(image.channels) * item;
    } else if (field.kind != FieldKind::kKey) {
      bytes += plan.bytes;
    }
  }
  return bytes;
}

std::unique_ptr<BatchSource> Loader::open_epoch(uint64_t epoch) {
  const uint64_t first = epoch == start_.epoch ? start_.batch : 0;
  const Planner::Place place{epoch, first, start_.rank, start_.world, start_.step};
  const bool are_all_images = std::all_of(
      recipe_.fields.begin(), recipe_.fields.end(),
      [](const FieldSpec& field) { return field.kind == FieldKind::kImage && field.image.size.width > 0; });
  const Supply supply{*fetcher_, pool_, are_all_images ? companions_.keep.get() : nullptr,
                      recipe_.fields.size()};
  if (!catalogue_->is_indexed()) return std::make_unique<StreamPlan>(*catalogue_, recipe_, place, supply);
  auto planner = std::make_unique<Planner>(*catalogue_, recipe_, place, supply);
  by_sample_ = planner->by_sample();
  return planner;
}

void Loader::plan() {
  yield_to_consumer();
  meters_.name_thread("plan");
  for (uint64_t epoch = start_.epoch; epoch < start_.epoch + start_.epochs; ++epoch) {
    const auto batches = open_epoch(epoch);
    while (true) {
      const uint64_t begun = steady_ns();
      auto planned = batches->next();
      const uint64_t end = steady_ns();
      meters_.plan.busy_ns += end - begun;
      if (meters_.trace != nullptr) meters_.trace->add("plan", begun, end);
      UniqueLock lock(mutex_);
      if (!planned) {
        plan_failure_ = planned.take_error();
        all_planned_ = true;
        wake_all();
        return;
      }
      if (!*planned) break;
      ++meters_.plan.count;
      const uint64_t ahead =
          std::min(recipe_.memory / 8, std::max(kBatchesAhead * (*planned)->bytes, kUsuallyAhead));
      const uint64_t bytes = (*planned)->bytes;
      planned_bytes_ += bytes;
      planned_.push_back(std::move(**planned));
      work_.notify_one();
      // One batch is always made, however large; more as far as the bytes allow.
      while (!stopped_) {
        const bool is_wanted = is_warm_ && (planned_.empty() || planned_bytes_ < ahead);
        if (is_wanted && ((planned_.empty() && under_way_.empty()) || fits(bytes))) break;
        if (is_wanted) {
          demand_.wait_for(lock, kMemoryLook);
        } else {
          demand_.wait(lock);
        }
      }
      if (stopped_) return;
    }
  }
  const MutexLock lock(mutex_);
  all_planned_ = true;
  wake_all();
}

// The earliest batch with slots to fill; a new one where memory allows.
std::shared_ptr<Assembly> Loader::take_assembly() {
  UniqueLock lock(mutex_);
  while (true) {
    if (stopped_) return nullptr;
    for (const Slot& slot : under_way_) {
      if (slot.assembly && slot.assembly->has_slots()) return slot.assembly;
    }
    const bool has_room = under_way_.empty() || (under_way_.size() < kBatchesUnderWay && !planned_.empty() &&
                                                 fits(batch_bytes(planned_.front())));
    if (!planned_.empty() && has_room) {
      auto assembly = std::make_shared<Assembly>(std::move(planned_.front()), pool_);
      planned_.pop_front();
      has_begun_ = true;
      assembly->prepare(*filling_);
      Slot& slot = under_way_.emplace_back(assembly);
      if (assembly->plan().elements.empty()) slot = {nullptr, assembly->finish(*filling_)};
      demand_.notify_one();
      work_.notify_all();
      if (has_batch()) ready_.notify_one();
      continue;
    }
    if (planned_.empty() && all_planned_) return nullptr;
    if (planned_.empty() && !is_warm_ && has_begun_) {
      is_warm_ = true;
      demand_.notify_one();
    }
    wait_for_work(lock);
  }
}

void Loader::wait_for_work(UniqueLock& lock) {
  const bool waits_for_consumer = !planned_.empty();
  const uint64_t begun = steady_ns();
  if (waits_for_consumer && !lookout_ns_ && step_ns_ >= kLongStepNs) {
    lookout_ns_ = std::min(step_ns_ / 8, kLongestLookNs);
    work_.wait_for(lock, std::chrono::nanoseconds(*lookout_ns_));
    lookout_ns_.reset();
  } else {
    work_.wait(lock);
  }
  const uint64_t end = steady_ns();
  (waits_for_consumer ? meters_.wait_room_ns : meters_.wait_bytes_ns) += end - begun;
  if (meters_.trace != nullptr)
    meters_.trace->add(waits_for_consumer ? "wait for room" : "wait for work", begun, end);
}

void Loader::work() {
  yield_to_consumer();
  meters_.name_thread("untar, decode");
  Scratch scratch;
  while (const auto assembly = take_assembly()) {
    if (!assembly->work(*filling_, scratch, stopped_)) continue;
    Finished finished = assembly->finish(*filling_);
    const MutexLock lock(mutex_);
    planned_bytes_ -= finished.bytes;
    for (Slot& slot : under_way_) {
      if (slot.assembly != assembly) continue;
      slot = {nullptr, std::move(finished)};
      break;
    }
    demand_.notify_one();
    if (has_batch()) ready_.notify_one();
  }
}

bool Loader::at_end() const {
  return all_planned_ && planned_.empty() && under_way_.empty();
}

bool Loader::wait(uint64_t ms) {
  UniqueLock lock(mutex_);
  if (has_answer()) return true;
  const uint64_t begun = steady_ns();
  const bool settled = ready_.wait_for(lock, std::chrono::milliseconds(ms),
                                       [&]() MR_REQUIRES(mutex_) { return has_answer(); });
  const uint64_t end = steady_ns();
  meters_.deliver.busy_ns += end - begun;
  if (meters_.trace != nullptr) meters_.trace->add("wait for batch", begun, end);
  return settled;
}

// Where the consumer's steps are long and another batch is ready, whoever looks for room finds it soon
// enough.
bool Loader::finds_room_alone() const {
  return has_batch() && lookout_ns_ && *lookout_ns_ <= step_ns_ / 4;
}

Result<std::shared_ptr<Batch>> Loader::next() {
  while (!wait(1000)) {
  }
  UniqueLock lock(mutex_);
  if (stopped_) return stopped();
  if (at_end() && plan_failure_ && !has_failed_) {
    has_failed_ = true;
    return plan_failure_->copy();
  }
  if (has_failed_ || at_end()) return std::shared_ptr<Batch>();
  for (const Slot& slot : under_way_) meters_.ready_batches += slot.finished.has_value() ? 1 : 0;
  Finished front = std::move(*under_way_.front().finished);
  under_way_.pop_front();
  const uint64_t now = steady_ns();
  step_ns_ = now - taken_ns_;
  taken_ns_ = now;
  const bool needs_waking = !finds_room_alone();
  for (Fault& fault : front.faults) faults_.push_back(std::move(fault));
  if (front.batch && !front.faults.empty() && faults_.size() > recipe_.most_errors) {
    front.batch = make_error(Code::kCorrupt,
                             "{} samples could not be used, more than {} are not accepted; the last: {}",
                             faults_.size(), recipe_.most_errors, faults_.back().what)
                      .in_shard(faults_.back().shard);
  }
  if (!front.batch) has_failed_ = true;
  lock.unlock();
  if (needs_waking) work_.notify_one();
  if (front.batch) {
    ++meters_.deliver.count;
    meters_.samples += (*front.batch)->size;
    meters_.sample_bytes += front.bytes;
  }
  return std::move(front.batch);
}

std::vector<Fault> Loader::faults() const {
  const MutexLock lock(mutex_);
  return faults_;
}

}  // namespace millrace::loader
