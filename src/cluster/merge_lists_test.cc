// Lists of several nodes as one.
#include "cluster/merge_lists.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace millrace::cluster {
namespace {

ListReply::Entry entry(std::string key, uint64_t version, bool deleted = false) {
  ListReply::Entry made;
  made.key = std::move(key);
  made.version = {1, version, 1};
  made.deleted = deleted;
  return made;
}

std::string text(const ListEntries& entries) {
  std::string told;
  for (const ListReply::Entry& one : entries)
    told += fmt::format("{}{}{} ", one.key, one.deleted ? "-" : "=", one.version.counter);
  return told;
}

TEST(MergeListsTest, TheNewestVersionOfEachKeyCounts) {
  EXPECT_EQ(text(merge_lists({{entry("a", 1), entry("c", 5)},
                              {entry("a", 3, true), entry("b", 2)},
                              {entry("c", 4), entry("d", 1)}},
                             "")),
            "a-3 b=2 c=5 d=1 ");
}

TEST(MergeListsTest, NothingBehindWhatAllHaveReachedIsThere) {
  EXPECT_EQ(text(merge_lists({{entry("a", 1), entry("c", 1)}, {entry("b", 1), entry("d", 1)}}, "c")),
            "a=1 b=1 c=1 ");
  EXPECT_EQ(text(merge_lists({{entry("b", 1)}}, "a")), "");
  EXPECT_EQ(text(merge_lists({}, "")), "");
}

TEST(MergeListsTest, KeysAreInOrderWhereverTheyCameFrom) {
  Random random(7);
  std::vector<ListEntries> lists(5);
  for (uint64_t key = 0; key < 1000; ++key) {
    for (ListEntries& list : lists) {
      if (random.below(3) == 0) list.push_back(entry(fmt::format("key that is long enough {:04}", key), key));
    }
  }
  const ListEntries merged = merge_lists(lists, "");
  for (size_t i = 1; i < merged.size(); ++i) ASSERT_LT(merged[i - 1].key, merged[i].key);
  EXPECT_GT(merged.size(), 800u);
}

}  // namespace
}  // namespace millrace::cluster
