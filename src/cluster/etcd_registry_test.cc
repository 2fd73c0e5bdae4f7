// The etcd registry where members die, restart, compact, ask for a password, or speak TLS; and what it makes
// of answers that are none.
#include "cluster/etcd_registry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "cluster/etcd_answers.h"
#include "cluster/testing/etcd_process.h"
#include "cluster/testing/eventually.h"
#include "cluster/testing/gate.h"
#include "net/testing/script_server.h"
#include "net/tls.h"

namespace millrace::cluster {
namespace {

using millrace::testing::EtcdMembers;
using millrace::testing::eventually;
using millrace::testing::Gate;
using millrace::testing::has_etcd;
using millrace::testing::ScriptServer;
using millrace::testing::TemporaryDirectory;
using std::chrono::milliseconds;

std::unique_ptr<Registry> open(const std::string& address, const EtcdOptions& options = {}) {
  return EtcdRegistry::open(address, options).take();
}

// Writes whatever is there before. False: it could not be reached, or somebody else was faster.
bool put(Registry& registry, const std::string& name, const std::string& value) {
  const auto before = registry.get(name);
  if (!before) return false;
  const auto swapped = registry.swap(name, before->has_value() ? (*before)->revision : 0, value);
  return swapped && swapped->has_value();
}

class EtcdRegistryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_etcd()) GTEST_SKIP() << "etcd is not installed: nothing was tested";
  }
};

