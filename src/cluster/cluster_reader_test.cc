// Readers of objects whose slices move, are lost or come late. The other nodes are the test.
#include "cluster/cluster_reader.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <set>

#include "base/testing/temporary_directory.h"
#include "cluster/stripe.h"
#include "cluster/testing/alone.h"
#include "store/local_store.h"

namespace millrace::cluster {
namespace {

constexpr uint64_t kMebibyte = 1 << 20;

MapNode make_node(uint32_t number) {
  MapNode node;
  node.id = fmt::format("node {}", number);
  node.number = number;
  node.address = fmt::format("127.0.0.1:{}", number);
  node.drives.push_back({fmt::format("drive {}", number)});
  return node;
}

// Node 1 reads; nodes 2 to 7 answer when the test lets them.
class Others final : public testing::Alone {
 public:
  Others() : Alone({make_node(2), make_node(3), make_node(4), make_node(5), make_node(6), make_node(7)}) {}

  struct Asked {
    Request request;
    Done<Reply> done;
  };
  void call(uint32_t, Request request, Done<Reply> done) override {
    asked.push_back({std::move(request), std::move(done)});
  }
  Result<Redundancy> redundancy(const std::string&) const override { return wanted; }

  // The first request that waits, as this kind; null where it is another.
  template <typename T>
  const T* next() const {
    return asked.empty() ? nullptr : std::get_if<T>(&asked.front().request);
  }
  void answer(Result<Reply> reply) {
    Asked first = std::move(asked.front());
    asked.pop_front();
    first.done(std::move(reply));
  }

  std::deque<Asked> asked;
  Redundancy wanted{1, 1, 1};
};

DriveId drive_of(uint32_t node) {
  return make_node(node).drives.front().hash();
}

class ClusterReaderTest : public ::testing::Test {
 protected:
  ClusterReaderTest() {
    store::StoreOptions options;
    options.state_directory = directory_.path("state");
    store_ = store::LocalStore::open(options, log_).take();
    cluster_.emplace(Surroundings{others_, others_, others_, others_}, store_->slices(), workers_, Blocks(),
                     [] { return Status(); });
  }
  ~ClusterReaderTest() override { workers_.stop(); }

  static store::Record record_of(uint64_t size, uint8_t k, std::vector<uint32_t> nodes) {
    store::Record record;
    record.version = {5, 1, 1};
    record.size = size;
    record.pieces = {{0, size}};
    record.spread.k = k;
    record.spread.m = static_cast<uint8_t>(nodes.size() - k);
    record.spread.cell = k > 1 ? kMebibyte : 0;
    record.spread.write_id = "0123456789abcdef";
    for (const uint32_t node : nodes) record.spread.holders.push_back(drive_of(node));
    return record;
  }
  std::unique_ptr<store::Reader> open(const store::Record& record) {
    return open_cluster_reader(*cluster_, std::make_shared<const store::Object>("bucket", "key", record, ""));
  }
  // What a drive says that knows this object as whole.
  static Reply state_of(const StateRequest& request, const store::Record& record) {
    Ledger ledger;
    ledger.mark = Mark{record, true, true, ""};
    return StateReply{{{request.drives.front(), ledger}}};
  }
  static Error gone() { return make_error(Code::kUnavailable, "the slice is not here"); }

