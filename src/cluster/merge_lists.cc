// The first entries of all lists, in a heap.
#include "cluster/merge_lists.h"

#include <queue>
#include <utility>

namespace millrace::cluster {

ListEntries merge_lists(std::vector<ListEntries> lists, std::string_view reached) {
  struct Next {
    std::string_view key;
    size_t list = 0;
    size_t entry = 0;
    bool operator<(const Next& other) const { return key > other.key; }  // the least is on top
  };
  std::priority_queue<Next> heap;
  size_t most = 0;
  const auto push = [&](size_t list, size_t entry) {
    if (entry == lists[list].size()) return;
    const std::string_view key = lists[list][entry].key;
    if (reached.empty() || key <= reached) heap.push({key, list, entry});
  };
  for (size_t list = 0; list < lists.size(); ++list) {
    most = std::max(most, lists[list].size());
    push(list, 0);
  }
  ListEntries merged;
  merged.reserve(most);
  while (!heap.empty()) {
    const Next next = heap.top();
    heap.pop();
    // The view on its key would go with the entry.
    push(next.list, next.entry + 1);
    ListReply::Entry& entry = lists[next.list][next.entry];
    if (merged.empty() || merged.back().key != entry.key) {
      merged.push_back(std::move(entry));
    } else if (merged.back().version < entry.version) {
      merged.back() = std::move(entry);
    }
  }
  return merged;
}

}  // namespace millrace::cluster
