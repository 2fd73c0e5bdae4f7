// The runner's own thread: claims, results, ranks. Stages and ends: runner_stages.cc. Slots: runner_slots.cc.
#include "jobs/runner.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/clock.h"
#include "base/hash.h"
#include "net/digest.h"

namespace millrace::jobs {

namespace {

using namespace std::chrono_literals;

constexpr auto kPace = 500ms;
constexpr uint64_t kListEveryUs = 10'000'000;
// How often a node looks at the tables of a job, and changes them.
constexpr uint64_t kTellEveryUs = 1'000'000;
// Claims are for about so long.
constexpr uint64_t kClaimUs = 4'000'000;
constexpr size_t kMostClaimed = 2048;
// A rank that lost another one: the map soon says whether a node is gone.
constexpr uint64_t kGraceUs = 10'000'000;
constexpr size_t kMostRankJobs = 2;
constexpr uint64_t kBusyUs = 1'000'000;
constexpr int kMostSwaps = 20;
constexpr size_t kSecretBytes = 32;

}  // namespace

JobRunner::JobRunner(cluster::Registry& registry, Surroundings& surroundings, transfer::Stores& stores,
                     RunnerOptions options, Log& log)
    : surroundings_(surroundings),
      stores_(stores),
      options_(std::move(options)),
      log_(log),
      book_(registry),
      registry_(registry) {}

JobRunner::~JobRunner() {
  stop();
}

Status JobRunner::start() {
  std::error_code failure;
  std::filesystem::remove_all(options_.directory, failure);
  std::filesystem::create_directories(options_.directory, failure);
  if (failure) return make_system_error(failure.value(), "making " + options_.directory);
  for (unsigned i = 0; i < options_.slots; ++i) {
    auto slot = std::make_unique<Slot>(options_.worker);
    slot->directory = fmt::format("{}/slot-{}", options_.directory, i);
    slots_.push_back(std::move(slot));
  }
  for (const auto& slot : slots_) slot->thread = std::thread([this, &slot = *slot] { serve(slot); });
  steps_.start(kPace, [this] { step(); });
  watch_ = registry_.watch("jobs/", [this] { look_again(); });
  return {};
}

void JobRunner::stop() {
  watch_.reset();
  steps_.stop();
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (const auto& slot : slots_) slot->process.kill();
  for (const auto& slot : slots_) {
    if (slot->thread.joinable()) slot->thread.join();
  }
  slots_.clear();
  // Others need not wait until this node's lease is over.
  for (auto& [id, local] : locals_) {
    local.ranks.reset();
    if (self_.empty() || local.known.empty()) continue;
    const auto tables = book_.tables(id, local.stage);
    if (!tables) continue;
    for (KnownTable table : *tables) {
      const auto is_own = [this](const std::string& claimant) { return claimant == self_; };
      if (table.table.release(is_own) > 0) static_cast<void>(book_.replace_table(id, local.stage, table));
    }
  }
  locals_.clear();
}

RunnerReading JobRunner::read() const {
  const MutexLock lock(mutex_);
  RunnerReading reading = reading_;
  reading.allowed = allowed_;
  for (const auto& [job, count] : running_) reading.running += count;
  return reading;
}

bool JobRunner::is_gone(const std::string& claimant) const {
  return std::ranges::find(neighbours_, claimant, &Neighbour::claimant) == neighbours_.end();
}

// While clients ask, fewer slots work. Half a second without a request does not mean that they are done.
void JobRunner::look_at_clients() {
  const uint64_t now = steady_us();
  if (now - clients_looked_us_ < kBusyUs / 4) return;
  clients_looked_us_ = now;
  const uint64_t seen = surroundings_.client_requests();
  if (std::exchange(clients_seen_, seen) != seen) clients_asked_us_ = now;
  const bool busy = clients_asked_us_ != 0 && now - clients_asked_us_ < kBusyUs;
  const unsigned reduced = std::max(1U, options_.slots * options_.share / 100);
  const MutexLock lock(mutex_);
  const unsigned allowed = busy ? reduced : options_.slots;
  if (std::exchange(allowed_, allowed) < allowed) changed_.notify_all();
}

void JobRunner::look_again() {
  look_ = true;
  steps_.wake();
}

void JobRunner::step() {
  look_at_clients();
  // Where there is no job, the watch tells of the next one.
  const bool told = look_.exchange(false);
  if (!has_jobs_ && !told && steady_us() - listed_us_ < kListEveryUs) return;
  self_ = surroundings_.self();
  neighbours_ = surroundings_.neighbours();
  if (self_.empty()) {
    look_ = true;
    return;
  }
  auto jobs = book_.list();
  if (!jobs) {
    look_ = true;
    return;
  }
  listed_us_ = steady_us();
  ranked_.clear();
  std::set<std::string> active;
  for (const Job& job : *jobs) {
    if (has_ended(job.state)) continue;
    active.insert(job.id);
    const bool ranks = job.state == JobState::kRunning && job.stages.back().kind == StageKind::kRanks;
    if (ranks && ranked_.size() < kMostRankJobs) ranked_.insert(job.id);
  }
  has_jobs_ = !active.empty();
  for (auto local = locals_.begin(); local != locals_.end();) {
    if (active.contains(local->first)) {
      ++local;
      continue;
    }
    cancel(local->first);
    static_cast<void>(take_finished(local->first));
    local = locals_.erase(local);
  }
  for (Job& job : *jobs) {
    if (has_ended(job.state)) continue;
    const Status done = step_job(job);
    // Another look at the registry comes soon; what cannot pass is the job's end.
    if (!done) log_.warn("a step of a job failed", "job", job.id, "error", done.error().message());
  }
}

Status JobRunner::step_job(Job& job) {
  Local& local = locals_[job.id];
  if (job.state == JobState::kStopping) return step_stopping(job, local);
  if (local.is_cancelled) local = Local();
  if (local.setup == nullptr || local.stage != job.stage()) MR_TRY(begin_stage(job, local));
  return job.stages.back().kind == StageKind::kTasks ? step_tasks(job, local) : step_ranks(job, local);
}

Status JobRunner::begin_stage(const Job& job, Local& local) {
  local = Local();
  local.stage = job.stage();
  WorkSetup setup;
  setup.job = job.id;
  setup.stage = job.stages.back().name;
  setup.description = job.description;
  setup.program = options_.worker.program;
  setup.confinement = options_.confinement;
  setup.readable = options_.readable;
  if (setup.stage == "reduce") setup.sorted_shards = job.stages.back().tasks;
  local.setup = std::make_shared<const WorkSetup>(std::move(setup));
  return {};
}

// ---- tasks
// ---------------------------------------------------------------------------------------------------

Status JobRunner::load_list(const Job& job, Local& local, uint64_t table) {
  if (local.lists.contains(table)) return {};
  std::vector<Task> tasks = MR_TRY(book_.tasks(job.id, job.stage(), table));
  std::vector<bool> here;
  for (const Task& task : tasks) {
    const auto address = parse_address(task.input);
    here.push_back(address && surroundings_.holds(*address));
  }
  local.here[table] = std::move(here);
  local.lists[table] = std::move(tasks);
  return {};
}

bool JobRunner::report(const Job& job, Local& local, KnownTable& table,
                       const std::vector<Finished>& finished) {
  bool changed = false;
  for (const Finished& one : finished) {
    if (one.table != table.number) continue;
    local.known.erase({one.table, one.task});
    const uint32_t attempts = one.result.outcome == Outcome::kHopeless ? 1 : job.description.attempts;
    const bool counted = one.given_back ? table.table.give_back(self_, one.task)
                         : one.result.outcome == Outcome::kDone
                             ? table.table.finish(self_, one.task, one.result.sums)
                             : table.table.fail(self_, one.task, attempts);
    changed = changed || counted;
  }
  return changed;
}

// First the tasks whose bytes are here; then, where other nodes have more than they do at once, any.
void JobRunner::claim(const Job& job, Local& local, std::vector<KnownTable>& tables,
                      std::set<size_t>& changed) {
  size_t free = 0;
  for (const KnownTable& table : tables) free += table.table.count().free;
  const size_t nodes = std::max<size_t>(1, neighbours_.size());
  const size_t share = (free + 2 * nodes - 1) / (2 * nodes);
  const size_t wanted =
      local.task_us == 0
          ? options_.slots
          : std::clamp<size_t>(kClaimUs * options_.slots / std::max<uint64_t>(local.task_us, 1),
                               options_.slots, kMostClaimed);
  const size_t most = std::min(wanted, share);
  // A slot that has nothing to do takes a task whatever the share is: nobody is faster with it.
  const bool is_idle = local.known.size() < options_.slots;
  if (free == 0 || (!is_idle && local.known.size() >= std::max<size_t>(most / 2, 1))) return;
  size_t left = std::max<size_t>(most - std::min(most, local.known.size()), 1);
  // Its next one need not wait for the next look either.
  if (is_idle) local.looked_us = 0;
  if (is_idle) steps_.wake();
  // Nodes begin at different tables, so that they do not wait for each other's changes.
  const size_t first = hash64(self_) % std::max<size_t>(1, tables.size());
  for (const bool only_here : {true, false}) {
    for (size_t i = 0; i < tables.size() && left > 0; ++i) {
      const size_t at = (first + i) % tables.size();
      KnownTable& table = tables[at];
      if (table.table.count().free == 0 || !load_list(job, local, table.number)) continue;
      const std::vector<bool>& here = local.here[table.number];
      const auto taken = table.table.claim(
          self_, left, [&](size_t task) { return task < here.size() && (!only_here || here[task]); });
      if (taken.empty()) continue;
      left -= taken.size();
      changed.insert(at);
    }
  }
}

void JobRunner::enqueue(const Job& job, Local& local, const KnownTable& table) {
  for (const size_t task : table.table.claimed_by(self_)) {
    if (!load_list(job, local, table.number)) return;
    const std::vector<Task>& list = local.lists[table.number];
    if (task >= list.size() || !local.known.insert({table.number, task}).second) continue;
    const MutexLock lock(mutex_);
    waiting_[job.id].push_back({job.id, job.stage(), table.number, task, list[task], local.setup});
  }
  changed_.notify_all();
}

Status JobRunner::write_tables(const Job& job, Local& local, std::vector<KnownTable>& tables,
                               const std::set<size_t>& changed) {
  for (const size_t at : changed) {
    // Somebody was faster: the next look sees what they wrote. Results that were not written wait for it.
    if (!MR_TRY(book_.replace_table(job.id, job.stage(), tables[at]))) {
      tables[at] = MR_TRY(book_.table(job.id, job.stage(), tables[at].number));
      local.looked_us = 0;
      steps_.wake();
    }
    enqueue(job, local, tables[at]);
  }
  return {};
}

Status JobRunner::note_logs(const Job& job, const Local& local, const std::vector<Finished>& finished) {
  for (const Finished& one : finished) {
    if (one.given_back || one.result.outcome == Outcome::kDone) continue;
    const auto list = local.lists.find(one.table);
    const Task* const task =
        list == local.lists.end() || one.task >= list->second.size() ? nullptr : &list->second[one.task];
    const std::string text = fmt::format("{}\n{}{}", task == nullptr ? "" : task->input,
                                         one.log.empty() ? "" : one.log + "\n", one.result.message);
    MR_TRY(book_.note_log(job.id, job.stage(), std::to_string(task == nullptr ? 0 : task->number), text));
  }
  return {};
}

// Results are told together, once a second; at once only where a slot would have nothing to do.
bool JobRunner::is_due(const Job& job, const Local& local) {
  const size_t finished = count_finished(job.id);
  const bool is_idle = local.known.size() - std::min(finished, local.known.size()) < options_.slots;
  return steady_us() - local.looked_us >= kTellEveryUs || (is_idle && finished > 0);
}

Status JobRunner::step_tasks(Job& job, Local& local) {
  if (!is_due(job, local)) return {};
  const std::vector<Finished> finished = take_finished(job.id);
  for (const Finished& one : finished)
    local.task_us = local.task_us == 0 ? one.took_us : (7 * local.task_us + one.took_us) / 8;
  local.looked_us = steady_us();
  auto read = book_.tables(job.id, job.stage());
  if (!read) {
    const MutexLock lock(mutex_);
    std::vector<Finished>& kept = finished_[job.id];
    kept.insert(kept.begin(), finished.begin(), finished.end());
    return read.take_error();
  }
  std::vector<KnownTable> tables = read.take();
  std::set<size_t> changed;
  for (size_t at = 0; at < tables.size(); ++at) {
    enqueue(job, local, tables[at]);
    // A result that another node's change comes before is told again, to the newer table.
    for (int attempt = 0; attempt < kMostSwaps; ++attempt) {
      if (!report(job, local, tables[at], finished)) break;
      if (MR_TRY(book_.replace_table(job.id, job.stage(), tables[at]))) break;
      tables[at] = MR_TRY(book_.table(job.id, job.stage(), tables[at].number));
    }
    const auto gone = [this](const std::string& claimant) { return is_gone(claimant); };
    if (tables[at].table.release(gone) > 0) changed.insert(at);
  }
  MR_TRY(note_logs(job, local, finished));
  claim(job, local, tables, changed);
  MR_TRY(write_tables(job, local, tables, changed));
  Sums sums;
  uint64_t failed = 0;
  uint64_t open = 0;
  for (const KnownTable& table : tables) {
    const TaskTable::Counts counts = table.table.count();
    failed += counts.failed;
    open += counts.free + counts.claimed;
    for (const auto& [name, value] : table.table.sums()) sums[name] += value;
  }
  if (open == 0) return finish_stage(job, sums, failed);
  return {};
}

// ---- ranks
// ---------------------------------------------------------------------------------------------------

Status JobRunner::make_attempt(const Job& job, RankTable table, bool counts) {
  if (counts && ++table.failures >= job.description.attempts) {
    const auto failed =
        std::ranges::find_if(table.ranks, [](const Rank& rank) { return rank.state == RankState::kFailed; });
    Job ended = job;
    return end_job(ended, JobState::kFailed,
                   failed == table.ranks.end() ? "its ranks could not work together" : failed->message);
  }
  ++table.attempt;
  table.secret = net::to_hex(net::random_bytes(kSecretBytes));
  table.sums.clear();
  table.ranks.clear();
  for (const Neighbour& node : neighbours_) table.ranks.push_back({node.claimant, "", {}, ""});
  // Somebody faster makes the same attempt.
  MR_TRY(book_.replace_ranks(job.id, job.stage(), table));
  steps_.wake();
  return {};
}

Status JobRunner::step_ranks(Job& job, Local& local) {
  if (!ranked_.contains(job.id)) return {};
  RankTable table = MR_TRY(book_.ranks(job.id, job.stage()));
  const auto has = [&](RankState state) {
    return std::ranges::any_of(table.ranks, [&](const Rank& rank) { return rank.state == state; });
  };
  const bool all_done = !table.ranks.empty() && std::ranges::all_of(table.ranks, [](const Rank& rank) {
    return rank.state == RankState::kDone;
  });
  if (all_done) {
    local.ranks.reset();
    return finish_stage(job, table.sums, 0);
  }
  const bool lost = std::ranges::any_of(table.ranks, [&](const Rank& rank) {
    return rank.state != RankState::kDone && is_gone(rank.claimant);
  });
  if (table.attempt == 0 || lost) return make_attempt(job, std::move(table), false);
  if (has(RankState::kFailed)) {
    // Ranks that lost another one say so before the map does.
    const bool own_fault = std::ranges::any_of(table.ranks, [](const Rank& rank) {
      return rank.state == RankState::kFailed && !rank.message.starts_with('~');
    });
    if (local.broken_since_us == 0) local.broken_since_us = steady_us();
    if (own_fault || steady_us() - local.broken_since_us > kGraceUs)
      return make_attempt(job, std::move(table), true);
    return {};
  }
  local.broken_since_us = 0;
  const auto own = std::ranges::find(table.ranks, self_, &Rank::claimant);
  if (own == table.ranks.end()) return {};
  return tend_rank(job, local, table, static_cast<size_t>(own - table.ranks.begin()));
}

Status JobRunner::tend_rank(const Job& job, Local& local, RankTable& table, size_t own) {
  Rank& rank = table.ranks[own];
  if (local.ranks == nullptr || local.ranks->attempt() != table.attempt) {
    local.ranks.reset();
    RankRunOptions options;
    options.attempt = table.attempt;
    options.setup = *local.setup;
    options.setup.directory = fmt::format("{}/rank-{}-{}", options_.directory, job.id, table.attempt);
    options.worker = options_.worker;
    options.changed = [this] { steps_.wake(); };
    for (const Neighbour& node : neighbours_) {
      if (node.claimant == self_) options.host = node.host;
    }
    local.ranks = std::make_unique<RankRun>(std::move(options));
    return {};
  }
  const std::optional<WorkResult> result = local.ranks->result();
  if (result && rank.state != RankState::kDone && rank.state != RankState::kFailed) {
    rank.state = result->outcome == Outcome::kDone ? RankState::kDone : RankState::kFailed;
    if (result->outcome == Outcome::kDone && own == 0) table.sums = result->sums;
    if (result->outcome != Outcome::kDone) {
      rank.message = (result->outcome == Outcome::kCut ? "~" : "") + result->message;
      MR_TRY(book_.note_log(job.id, job.stage(), fmt::format("rank{}", own),
                            local.ranks->log() + result->message));
    }
    MR_TRY(book_.replace_ranks(job.id, job.stage(), table));
    steps_.wake();
    return {};
  }
  const std::string address = local.ranks->address();
  if (rank.state == RankState::kInvited && !address.empty()) {
    rank.state = RankState::kListening;
    rank.address = address;
    MR_TRY(book_.replace_ranks(job.id, job.stage(), table));
    steps_.wake();
    return {};
  }
  const bool all = std::ranges::none_of(table.ranks, [](const Rank& one) { return one.address.empty(); });
  if (!all || result) return {};
  WorkRanks ranks;
  ranks.rank = static_cast<uint32_t>(own);
  ranks.secret = table.secret;
  for (const Rank& one : table.ranks) ranks.addresses.push_back(one.address);
  const bool between = job.description.kind == Kind::kMapReduce;
  for (Task& task : MR_TRY(book_.all_tasks(job.id, 0)))
    ranks.inputs.push_back(between ? std::move(task.output) : std::move(task.input));
  local.ranks->begin(std::move(ranks));
  return {};
}

}  // namespace millrace::jobs
