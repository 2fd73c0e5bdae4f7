// MemoryRegistry: a registry in memory for tests and simulations, with a clock that the test sets.
//
// MemoryStore is what everyone shares; a MemoryRegistry is one user's way to it, which can be cut off: then
// every call is kUnavailable, and a watch tells later that something changed. Nothing happens by itself:
// leases end at the first call, by anyone, after their time (or at look()), and watches are called by whoever
// changed something. So one order of calls is one run. One thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/registry.h"

namespace millrace::testing {

class MemoryStore {
 public:
  explicit MemoryStore(std::function<uint64_t()> now_us) : now_us_(std::move(now_us)) {}

  // Ends the leases whose time is over.
  void look() {
    std::vector<uint64_t> ended;
    for (const auto& [id, lease] : leases_) {
      if (lease.end_us <= now_us_()) ended.push_back(id);
    }
    for (const uint64_t id : ended) end_lease(id);
  }

 private:
  friend class MemoryRegistry;
  struct Stored {
    std::string value;
    uint64_t revision = 0;
    uint64_t lease = 0;
  };
  struct Lease {
    uint64_t ttl_us = 0;
    uint64_t end_us = 0;
  };
  struct Watcher {
    std::string prefix;
    std::function<void()> changed;
    const bool* cut = nullptr;
    bool missed = false;
  };

  void tell(const std::string& name) {
    // By number: a call may begin or end watches.
    std::vector<uint64_t> numbers;
    for (const auto& [number, watcher] : watchers_) {
      if (name.starts_with(watcher.prefix)) numbers.push_back(number);
    }
    for (const uint64_t number : numbers) call(number);
  }
  void call(uint64_t number) {
    const auto found = watchers_.find(number);
    if (found == watchers_.end()) return;
    found->second.missed = *found->second.cut;
    if (found->second.missed) return;
    const auto changed = found->second.changed;
    changed();
  }
  void end_lease(uint64_t id) {
    leases_.erase(id);
    std::vector<std::string> gone;
    for (const auto& [name, stored] : entries_) {
      if (stored.lease == id) gone.push_back(name);
    }
    for (const std::string& name : gone) entries_.erase(name);
    if (!gone.empty()) ++revision_;
    for (const std::string& name : gone) tell(name);
  }

  const std::function<uint64_t()> now_us_;
  uint64_t revision_ = 0;
  uint64_t next_lease_ = 1;
  uint64_t next_watcher_ = 1;
  std::map<std::string, Stored> entries_;
  std::map<uint64_t, Lease> leases_;
  std::map<uint64_t, Watcher> watchers_;
};

class MemoryRegistry : public cluster::Registry {
 public:
  using Entry = cluster::Entry;
  using LeaseId = cluster::LeaseId;

  // The store outlives its registries, and a registry its watches.
  explicit MemoryRegistry(MemoryStore& store) : store_(store) {}

  void cut() { cut_ = true; }
  void mend() {
    cut_ = false;
    std::vector<uint64_t> missed;
    for (const auto& [number, watcher] : store_.watchers_) {
      if (watcher.cut == &cut_ && watcher.missed) missed.push_back(number);
    }
    for (const uint64_t number : missed) store_.call(number);
  }
  // The next change happens, but its answer is lost.
  void lose_next_answer() { lose_answer_ = true; }
  // Done before the next call: somebody else who is just faster.
  void before_next_call(std::function<void()> work) { before_ = std::move(work); }

  Result<std::optional<Entry>> get(const std::string& name) override {
    MR_TRY(cluster::check_name(name));
    MR_TRY(reach());
    const auto found = store_.entries_.find(name);
    if (found == store_.entries_.end()) return std::optional<Entry>();
    return std::optional<Entry>(Entry{name, found->second.value, found->second.revision});
  }
  Result<std::vector<Entry>> list(const std::string& prefix) override {
    MR_TRY(cluster::check_prefix(prefix));
    MR_TRY(reach());
    std::vector<Entry> entries;
    for (const auto& [name, stored] : store_.entries_) {
      if (name.starts_with(prefix)) entries.push_back({name, stored.value, stored.revision});
    }
    return entries;
  }
  Result<std::optional<uint64_t>> swap(const std::string& name, uint64_t expected, const std::string& value,
                                       LeaseId lease) override {
    MR_TRY(cluster::check_name(name));
    MR_TRY(cluster::check_value(name, value));
    MR_TRY(reach());
    if (revision_of(name) != expected) return std::optional<uint64_t>();
    if (lease != LeaseId::kNone && !store_.leases_.contains(static_cast<uint64_t>(lease)))
      return make_error(cluster::kLeaseEnded, "writing {}: its lease has ended", name);
    const uint64_t revision = ++store_.revision_;
    store_.entries_[name] = {value, revision, static_cast<uint64_t>(lease)};
    store_.tell(name);
    if (std::exchange(lose_answer_, false)) return away();
    return std::optional<uint64_t>(revision);
  }
  Result<bool> remove(const std::string& name, uint64_t expected) override {
    MR_TRY(cluster::check_name(name));
    MR_TRY(reach());
    if (expected == 0 || revision_of(name) != expected) return false;
    ++store_.revision_;
    store_.entries_.erase(name);
    store_.tell(name);
    if (std::exchange(lose_answer_, false)) return away();
    return true;
  }
  Result<LeaseId> grant(std::chrono::milliseconds ttl) override {
    MR_TRY(cluster::check_ttl(ttl));
    MR_TRY(reach());
    const uint64_t ttl_us = static_cast<uint64_t>(ttl.count()) * 1000;
    store_.leases_[store_.next_lease_] = {ttl_us, store_.now_us_() + ttl_us};
    return LeaseId{store_.next_lease_++};
  }
  Result<bool> renew(LeaseId lease) override {
    MR_TRY(reach());
    const auto found = store_.leases_.find(static_cast<uint64_t>(lease));
    if (found == store_.leases_.end()) return false;
    found->second.end_us = store_.now_us_() + found->second.ttl_us;
    return true;
  }
  Status revoke(LeaseId lease) override {
    MR_TRY(reach());
    store_.end_lease(static_cast<uint64_t>(lease));
    return {};
  }
  std::unique_ptr<cluster::Watch> watch(const std::string& prefix, std::function<void()> changed) override {
    const uint64_t number = store_.next_watcher_++;
    store_.watchers_[number] = {prefix, std::move(changed), &cut_, false};
    return std::make_unique<MemoryWatch>(store_, number);
  }

 private:
  class MemoryWatch : public cluster::Watch {
   public:
    MemoryWatch(MemoryStore& store, uint64_t number) : store_(store), number_(number) {}
    ~MemoryWatch() override { store_.watchers_.erase(number_); }

   private:
    MemoryStore& store_;
    const uint64_t number_;
  };

  static Error away() { return make_error(Code::kUnavailable, "the registry cannot be reached"); }
  Status reach() {
    if (const auto work = std::exchange(before_, nullptr)) work();
    if (cut_) return away();
    store_.look();
    return {};
  }
  uint64_t revision_of(const std::string& name) const {
    const auto found = store_.entries_.find(name);
    return found == store_.entries_.end() ? 0 : found->second.revision;
  }

  MemoryStore& store_;
  bool cut_ = false;
  bool lose_answer_ = false;
  std::function<void()> before_;
};

}  // namespace millrace::testing
