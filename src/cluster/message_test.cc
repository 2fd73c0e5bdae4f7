// Messages between nodes, there and back.
#include "cluster/message.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "cluster/reasons.h"
#include "store/reasons.h"

namespace millrace::cluster {
namespace {

store::Record some_record() {
  store::Record record;
  record.version = {7, 8, 9};
  record.size = 123;
  record.etag = "abc";
  record.tags = {{"a", "b"}};
  record.spread = {2, 1, 1, 1 << 20, "0123456789abcdef", {1, 2, 3}};
  return record;
}

const ObjectName kName{"bucket", "a/key"};

// Of a request that went over the wire.
template <typename T>
T sent(const T& request) {
  return std::get<T>(decode_request(encode_request(request).joined()).take());
}

TEST(MessageTest, RequestsArriveAsTheyWereSent) {
  const auto prepare = sent(PrepareRequest{5, kName, some_record().spread, "bytes"});
  EXPECT_EQ(prepare.drive, 5u);
  EXPECT_EQ(prepare.spread, some_record().spread);
  EXPECT_EQ(prepare.bytes, "bytes");

  const auto state = sent(StateRequest{StateRequest::Purpose::kSync, 3, kName, {1, 2}});
  EXPECT_EQ(state.purpose, StateRequest::Purpose::kSync);
  EXPECT_EQ(state.epoch, 3u);
  EXPECT_EQ(state.drives, (std::vector<DriveId>{1, 2}));

  const auto mark = sent(MarkRequest{4, 6, kName, some_record(), true});
  EXPECT_EQ(mark.record, some_record());
  EXPECT_TRUE(mark.pointer);
  EXPECT_EQ(mark.name, kName);

  EXPECT_EQ(sent(CompleteRequest{6, kName, {1, 2, 3}}).version, (store::Version{1, 2, 3}));
  EXPECT_EQ(sent(FindRequest{11, kName}).epoch, 11u);

  CommitRequest commit{CommitRequest::Kind::kTags, 12, kName, some_record(), {}};
  commit.condition.only_if_etag = "e";
  commit.condition.only_if_modified_ms = -5;
  const auto arrived = sent(commit);
  EXPECT_EQ(arrived.kind, CommitRequest::Kind::kTags);
  EXPECT_EQ(arrived.condition.only_if_etag, "e");
  EXPECT_EQ(arrived.condition.only_if_modified_ms, -5);
  EXPECT_FALSE(arrived.condition.only_if_size);
}

TEST(MessageTest, BulkRequestsArriveAsTheyWereSent) {
  const auto append = sent(AppendRequest{5, "id", 2, 1 << 20, "more"});
  EXPECT_EQ(append.offset, 1u << 20);
  EXPECT_EQ(append.bytes.view(), "more");
  EXPECT_EQ(sent(FinishRequest{5, kName, some_record().spread, 99}).size, 99u);
  EXPECT_EQ(sent(DropRequest{5, kName, some_record().spread}).spread, some_record().spread);
  const auto read = sent(ReadRequest{5, "id", 3, 7, 8});
  EXPECT_EQ(read.slot, 3);
  EXPECT_EQ(read.size, 8u);
  const auto list = sent(ListRequest{4, "b", "p", "a", 10, true});
  EXPECT_EQ(list.prefix, "p");
  EXPECT_EQ(list.after, "a");
  EXPECT_TRUE(list.records);
  EXPECT_FALSE(list.once);
  ListRequest once{4, "b", "", "", 10};
  once.once = true;
  EXPECT_TRUE(sent(once).once);
  EXPECT_FALSE(sent(once).records);

  const auto verify = sent(VerifyRequest{5, kName, "id", 3, 64});
  EXPECT_EQ(verify.drive, 5u);
  EXPECT_EQ(verify.name, kName);
  EXPECT_EQ(verify.write_id, "id");
  EXPECT_EQ(verify.slot, 3);
  EXPECT_EQ(verify.block, 64u);

  ListReply page{{{"k", {1, 2, 3}, true, 4, -5, "e", std::make_shared<const store::Record>(some_record())}},
                 {7, 8},
                 "k"};
  const Reply arrived = decode_reply(encode_reply(Reply(page)).joined()).take();
  const ListReply& again = std::get<ListReply>(arrived);
  ASSERT_EQ(again.entries.size(), 1u);
  EXPECT_EQ(again.entries[0].version, (store::Version{1, 2, 3}));
  EXPECT_EQ(again.entries[0].modified_ms, -5);
  EXPECT_TRUE(again.entries[0].deleted);
  ASSERT_NE(again.entries[0].record, nullptr);
  EXPECT_EQ(*again.entries[0].record, some_record());
  EXPECT_EQ(again.reached, "k");
  EXPECT_EQ(again.drives, page.drives);
}

TEST(MessageTest, RequestsOfTheMoverArriveAsTheyWereSent) {
  const auto mend = sent(MendRequest{4, kName, 9});
  EXPECT_EQ(mend.name, kName);
  EXPECT_EQ(mend.drive, 9u);
  const auto forget = sent(ForgetRequest{4, 5, kName, {1, 2, 3}});
  EXPECT_EQ(forget.version, (store::Version{1, 2, 3}));
  EXPECT_EQ(forget.drive, 5u);
  const auto compare = sent(CompareRequest{4, 5, {{kName, {1, 2, 3}}, {{"b", "c"}, {4, 5, 6}}}});
  ASSERT_EQ(compare.known.size(), 2u);
  EXPECT_EQ(compare.known[1].name, (ObjectName{"b", "c"}));
  EXPECT_EQ(compare.known[0].version, (store::Version{1, 2, 3}));
  const Reply differing = decode_reply(encode_reply(Reply(CompareReply{{1, 7}})).joined()).take();
  EXPECT_EQ(std::get<CompareReply>(differing).differing, (std::vector<uint32_t>{1, 7}));

  ProgressReply told;
  told.progress.clean = 3;
  told.progress.below = 5;
  told.progress.under_way = 6;
  told.progress.problem = "why";
  const Reply progress = decode_reply(encode_reply(Reply(told)).joined()).take();
  EXPECT_EQ(std::get<ProgressReply>(progress).progress, told.progress);

  CompareRequest long_one;
  long_one.known.resize(CompareRequest::kMost + 1);
  EXPECT_FALSE(decode_request(encode_request(long_one).joined()));
}

TEST(MessageTest, RepliesAndErrorsArriveAsTheyWereSent) {
  Ledger ledger;
  ledger.prepared.push_back({some_record().spread, "small"});
  ledger.mark = Mark{some_record(), true, true, "bytes"};
  const Reply state = decode_reply(encode_reply(Reply(StateReply{{{77, ledger}}})).joined()).take();
  ASSERT_EQ(std::get<StateReply>(state).drives.size(), 1u);
  EXPECT_EQ(std::get<StateReply>(state).drives[0].ledger, ledger);

  const Reply object = decode_reply(encode_reply(Reply(ObjectReply{some_record()})).joined()).take();
  EXPECT_EQ(std::get<ObjectReply>(object).record, some_record());

  const VerifyReply damaged{VerifyReply::Found::kDamaged, 1 << 20, 32, 7, "its checksum is wrong"};
  const Reply verified = decode_reply(encode_reply(Reply(damaged)).joined()).take();
  EXPECT_EQ(std::get<VerifyReply>(verified).found, VerifyReply::Found::kDamaged);
  EXPECT_EQ(std::get<VerifyReply>(verified).bytes, 1u << 20);
  EXPECT_EQ(std::get<VerifyReply>(verified).next, 32u);
  EXPECT_EQ(std::get<VerifyReply>(verified).bad_block, 7u);
  EXPECT_EQ(std::get<VerifyReply>(verified).why, "its checksum is wrong");
  std::string unknown = encode_reply(Reply(VerifyReply{})).joined();
  unknown[2] = 9;  // behind format and kind
  EXPECT_FALSE(decode_reply(unknown));

  std::string newer = encode_reply(Reply(DoneReply{})).joined();
  newer[0] = 2;
  EXPECT_NE(decode_reply(newer).error().message().find("format 2, this node speaks 1"), std::string::npos);
  std::string asked = encode_request(RefreshRequest{}).joined();
  asked[0] = 2;
  EXPECT_NE(decode_request(asked).error().message().find("format 2, this node speaks 1"), std::string::npos);

  const auto refused = decode_reply(encode_reply(make_error(store::kConditionFailed, "it exists")).joined());
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().is(store::kConditionFailed));
  EXPECT_EQ(refused.error().message(), "it exists");
  const auto plain =
      decode_reply(encode_reply(make_error(Code::kNoSpace, "full").with_hint("delete")).joined());
  EXPECT_EQ(plain.error().code(), Code::kNoSpace);
  EXPECT_EQ(plain.error().reason(), nullptr);
  EXPECT_EQ(plain.error().hint(), "delete");
}

TEST(MessageTest, EveryCutAndMostFlipsAreNoticedAndNoneCrashes) {
  const std::string request = encode_request(MarkRequest{4, 6, kName, some_record(), true}).joined();
  const std::string reply = encode_reply(Reply(ObjectReply{some_record()})).joined();
  for (size_t size = 0; size < request.size(); ++size) EXPECT_FALSE(decode_request(request.substr(0, size)));
  for (size_t size = 0; size < reply.size(); ++size) EXPECT_FALSE(decode_reply(reply.substr(0, size)));
  EXPECT_FALSE(decode_request(request + "x"));
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string flipped = i % 2 == 0 ? request : reply;
    flipped[random.below(flipped.size())] ^= static_cast<char>(1 + random.below(255));
    static_cast<void>(decode_request(flipped));
    static_cast<void>(decode_reply(flipped));
  }
}

TEST(MessageTest, ManyBytesAreNotCopied) {
  const Bytes bytes(std::string(100'000, 'x'));
  const WireMessage append = encode_request(AppendRequest{1, "0123456789abcdef", 2, 3, bytes});
  EXPECT_EQ(append.tail.data(), bytes.data());
  EXPECT_EQ(append.size(), append.joined().size());

  const Bytes arrived = append.joined();
  const auto request = std::get<AppendRequest>(decode_request(arrived).take());
  EXPECT_EQ(request.bytes.view(), bytes.view());
  EXPECT_EQ(request.bytes.data(), arrived.data() + append.head.size());

  const WireMessage reply = encode_reply(Reply(BytesReply{bytes}));
  EXPECT_EQ(reply.tail.data(), bytes.data());
  EXPECT_EQ(std::get<BytesReply>(decode_reply(reply.joined()).take()).bytes.view(), bytes.view());
  EXPECT_FALSE(decode_reply(reply.head)) << "its tail is missing";
}

}  // namespace
}  // namespace millrace::cluster