  const testing::TemporaryDirectory directory_;
  Log log_{LogLevel::kWarn};
  std::unique_ptr<store::LocalStore> store_;
  Workers workers_{1};
  Others others_;
  std::optional<Cluster> cluster_;
};

TEST_F(ClusterReaderTest, StretchesThatAreReadAheadFollowSlicesThatMoved) {
  const store::Record before = record_of(2 * kMebibyte, 1, {2, 3});
  const store::Record now = record_of(2 * kMebibyte, 1, {4, 5});
  const auto reader = open(before);
  std::optional<Result<store::Extent>> first;
  reader->prepare(0, 2 * kMebibyte, [&](Result<store::Extent> extent) { first = std::move(extent); });
  ASSERT_EQ(others_.asked.size(), 2u);
  // Both stretches miss their slice at the first holder, then at the second.
  others_.answer(gone());
  others_.answer(gone());
  ASSERT_EQ(others_.asked.size(), 2u);
  others_.answer(gone());
  // The first stretch looks for the object again, and learns of its new holders before the second one is told
  // that its slice is gone.
  Others::Asked late = std::move(others_.asked.front());
  others_.asked.pop_front();
  while (const auto* peek = others_.next<StateRequest>()) others_.answer(state_of(*peek, now));
  ASSERT_NE(others_.next<ReadRequest>(), nullptr);
  EXPECT_EQ(others_.next<ReadRequest>()->drive, drive_of(4));
  others_.answer(Reply(BytesReply{std::string(kMebibyte, 'a')}));
  ASSERT_TRUE(first && *first);
  EXPECT_EQ((*first)->bytes(), std::string(kMebibyte, 'a'));

  late.done(gone());
  ASSERT_NE(others_.next<ReadRequest>(), nullptr) << "the second stretch gave up";
  EXPECT_EQ(others_.next<ReadRequest>()->offset, kMebibyte);
  others_.answer(Reply(BytesReply{std::string(kMebibyte, 'b')}));
  const auto second = reader->find_ready(kMebibyte, kMebibyte);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->bytes(), std::string(kMebibyte, 'b'));
}

TEST_F(ClusterReaderTest, AnObjectThatDidNotMoveAndCannotBeReadIsAnError) {
  const store::Record record = record_of(kMebibyte, 1, {2, 3});
  const auto reader = open(record);
  std::optional<Result<store::Extent>> outcome;
  reader->prepare(0, kMebibyte, [&](Result<store::Extent> extent) { outcome = std::move(extent); });
  others_.answer(gone());
  others_.answer(gone());
  while (const auto* peek = others_.next<StateRequest>()) others_.answer(state_of(*peek, record));
  ASSERT_TRUE(outcome);
  ASSERT_FALSE(*outcome);
  EXPECT_NE(outcome->error().message().find("too few slices"), std::string::npos)
      << outcome->error().message();
}

TEST_F(ClusterReaderTest, CellsThatBringBackASliceAreAskedForOnce) {
  others_.wanted = {2, 2, 3};
  // Three stripes of two cells; both holders of data slices are away.
  const uint64_t size = 6 * kMebibyte;
  const std::string bytes = [&] {
    std::string made;
    for (int cell = 0; cell < 6; ++cell) made += std::string(kMebibyte, static_cast<char>('a' + cell));
    return made;
  }();
  const Coder coder(2, 2);
  const auto parity_of = [&](uint64_t stripe, unsigned row) {
    std::vector<Cell> cells;
    for (uint64_t i = 0; i < 2; ++i)
      cells.push_back(std::as_bytes(std::span(bytes)).subspan((2 * stripe + i) * kMebibyte, kMebibyte));
    std::vector<std::string> parity(2, std::string(kMebibyte, '\0'));
    std::vector<CellSpace> spaces;
    for (std::string& one : parity) spaces.push_back(std::as_writable_bytes(std::span(one)));
    coder.encode(cells, spaces);
    return parity[row];
  };
  const auto reader = open(record_of(size, 2, {2, 3, 4, 5}));
  std::multiset<std::pair<DriveId, uint64_t>> read;
  std::string got;
  while (got.size() < size) {
    std::optional<Result<store::Extent>> extent;
    reader->prepare(got.size(), size - got.size(),
                    [&](Result<store::Extent> one) { extent = std::move(one); });
    while (const auto* request = others_.next<ReadRequest>()) {
      const bool is_data = request->drive == drive_of(2) || request->drive == drive_of(3);
      if (is_data) {
        others_.answer(gone());
        continue;
      }
      read.emplace(request->drive, request->offset);
      const unsigned row = request->drive == drive_of(4) ? 0 : 1;
      others_.answer(Reply(BytesReply{parity_of(request->offset / kMebibyte, row)}));
    }
    ASSERT_TRUE(extent && *extent);
    got += (*extent)->bytes();
  }
  EXPECT_EQ(got, bytes);
  EXPECT_EQ(read.size(), 6u) << "a cell was asked for twice";
}

}  // namespace
}  // namespace millrace::cluster
