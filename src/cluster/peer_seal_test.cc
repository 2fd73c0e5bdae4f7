// What seals let through and what they stop.
#include "cluster/peer_seal.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/random.h"
#include "net/digest.h"
#include "net/poly1305.h"

namespace millrace::cluster {
namespace {

constexpr int64_t kNow = 1'790'000'000'000;
const std::string kSecretText = "0123456789abcdef";
const SealedParts kParts{"POST", kPeerPath, "body"};

PeerSecret secret(const std::string& cluster = "c1", const std::string& text = kSecretText) {
  return PeerSecret::make(cluster, text).take();
}

Status judge(SealChecker& checker, const RequestSeal& seal, const SealedParts& parts = kParts,
             int64_t now = kNow) {
  const RequestSeal read = MR_TRY(checker.read(seal.text(), now));
  return checker.check(read, parts, now);
}

std::string said(const Status& status) {
  if (status) return "accepted";
  EXPECT_EQ(status.error().code(), Code::kDenied);
  return status.error().message() + " | " + status.error().hint();
}

TEST(PeerSealTest, AMessageOfTheClusterIsAccepted) {
  Sealer sealer(secret(), 1);
  SealChecker checker(secret(), 2);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(said(judge(checker, sealer.seal(2, kParts, kNow))), "accepted");
  EXPECT_EQ(checker.processes(), 1u);
}

TEST(PeerSealTest, TheCodeIsWhatTheFormatSays) {
  Sealer sealer(secret(), 1);
  const RequestSeal seal = sealer.seal(2, kParts, kNow);
  const std::string head = fmt::format("POST\n/-/peer\nc1\n1\n2\n{:016x}\n1\n{}", seal.process, kNow);
  const std::string tag = net::poly1305(net::hmac_sha256(kSecretText, "body\n" + head), kParts.body);
  EXPECT_EQ(seal.mac, net::to_hex(net::hmac_sha256(kSecretText, head + "\n" + net::to_hex(tag))));
  EXPECT_EQ(seal.text(), fmt::format("v2 c1 1 2 {:016x} 1 {} {}", seal.process, kNow, seal.mac));
}

TEST(PeerSealTest, AnotherSecretIsRefused) {
  Sealer sealer(secret("c1", "another secret text"), 1);
  SealChecker checker(secret(), 2);
  const std::string why = said(judge(checker, sealer.seal(2, kParts, kNow)));
  EXPECT_NE(why.find("another secret"), std::string::npos) << why;
  EXPECT_NE(why.find("compare the secrets"), std::string::npos) << why;
  EXPECT_EQ(checker.processes(), 0u);
}

TEST(PeerSealTest, AnotherClusterOrReceiverIsRefusedByName) {
  Sealer sealer(secret("c2"), 1);
  SealChecker checker(secret(), 2);
  const std::string why = said(judge(checker, sealer.seal(2, kParts, kNow)));
  EXPECT_NE(why.find("cluster c2, this node of c1"), std::string::npos) << why;
  Sealer own(secret(), 1);
  const std::string whose = said(judge(checker, own.seal(3, kParts, kNow)));
  EXPECT_NE(whose.find("for node 3, this is node 2"), std::string::npos) << whose;
}

TEST(PeerSealTest, NoPartOfTheMessageCanBeChanged) {
  Sealer sealer(secret(), 1);
  SealChecker checker(secret(), 2);
  const RequestSeal seal = sealer.seal(2, kParts, kNow);
  EXPECT_FALSE(judge(checker, seal, {"PUT", kPeerPath, "body"}));
  EXPECT_FALSE(judge(checker, seal, {"POST", "/-/other", "body"}));
  EXPECT_FALSE(judge(checker, seal, {"POST", kPeerPath, "bodY"}));
  std::vector<RequestSeal> changed(5, seal);
  changed[0].from = 9;
  changed[1].process ^= 1;
  changed[2].counter += 1;
  changed[3].wall_ms += 1;
  changed[4].mac[0] = changed[4].mac[0] == 'a' ? 'b' : 'a';
  for (const RequestSeal& other : changed) EXPECT_FALSE(judge(checker, other));
  EXPECT_EQ(said(judge(checker, seal)), "accepted");
}

TEST(PeerSealTest, ClocksMayDifferByAQuarterOfAnHour) {
  Sealer sealer(secret(), 1);
  SealChecker checker(secret(), 2);
  EXPECT_TRUE(judge(checker, sealer.seal(2, kParts, kNow - kSealWindowMs)));
  EXPECT_TRUE(judge(checker, sealer.seal(2, kParts, kNow + kSealWindowMs)));
  for (const int64_t away : {-kSealWindowMs - 1, kSealWindowMs + 1}) {
    const std::string why = said(judge(checker, sealer.seal(2, kParts, kNow + away)));
    EXPECT_NE(why.find("set the clocks"), std::string::npos) << why;
  }
}

TEST(PeerSealTest, AMessageIsAcceptedOnce) {
  Sealer sealer(secret(), 1);
  SealChecker checker(secret(), 2);
  const RequestSeal seal = sealer.seal(2, kParts, kNow);
  EXPECT_TRUE(judge(checker, seal));
  const std::string why = said(judge(checker, seal));
  EXPECT_NE(why.find("was here before"), std::string::npos) << why;
}

TEST(PeerSealTest, MessagesMayOvertakeEachOtherWithinTheWindow) {
  const uint64_t seed = 7;
  Random random(seed);
  Sealer sealer(secret(), 1);
  SealChecker checker(secret(), 2);
  std::vector<RequestSeal> seals;
  for (size_t i = 0; i < 3 * kReplayWindow; ++i) seals.push_back(sealer.seal(2, kParts, kNow));
  // Within blocks of half a window, so that none is overtaken by a whole one.
  for (size_t block = 0; block < seals.size(); block += kReplayWindow / 2)
    random.shuffle(std::span(seals).subspan(block, kReplayWindow / 2));
  for (const RequestSeal& seal : seals) ASSERT_TRUE(judge(checker, seal)) << seal.counter;
  for (const RequestSeal& seal : seals) ASSERT_FALSE(judge(checker, seal)) << seal.counter;
}

TEST(PeerSealTest, WhatIsOlderThanTheWindowIsRefused) {
  Sealer sealer(secret(), 1);
  SealChecker checker(secret(), 2);
  std::vector<RequestSeal> seals;
  for (size_t i = 0; i < kReplayWindow + 2; ++i) seals.push_back(sealer.seal(2, kParts, kNow));
  EXPECT_TRUE(judge(checker, seals.back()));
  EXPECT_FALSE(judge(checker, seals[0]));
  EXPECT_FALSE(judge(checker, seals[1]));
  EXPECT_TRUE(judge(checker, seals[2]));
  EXPECT_FALSE(judge(checker, seals[2]));
}

TEST(PeerSealTest, AJumpOfCountersLeavesNoneMarkedThatWasNotSeen) {
  Sealer sealer(secret(), 1);
  SealChecker checker(secret(), 2);
  std::vector<RequestSeal> seals;
  for (size_t i = 0; i < 3 * kReplayWindow; ++i) seals.push_back(sealer.seal(2, kParts, kNow));
  for (size_t i = 0; i < kReplayWindow; ++i) ASSERT_TRUE(judge(checker, seals[i]));
  // One less than a whole window, then more than one.
  EXPECT_TRUE(judge(checker, seals[2 * kReplayWindow - 2]));
  for (size_t i = kReplayWindow; i < 2 * kReplayWindow - 2; ++i) ASSERT_TRUE(judge(checker, seals[i])) << i;
  EXPECT_FALSE(judge(checker, seals[kReplayWindow - 1]));
}

TEST(PeerSealTest, OneReceiversCountersDoNotRunAwayWithAnothers) {
  Sealer sealer(secret(), 1);
  sealer.seal(2, kParts, kNow);
  for (size_t i = 0; i < 2 * kReplayWindow; ++i) sealer.seal(3, kParts, kNow);
  EXPECT_EQ(sealer.seal(2, kParts, kNow).counter, 2u);
}

TEST(PeerSealTest, ProcessesAreForgottenOnlyOutsideTheTimeWindow) {
  SealChecker checker(secret(), 2, 2);
  Sealer first(secret(), 1);
  Sealer second(secret(), 1);
  Sealer third(secret(), 3);
  const RequestSeal early = first.seal(2, kParts, kNow);
  EXPECT_TRUE(judge(checker, early));
  EXPECT_TRUE(judge(checker, second.seal(2, kParts, kNow + 10)));
  const int64_t edge = kNow + kSealWindowMs;
  const std::string why = said(judge(checker, third.seal(2, kParts, edge), kParts, edge));
  EXPECT_NE(why.find("2 processes"), std::string::npos) << why;
  EXPECT_TRUE(judge(checker, third.seal(2, kParts, edge + 1), kParts, edge + 1));
  EXPECT_EQ(checker.processes(), 2u);
  // The forgotten one's messages are too old by then.
  EXPECT_FALSE(judge(checker, early, kParts, edge + 1));
}

TEST(PeerSealTest, AReplyBelongsToItsRequest) {
  Sealer sealer(secret(), 1);
  const SealChecker checker(secret(), 2);
  const RequestSeal request = sealer.seal(2, kParts, kNow);
  const RequestSeal other = sealer.seal(2, kParts, kNow);
  const std::string seal = checker.seal_reply(request, 200, "reply");
  EXPECT_EQ(said(sealer.check_reply(request, seal, 200, "reply")), "accepted");
  EXPECT_FALSE(sealer.check_reply(other, seal, 200, "reply"));
  EXPECT_FALSE(sealer.check_reply(request, seal, 400, "reply"));
  EXPECT_FALSE(sealer.check_reply(request, seal, 200, "Reply"));
  EXPECT_FALSE(sealer.check_reply(request, "", 200, "reply"));
  EXPECT_FALSE(sealer.check_reply(request, seal + " more", 200, "reply"));
  EXPECT_NE(seal, checker.seal_reply(request, 200, "reply")) << "two answers share a key";
  const std::string why = said(sealer.check_reply(request, "v1 " + seal.substr(3), 200, "reply"));
  EXPECT_NE(why.find("version v1, this node speaks v2"), std::string::npos) << why;
}

TEST(PeerSealTest, HeadersThatCannotBeReadAreRefused) {
  const std::string mac(64, 'a');
  const std::string good = "v2 c1 1 2 00000000000000ff 3 1790000000000 " + mac;
  ASSERT_TRUE(parse_request_seal(good));
  EXPECT_EQ(parse_request_seal(good)->text(), good);
  for (const std::string& bad : {
           std::string(""),
           std::string("v2"),
           good + " ",
           good + " more",
           " " + good,
           good.substr(0, good.size() - 1),
           "v2  1 2 00000000000000ff 3 1790000000000 " + mac,
           "v2 c1 -1 2 00000000000000ff 3 1790000000000 " + mac,
           "v2 c1 1 4294967296 00000000000000ff 3 1790000000000 " + mac,
           "v2 c1 1 2 ff 3 1790000000000 " + mac,
           "v2 c1 1 2 00000000000000ff 0 1790000000000 " + mac,
           "v2 c1 1 2 00000000000000ff 3 -1 " + mac,
           "v2 c1 1 2 00000000000000ff 3 9223372036854775807 " + mac,
           "v2 c1 1 2 00000000000000ff 3 1790000000000 " + std::string(64, 'A'),
           "v2 " + std::string(300, 'c') + " 1 2 00000000000000ff 3 1790000000000 " + mac,
       }) {
    const auto parsed = parse_request_seal(bad);
    ASSERT_FALSE(parsed) << bad;
    EXPECT_EQ(parsed.error().code(), Code::kDenied) << bad;
  }
  const auto newer = parse_request_seal("v1 whatever follows");
  ASSERT_FALSE(newer);
  EXPECT_NE(newer.error().message().find("version v1, this node speaks v2"), std::string::npos);
}

TEST(PeerSealTest, AGuessableSecretOrAnIdWithBlanksIsNone) {
  EXPECT_FALSE(PeerSecret::make("c1", "short"));
  EXPECT_FALSE(PeerSecret::make("c1", ""));
  EXPECT_FALSE(PeerSecret::make("", kSecretText));
  EXPECT_FALSE(PeerSecret::make("c 1", kSecretText));
  EXPECT_FALSE(PeerSecret::make("c\n1", kSecretText));
  EXPECT_FALSE(PeerSecret::make(std::string(kMaxClusterId + 1, 'c'), kSecretText));
}

TEST(PeerSealTest, ThreadsNeverShareACounter) {
  Sealer sealer(secret(), 1);
  SealChecker checker(secret(), 2);
  std::atomic<int> accepted = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 500; ++turn) {
        if (judge(checker, sealer.seal(2, kParts, kNow))) ++accepted;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(accepted, 2000);
}

}  // namespace
}  // namespace millrace::cluster
