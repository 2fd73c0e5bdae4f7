// Which of the drives that know a key list it.
#include "cluster/listed_elsewhere.h"

#include <gtest/gtest.h>

#include <string>

namespace millrace::cluster {
namespace {

// One drive a node; drives are known by the hashes of their ids.
Map make_map(uint32_t epoch, std::vector<NodeState> states) {
  std::vector<MapNode> nodes;
  for (const NodeState state : states) {
    MapNode node;
    node.number = static_cast<uint32_t>(nodes.size() + 1);
    node.id = "n" + std::to_string(node.number);
    node.state = state;
    node.drives = {{node.id + "-0", 1.0, {}}};
    nodes.push_back(node);
  }
  return Map("c", epoch, epoch, std::move(nodes));
}

constexpr NodeState kServing = NodeState::kServing;

DriveId drive_of(const Map& map, size_t node) {
  return map.nodes()[node].drives[0].hash();
}

std::string row_of(const Map& map, unsigned k, std::vector<size_t> holders, bool complete = true) {
  Mark mark;
  mark.record.version = {map.epoch(), 1, 1};
  mark.record.headers = {{"content-type", "text/plain"}};
  mark.record.tags = {{"a", "b"}};
  mark.record.etag = "tag";
  mark.record.spread.k = static_cast<uint8_t>(k);
  mark.record.spread.m = static_cast<uint8_t>(holders.size() - k);
  mark.record.spread.cell = k > 1 ? 1 << 20 : 0;
  for (const size_t holder : holders) mark.record.spread.holders.push_back(drive_of(map, holder));
  mark.complete = complete;
  Ledger ledger;
  ledger.prepared = {{mark.record.spread, "bytes"}};
  ledger.mark = mark;
  store::Encoder out;
  encode_ledger(out, ledger);
  return std::move(out).take();
}

std::vector<size_t> listing(const Map& map, const std::string& row, std::vector<size_t> drives) {
  std::vector<size_t> listed;
  for (const size_t drive : drives) {
    const auto summary = summarize_ledger(row).take();
    if (!is_listed_elsewhere(*summary, drive_of(map, drive), map).take()) listed.push_back(drive);
  }
  return listed;
}

using Drives = std::vector<size_t>;

TEST(ListedElsewhereTest, TheFirstHoldersThatLiveListAKey) {
  const Map map = make_map(4, {kServing, kServing, kServing, kServing, kServing, kServing});
  EXPECT_EQ(listing(map, row_of(map, 1, {2, 0, 1}), {0, 1, 2}), Drives{2});
  EXPECT_EQ(listing(map, row_of(map, 4, {5, 4, 3, 2, 1, 0}), {0, 1, 2, 3, 4, 5}), (Drives{2, 3, 4, 5}));
}

TEST(ListedElsewhereTest, WhoIsAwayListsNothingSoTheNextOneDoes) {
  const Map map = make_map(4, {kServing, NodeState::kAway, kServing, NodeState::kDraining});
  EXPECT_EQ(listing(map, row_of(map, 1, {1, 0, 2}), {0, 2}), Drives{0});
  EXPECT_EQ(listing(map, row_of(map, 1, {3, 0}), {0, 3}), Drives{3});
  EXPECT_EQ(listing(map, row_of(map, 2, {1, 0, 2, 3}), {0, 2, 3}), (Drives{0, 2}));
}

TEST(ListedElsewhereTest, WhatIsNotCertainIsListedByAll) {
  const Map map = make_map(4, {kServing, kServing, kServing});
  EXPECT_EQ(listing(map, row_of(map, 1, {0, 1}, false), {0, 1}), (Drives{0, 1}));
  // Drive 2 is none of its holders: it has a pointer.
  EXPECT_EQ(listing(map, row_of(map, 1, {0, 1}), {0, 1, 2}), (Drives{0, 2}));
  Ledger removed;
  removed.mark.emplace();
  removed.mark->record.deleted = true;
  removed.mark->complete = true;
  removed.mark->record.spread = {1, 1, 0, 0, "", {drive_of(map, 0), drive_of(map, 1)}};
  store::Encoder out;
  encode_ledger(out, removed);
  EXPECT_EQ(listing(map, out.bytes(), {0, 1}), (Drives{0, 1}));
}

TEST(ListedElsewhereTest, ANodeThatWasAwayInAnOpenEpochMayHaveMissedSomething) {
  const auto all = std::make_shared<const Map>(make_map(4, {kServing, kServing}));
  const auto one_away = std::make_shared<const Map>(make_map(5, {kServing, NodeState::kAway}));
  const auto again = std::make_shared<const Map>(make_map(6, {kServing, kServing}));
  EXPECT_FALSE(places_all_alike({all, one_away, again}));
  EXPECT_FALSE(places_all_alike({all, one_away}));
  EXPECT_TRUE(places_all_alike({all, again}));
  EXPECT_TRUE(places_all_alike({again}));
}

TEST(ListedElsewhereTest, RowsThatAreCutShortAreErrors) {
  const Map map = make_map(4, {kServing, kServing});
  const std::string row = row_of(map, 1, {0, 1});
  for (size_t size = 0; size < row.size(); ++size) {
    const auto summary = summarize_ledger(std::string_view(row).substr(0, size));
    // What follows the mark's record is not looked at.
    if (summary && *summary) EXPECT_GT(size + 8, row.size()) << size;
  }
}

TEST(LedgerTest, ASummarySaysWhatTheLedgerSays) {
  const Map map = make_map(4, {kServing, kServing});
  const std::string row = row_of(map, 1, {0, 1});
  store::Decoder in(row);
  const Ledger ledger = decode_ledger(in).take();
  const auto summary = summarize_ledger(row).take();
  EXPECT_EQ(summary->object.version, ledger.mark->record.version);
  EXPECT_EQ(summary->object.etag, "tag");
  EXPECT_TRUE(summary->complete);
  EXPECT_EQ(store::decode_spread_of(summary->record).take(), ledger.mark->record.spread);
  store::Encoder out;
  encode_ledger(out, {{Prepared{ledger.mark->record.spread, ""}}, std::nullopt});
  EXPECT_FALSE(summarize_ledger(out.bytes()).take());
}

}  // namespace
}  // namespace millrace::cluster
