// Finds, removals and small writes, waited for.
#include "cluster/cluster_calls.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>

#include "base/clock.h"
#include "cluster/cluster_list.h"
#include "cluster/reasons.h"
#include "store/waiting.h"

namespace millrace::cluster {

namespace {

CommitRequest removal(const ObjectName& name, store::Condition condition) {
  return {CommitRequest::Kind::kRemove, 0, name, {}, std::move(condition)};
}

}  // namespace

Result<std::optional<store::Record>> find_now(Cluster& cluster, const ObjectName& name) {
  auto found = MR_TRY(store::wait_for<std::optional<FoundObject>>(
      [&](Done<std::optional<FoundObject>> done) { cluster.find(name, std::move(done)); }));
  if (!found) return std::optional<store::Record>();
  return std::optional(std::move(found->record));
}

Status remove_now(Cluster& cluster, const ObjectName& name, store::Condition condition) {
  const auto removed =
      store::wait_for<std::optional<store::Record>>([&](Done<std::optional<store::Record>> done) {
        cluster.commit(removal(name, std::move(condition)), std::move(done));
      });
  return removed ? Status() : Status(removed.error().copy());
}

Result<store::Record> put_without_bytes(Cluster& cluster, const ObjectName& name, store::Record record,
                                        const store::Condition& condition) {
  const uint64_t deadline = steady_us() + Requester::kPatienceUs;
  while (true) {
    auto spread = cluster.choose_spread(name, Requester::Size::kSmall);
    // Nobody was asked yet, so nothing happened.
    if (!spread) return Error(kHoldersChanged, spread.error().message()).with_hint(spread.error().hint());
    record.spread = spread.take();
    std::vector<std::string> slices(record.spread.holders.size());
    CommitRequest request{CommitRequest::Kind::kPut, 0, name, record, condition};
    auto put = store::wait_for<store::Record>([&](Done<store::Record> done) {
      cluster.put(std::move(request), std::move(slices), std::move(done));
    });
    if (put || !put.error().is(kHoldersChanged) || steady_us() >= deadline) return put;
    std::this_thread::sleep_for(std::chrono::microseconds(Requester::kRetryUs));
  }
}

Status remove_all(Cluster& cluster, const std::string& bucket, const std::vector<std::string>& keys) {
  constexpr size_t kAtOnce = 16;
  Status outcome;
  for (size_t begin = 0; begin < keys.size(); begin += kAtOnce) {
    std::vector<std::future<Status>> answers;
    for (size_t i = begin; i < std::min(keys.size(), begin + kAtOnce); ++i) {
      const auto removed = std::make_shared<std::promise<Status>>();
      answers.push_back(removed->get_future());
      cluster.commit(removal({bucket, keys[i]}, {}), [removed](Result<std::optional<store::Record>> done) {
        removed->set_value(done ? Status() : Status(done.take_error()));
      });
    }
    for (auto& answer : answers) {
      Status one = answer.get();
      if (!one && outcome) outcome = std::move(one);
    }
  }
  return outcome;
}

Status empty_hidden(Cluster& cluster, const std::string& hidden) {
  const std::vector<ListedRecord> listed = MR_TRY(list_records(cluster, hidden, ""));
  std::vector<std::string> keys;
  for (const ListedRecord& one : listed) keys.push_back(one.key);
  return remove_all(cluster, hidden, keys);
}

}  // namespace millrace::cluster