TEST_F(EtcdRegistryTest, GoesOnWhenOneOfThreeMembersIsKilled) {
  EtcdMembers etcd(3);
  for (int member = 0; member < 3; ++member) ASSERT_TRUE(etcd.wait_until_ready(member));
  const auto registry = open("etcd://" + etcd.hosts());
  const LeaseId lease = registry->grant(milliseconds(60'000)).take();
  ASSERT_TRUE(registry->swap("held", 0, "x", lease).take().has_value());
  std::atomic<int> calls = 0;
  const auto watch = registry->watch("", [&] { ++calls; });
  ASSERT_TRUE(put(*registry, "a", "before"));
  ASSERT_TRUE(eventually([&] { return calls > 0; }));

  // Every member in turn, so the one that is called, the one that is watched and the leader are among them.
  for (int member = 0; member < 3; ++member) {
    etcd.kill(member);
    const std::string value = "without " + std::to_string(member);
    ASSERT_TRUE(eventually([&] { return put(*registry, "a", value); })) << member;
    EXPECT_EQ(registry->get("a").take()->value, value);
    EXPECT_TRUE(eventually([&] { return registry->renew(lease).has_value(); })) << member;
    EXPECT_TRUE(registry->get("held").take().has_value());
    const int before = calls;
    ASSERT_TRUE(eventually([&] { return put(*registry, "b", value); }));
    EXPECT_TRUE(eventually([&] { return calls > before; })) << member;
    etcd.start(member);
    ASSERT_TRUE(etcd.wait_until_ready(member));
  }
}

TEST_F(EtcdRegistryTest, IsUnavailableWithoutAMajority) {
  EtcdMembers etcd(3);
  for (int member = 0; member < 3; ++member) ASSERT_TRUE(etcd.wait_until_ready(member));
  const auto registry = open("etcd://" + etcd.hosts());
  ASSERT_TRUE(put(*registry, "a", "1"));
  etcd.kill(0);
  etcd.kill(1);
  EXPECT_EQ(registry->get("a").error().code(), Code::kUnavailable);
  EXPECT_EQ(registry->swap("b", 0, "2").error().code(), Code::kUnavailable);
}

TEST_F(EtcdRegistryTest, IsUnavailableWhereNobodyListens) {
  const auto registry = open("etcd://127.0.0.1:1,127.0.0.1:2");
  EXPECT_EQ(registry->get("a").error().code(), Code::kUnavailable);
  EXPECT_EQ(registry->list("").error().code(), Code::kUnavailable);
  EXPECT_EQ(registry->swap("a", 0, "").error().code(), Code::kUnavailable);
  EXPECT_EQ(registry->remove("a", 1).error().code(), Code::kUnavailable);
  EXPECT_EQ(registry->grant(milliseconds(5000)).error().code(), Code::kUnavailable);
  EXPECT_EQ(registry->renew(LeaseId{1}).error().code(), Code::kUnavailable);
  EXPECT_EQ(registry->revoke(LeaseId{1}).error().code(), Code::kUnavailable);
  const auto watch = registry->watch("", [] {});  // and its end waits for nothing
}

TEST_F(EtcdRegistryTest, ResumesAWatchOverARestart) {
  EtcdMembers etcd(1);
  ASSERT_TRUE(etcd.wait_until_ready(0));
  const auto registry = open("etcd://" + etcd.hosts());
  std::atomic<int> calls = 0;
  const auto watch = registry->watch("w/", [&] { ++calls; });
  ASSERT_TRUE(put(*registry, "w/a", "1"));
  ASSERT_TRUE(eventually([&] { return calls > 0; }));
  for (int round = 0; round < 3; ++round) {
    etcd.kill(0);
    etcd.start(0);
    ASSERT_TRUE(etcd.wait_until_ready(0));
    const int before = calls;
    ASSERT_TRUE(eventually([&] { return put(*registry, "w/a", "round " + std::to_string(round)); }));
    EXPECT_TRUE(eventually([&] { return calls > before; })) << round;
  }
}

TEST_F(EtcdRegistryTest, MissesNoChangeWhileAWatchIsCutOff) {
  EtcdMembers etcd(1);
  ASSERT_TRUE(etcd.wait_until_ready(0));
  Gate gate(etcd.port(0));
  const auto watcher = open("etcd://127.0.0.1:" + std::to_string(gate.port()));
  const auto writer = open("etcd://" + etcd.hosts());
  std::atomic<int> calls = 0;
  const auto watch = watcher->watch("w/", [&] { ++calls; });
  ASSERT_TRUE(put(*writer, "w/a", "0"));
  ASSERT_TRUE(eventually([&] { return calls > 0; }));
  for (const bool compact : {false, true}) {
    gate.close();
    const int refused = gate.refused();
    ASSERT_TRUE(eventually([&] { return gate.refused() > refused; }));
    const int before = calls;
    for (int change = 0; change < 5; ++change) ASSERT_TRUE(put(*writer, "w/a", std::to_string(change)));
    const uint64_t newest = writer->get("w/a").take()->revision;
    // etcd then cannot tell what was changed, only that something was forgotten.
    const std::string forget = R"({"revision":")" + std::to_string(newest) + R"(","physical":true})";
    if (compact) {
      ASSERT_TRUE(etcd.post(0, "/v3/kv/compaction", forget).has_value());
    }
    EXPECT_EQ(calls, before);
    gate.open();
    EXPECT_TRUE(eventually([&] { return calls > before; })) << compact;
    // And it goes on from there.
    for (int round = 0; round < 3; ++round) {
      const int now = calls;
      ASSERT_TRUE(put(*writer, "w/a", "later"));
      ASSERT_TRUE(eventually([&] { return calls > now; })) << compact << round;
    }
  }
}

// The answer to a change is lost, and the change is asked for again: it was done once, and nobody may be told
// that somebody else was faster.
TEST_F(EtcdRegistryTest, DoesNotCallAChangeLostWhoseAnswerWas) {
  EtcdMembers etcd(1);
  ASSERT_TRUE(etcd.wait_until_ready(0));
  std::atomic<bool> lose = true;
  ScriptServer between([&](const ScriptServer::Asked& asked) -> ScriptServer::Answer {
    const auto body = etcd.post(0, asked.target(), asked.body);
    if (!body || (lose && asked.target() == "/v3/kv/txn")) {
      lose = false;
      return {"", true};
    }
    return ScriptServer::ok(*body);
  });
  const auto registry = open("etcd" + between.url("/millrace").substr(4));
  const auto swapped = registry->swap("a", 0, "mine");
  ASSERT_FALSE(swapped.has_value());
  EXPECT_EQ(swapped.error().code(), Code::kUnavailable);
  EXPECT_EQ(registry->get("a").take()->value, "mine");
  EXPECT_FALSE(registry->swap("a", 0, "again").take().has_value());
}

TEST_F(EtcdRegistryTest, TakesNoHarmFromAServerThatAnswersNonsense) {
  const std::vector<std::string> answers = {
      "",
      "{}",
      "[[[[",
      "null",
      R"({"header":{"revision":"x"}})",
      R"({"result":{"canceled":true}})",
      R"({"header":{"revision":"5"},"kvs":[{"key":"eA==","mod_revision":"3"}]})"};
  for (const std::string& answer : answers) {
    ScriptServer nonsense([&](const ScriptServer::Asked&) { return ScriptServer::ok(answer + "\n"); });
    const auto registry = open("etcd" + nonsense.url("/x").substr(4));
    EXPECT_FALSE(registry->get("a").has_value()) << answer;
    EXPECT_FALSE(registry->list("a").has_value()) << answer;
    EXPECT_FALSE(registry->grant(milliseconds(5000)).has_value()) << answer;
    const auto watch = registry->watch("", [] {});
    ASSERT_TRUE(eventually([&] { return nonsense.asked().size() > 4; }));
  }
}

TEST_F(EtcdRegistryTest, LogsInAndLogsInAgainWhenItsTokenIsRefused) {
  EtcdMembers etcd(1);
  ASSERT_TRUE(etcd.wait_until_ready(0));
  const auto ask = [&](const std::string& path, const std::string& body) {
    const auto done = etcd.post(0, path, body);
    EXPECT_TRUE(done.has_value()) << path << (done ? "" : done.error().message());
  };
  ask("/v3/auth/role/add", R"({"name":"root"})");
  ask("/v3/auth/user/add", R"({"name":"root","password":"p@ss/word"})");
  ask("/v3/auth/user/grant", R"({"user":"root","role":"root"})");
  ask("/v3/auth/enable", "{}");

  const auto nobody = open("etcd://" + etcd.hosts());
  EXPECT_EQ(nobody->get("a").error().code(), Code::kDenied);
  const auto wrong = open("etcd://root:wrong@" + etcd.hosts());
  const auto refused = wrong->get("a");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kDenied);
  EXPECT_EQ(refused.error().message().find("wrong"), std::string::npos);

  const auto registry = open("etcd://root:p%40ss%2Fword@" + etcd.hosts());
  ASSERT_TRUE(put(*registry, "a", "1"));
  const LeaseId lease = registry->grant(milliseconds(60'000)).take();
  EXPECT_TRUE(registry->renew(lease).take());
  std::atomic<int> calls = 0;
  const auto watch = registry->watch("", [&] { ++calls; });
  ASSERT_TRUE(put(*registry, "a", "2"));
  ASSERT_TRUE(eventually([&] { return calls > 0; }));
  // Tokens live in the member's memory: after a restart it knows none of them.
  etcd.kill(0);
  etcd.start(0);
  ASSERT_TRUE(eventually([&] { return put(*registry, "a", "3"); }));
  EXPECT_TRUE(eventually([&] { return registry->renew(lease).has_value(); }));
  EXPECT_TRUE(registry->renew(lease).take());
  for (int round = 0; round < 5; ++round) {
    const int before = calls;
    ASSERT_TRUE(put(*registry, "a", "4"));
    ASSERT_TRUE(eventually([&] { return calls > before; })) << round;
  }
}

TEST_F(EtcdRegistryTest, SpeaksTlsWithAnAuthorityOfItsOwn) {
  TemporaryDirectory directory;
  const net::CertificatePaths paths = net::make_self_signed(directory.path()).take();
  EtcdMembers etcd(1, "https", {"--cert-file=" + paths.certificate, "--key-file=" + paths.key});
  ASSERT_TRUE(etcd.wait_until_ready(0));
  EtcdOptions options;
  options.ca_file = paths.certificate;
  const auto registry = open("etcds://" + etcd.hosts(), options);
  EXPECT_TRUE(put(*registry, "a", "1"));
  std::atomic<int> calls = 0;
  const auto watch = registry->watch("", [&] { ++calls; });
  EXPECT_TRUE(eventually([&] { return calls > 0; }));
  const auto distrusting = open("etcds://" + etcd.hosts());
  EXPECT_EQ(distrusting->get("a").error().code(), Code::kDenied);
}

TEST_F(EtcdRegistryTest, KeepsTwoPrefixesApart) {
  EtcdMembers etcd(1);
  ASSERT_TRUE(etcd.wait_until_ready(0));
  const auto one = open("etcd://" + etcd.hosts() + "/one");
  const auto two = open("etcd://" + etcd.hosts() + "/one/two");
  ASSERT_TRUE(put(*one, "a", "1"));
  ASSERT_TRUE(put(*two, "a", "2"));
  EXPECT_EQ(one->get("a").take()->value, "1");
  EXPECT_EQ(two->list("").take().size(), 1U);
}

TEST(EtcdAddressTest, TakesSeveralHostsUserAndPrefix) {
  const auto full = parse_etcd_address("etcds://a%3Ab:c%40d@h1:1,h2,[::1]:3/x/y/").take();
  EXPECT_EQ(full.user, "a:b");
  EXPECT_EQ(full.password, "c@d");
  EXPECT_EQ(full.prefix, "x/y/");
  ASSERT_EQ(full.endpoints.size(), 3U);
  EXPECT_EQ(full.endpoints[0].scheme, "https");
  EXPECT_EQ(full.endpoints[0].port, 1);
  EXPECT_EQ(full.endpoints[1].host, "h2");
  EXPECT_EQ(full.endpoints[1].port, 2379);
  EXPECT_EQ(full.endpoints[2].host, "::1");
  EXPECT_EQ(parse_etcd_address("etcd://h").take().prefix, "millrace/");
}

TEST(EtcdAddressTest, RefusesWhatIsNoneWithoutShowingThePassword) {
  const std::vector<std::string> bad = {
      "etcd://",     "etcd://,",         "etcd://h,",    "http://h",        "etcd://user@h",
      "etcd://:p@h", "etcd://u:secret@", "etcd://h/a b", "etcd://h:99999/", "etcd://u:%zsecret@h"};
  for (const std::string& text : bad) {
    const auto parsed = parse_etcd_address(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code(), Code::kInvalid);
    EXPECT_EQ(parsed.error().message().find("secret"), std::string::npos);
  }
}

TEST(EtcdAnswersTest, ReadsFailuresOfCallsAndOfStreams) {
  EXPECT_TRUE(
      parse_failure(401, R"({"error":"etcdserver: invalid auth token","code":16})").is(kTokenRefused));
  EXPECT_TRUE(
      parse_failure(404, R"({"error":"etcdserver: requested lease not found","code":5})").is(kLeaseEnded));
  EXPECT_EQ(parse_failure(503, R"({"error":"etcdserver: no leader","code":14})").code(), Code::kUnavailable);
  EXPECT_EQ(parse_failure(500, "<html>").code(), Code::kUnavailable);
  EXPECT_EQ(parse_failure(404, "404 page not found").code(), Code::kUnsupported);
  EXPECT_TRUE(parse_renewal(R"({"error":{"grpc_code":16,"message":"etcdserver: invalid auth token"}})")
                  .error()
                  .is(kTokenRefused));
}

TEST(EtcdAnswersTest, TakesNothingForAnAnswerThatIsNone) {
  const std::vector<std::string> bad = {
      "",
      "{",
      "[]",
      "null",
      "{}",
      R"({"header":{}})",
      R"({"header":{"revision":"-1"}})",
      R"({"header":{"revision":"1e3"}})",
      R"({"header":[],"ID":[],"token":1,"result":3})",
      R"({"ID":"x","token":"a\nb","result":{"TTL":"many","header":{"revision":"x"}}})",
      R"({"result":{"events":[{}]}})",
      std::string(5000, '[')};
  for (const std::string& text : bad) {
    EXPECT_FALSE(parse_range(text).has_value()) << text;
    EXPECT_FALSE(parse_transaction(text).has_value()) << text;
    EXPECT_FALSE(parse_grant(text).has_value()) << text;
    EXPECT_FALSE(parse_token(text).has_value()) << text;
    EXPECT_FALSE(parse_notice(text).has_value()) << text;
  }
  EXPECT_FALSE(
      parse_range(R"({"header":{"revision":"1"},"kvs":[{"key":"!","mod_revision":"1"}]})").has_value());
  EXPECT_FALSE(parse_range(R"({"header":{"revision":"1"},"kvs":[{"key":"eA=="}]})").has_value());
  EXPECT_FALSE(parse_range(R"({"header":{"revision":"1"},"kvs":{}})").has_value());
}

}  // namespace
}  // namespace millrace::cluster
