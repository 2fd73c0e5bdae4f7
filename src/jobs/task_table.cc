// Claims, results and their encoding.
#include "jobs/task_table.h"

#include <algorithm>

#include "base/number.h"
#include "jobs/strict_json.h"

namespace millrace::jobs {

namespace {
constexpr size_t kMostClaimantBytes = 200;
}

std::string TaskTable::encode() const {
  Json json = {{"states", states_}};
  std::vector<std::string> claimants = claimants_;
  while (!claimants.empty() && claimants.back().empty()) claimants.pop_back();
  if (!claimants.empty()) json["claimants"] = claimants;
  if (!attempts_.empty()) {
    Json& attempts = json["attempts"] = Json::object();
    for (const auto& [task, count] : attempts_) attempts[std::to_string(task)] = count;
  }
  if (!sums_.empty()) json["sums"] = sums_;
  return to_text(json);
}

Result<TaskTable> TaskTable::decode(std::string_view text) {
  const auto corrupt = [](std::string_view what) {
    return make_error(Code::kCorrupt, "a table of tasks {}", what);
  };
  const Json json = MR_TRY(parse_json(text, "a table of tasks"));
  StrictObject object(json, "a table of tasks");
  TaskTable table;
  std::map<std::string, int64_t> attempts;
  object.take("states", table.states_);
  object.take("claimants", table.claimants_, kMostClaimants);
  object.take("attempts", attempts, kMostTasks);
  object.take("sums", table.sums_, kMostSums);
  if (const Status whole = object.finish(); !whole)
    return make_error(Code::kCorrupt, "{}", whole.error().message());
  if (table.states_.size() > kMostTasks) return corrupt("has too many tasks");
  for (const std::string& claimant : table.claimants_) {
    if (claimant.size() > kMostClaimantBytes) return corrupt("has a claimant with too long a name");
  }
  for (const char state : table.states_) {
    const bool known = state == kFree || state == kDone || state == kFailed || is_claimed(state);
    if (!known) return corrupt("has a state that is not known");
    const auto letter = static_cast<size_t>(state - kFirstClaimant);
    if (is_claimed(state) && (letter >= table.claimants_.size() || table.claimants_[letter].empty()))
      return corrupt("has a claim of nobody");
  }
  for (const auto& [name, count] : attempts) {
    const auto task = parse_number<size_t>(name);
    if (!task || *task >= table.size() || count < 1 || count > UINT32_MAX)
      return corrupt("has attempts of no task");
    table.attempts_[*task] = static_cast<uint32_t>(count);
  }
  return table;
}

TaskTable::Counts TaskTable::count() const {
  Counts counts;
  for (const char state : states_) {
    if (state == kFree) ++counts.free;
    if (state == kDone) ++counts.done;
    if (state == kFailed) ++counts.failed;
    if (is_claimed(state)) ++counts.claimed;
  }
  return counts;
}

void TaskTable::tidy() {
  for (size_t i = 0; i < claimants_.size(); ++i) {
    const char letter = static_cast<char>(kFirstClaimant + static_cast<char>(i));
    if (states_.find(letter) == std::string::npos) claimants_[i].clear();
  }
}

std::vector<size_t> TaskTable::claim(const std::string& claimant, size_t most,
                                     const std::function<bool(size_t)>& may) {
  tidy();
  size_t letter = 0;
  while (letter < claimants_.size() && claimants_[letter] != claimant) ++letter;
  if (letter == claimants_.size()) {
    letter = 0;
    while (letter < claimants_.size() && !claimants_[letter].empty()) ++letter;
    if (letter == kMostClaimants) return {};
  }
  std::vector<size_t> tasks;
  for (size_t task = 0; task < states_.size() && tasks.size() < most; ++task) {
    if (states_[task] == kFree && may(task)) tasks.push_back(task);
  }
  if (tasks.empty()) return tasks;
  if (letter == claimants_.size()) claimants_.emplace_back();
  claimants_[letter] = claimant;
  for (const size_t task : tasks)
    states_[task] = static_cast<char>(kFirstClaimant + static_cast<char>(letter));
  return tasks;
}

bool TaskTable::is_of(const std::string& claimant, size_t task) const {
  if (task >= states_.size() || !is_claimed(states_[task])) return false;
  return claimants_[static_cast<size_t>(states_[task] - kFirstClaimant)] == claimant;
}

bool TaskTable::finish(const std::string& claimant, size_t task, const Sums& sums) {
  if (!is_of(claimant, task)) return false;
  states_[task] = kDone;
  attempts_.erase(task);
  for (const auto& [name, value] : sums) {
    const auto known = sums_.find(name);
    if (known == sums_.end() && sums_.size() >= kMostSums) continue;
    int64_t& sum = sums_[name];
    if (__builtin_add_overflow(sum, value, &sum)) sum = value > 0 ? INT64_MAX : INT64_MIN;
  }
  return true;
}

bool TaskTable::fail(const std::string& claimant, size_t task, uint32_t most_attempts) {
  if (!is_of(claimant, task)) return false;
  states_[task] = ++attempts_[task] >= most_attempts ? kFailed : kFree;
  return true;
}

bool TaskTable::give_back(const std::string& claimant, size_t task) {
  if (!is_of(claimant, task)) return false;
  states_[task] = kFree;
  return true;
}

size_t TaskTable::release(const std::function<bool(const std::string& claimant)>& is_gone) {
  size_t released = 0;
  for (size_t i = 0; i < claimants_.size(); ++i) {
    if (claimants_[i].empty() || !is_gone(claimants_[i])) continue;
    const char letter = static_cast<char>(kFirstClaimant + static_cast<char>(i));
    for (char& state : states_) {
      if (state != letter) continue;
      state = kFree;
      ++released;
    }
  }
  tidy();
  return released;
}

size_t TaskTable::retry() {
  size_t again = 0;
  for (size_t task = 0; task < states_.size(); ++task) {
    if (states_[task] != kFailed) continue;
    states_[task] = kFree;
    attempts_.erase(task);
    ++again;
  }
  return again;
}

std::vector<size_t> TaskTable::failed() const {
  std::vector<size_t> tasks;
  for (size_t task = 0; task < states_.size(); ++task) {
    if (states_[task] == kFailed) tasks.push_back(task);
  }
  return tasks;
}

uint32_t TaskTable::attempts(size_t task) const {
  const auto found = attempts_.find(task);
  return found == attempts_.end() ? 0 : found->second;
}

std::vector<size_t> TaskTable::claimed_by(const std::string& claimant) const {
  std::vector<size_t> tasks;
  for (size_t task = 0; task < states_.size(); ++task) {
    if (is_of(claimant, task)) tasks.push_back(task);
  }
  return tasks;
}

std::map<std::string, size_t> TaskTable::claimants() const {
  std::map<std::string, size_t> held;
  for (const char state : states_) {
    if (is_claimed(state)) ++held[claimants_[static_cast<size_t>(state - kFirstClaimant)]];
  }
  return held;
}

}  // namespace millrace::jobs
