// What the audit says of keys and maps that changed.
#include "node/audit_watch.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace millrace::node {
namespace {

using Json = nlohmann::ordered_json;

gateway::Key key(const std::string& id, const std::string& secret, std::vector<gateway::Grant> grants = {}) {
  gateway::Key made;
  made.access_key = id;
  made.secret_key = secret;
  made.grants = std::move(grants);
  return made;
}

TEST(AuditWatchTest, KeysThatCameWentOrChangedAreNamedWithoutTheirSecrets) {
  gateway::KeyRing before;
  before.add(key("stays", "s1"));
  before.add(key("goes", "s2"));
  before.add(key("changes", "s3", {{"train", true, false}}));
  before.add(key("renewed", "s4"));
  gateway::KeyRing now;
  now.add(key("stays", "s1"));
  now.add(key("changes", "s3", {{"train", true, true}}));
  now.add(key("renewed", "s5"));
  gateway::Key admin = key("comes", "s6");
  admin.admin = true;
  now.add(admin);
  const std::vector<Json> lines = describe_changed_keys(before, now);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0].dump(),
            R"({"event":"key","change":"changed","key_id":"changes","rights":["train:read-write"]})");
  EXPECT_EQ(lines[1].at("key_id"), "renewed");
  EXPECT_EQ(lines[2].dump(), R"({"event":"key","change":"added","key_id":"comes","rights":["admin"]})");
  EXPECT_EQ(lines[3].at("change"), "removed");
  for (const Json& line : lines) EXPECT_EQ(line.dump().find("\"s"), std::string::npos) << line;
  EXPECT_TRUE(describe_changed_keys(now, now).empty());
}

cluster::MapNode node(uint32_t number, cluster::NodeState state, const std::string& process = "p") {
  cluster::MapNode made;
  made.id = "n" + std::to_string(number);
  made.number = number;
  made.process = process;
  made.address = "10.0.0.1:9400";
  made.state = state;
  made.drives.push_back({made.id + "-d"});
  return made;
}

TEST(AuditWatchTest, NodesAndDrivesOfTheMapAreNamedWithTheirStates) {
  using cluster::NodeState;
  const cluster::Map before("c", 4, 1, {node(1, NodeState::kServing), node(2, NodeState::kServing)});
  cluster::MapNode draining = node(2, NodeState::kDraining);
  draining.drives[0].state = cluster::DriveStanding::kDraining;
  const cluster::Map now("c", 6, 1,
                         {node(1, NodeState::kServing, "again"), draining, node(3, NodeState::kServing)});
  const std::vector<Json> lines = describe_changed_map(before, now);
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0].at("change"), "started");
  EXPECT_EQ(lines[1].at("state"), "draining");
  EXPECT_EQ(lines[1].at("before"), "serving");
  EXPECT_EQ(lines[1].at("epoch"), 6);
  EXPECT_EQ(lines[2].dump(),
            R"({"event":"drive","drive":"n2-d","of_node":2,"state":"draining","before":"serving"})");
  EXPECT_EQ(lines[3].at("change"), "joined");
  EXPECT_EQ(lines[4].at("drive"), "n3-d");
  EXPECT_TRUE(describe_changed_map(now, now).empty());
}

}  // namespace
}  // namespace millrace::node
