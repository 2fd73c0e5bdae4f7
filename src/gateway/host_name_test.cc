// Hosts and what they are taken for.
#include "gateway/host_name.h"

#include <gtest/gtest.h>

namespace millrace::gateway {
namespace {

using Kind = HostName::Kind;

TEST(HostNamesTest, AddressesAndDomainsAreTheNode) {
  const HostNames names({"localhost", "Store.Example.com"});
  for (const std::string_view host : {"", "127.0.0.1", "127.0.0.1:9400", "[::1]:9400", "localhost",
                                      "LOCALHOST:1", "localhost.", "store.example.com:9400"})
    EXPECT_EQ(names.find(host).kind, Kind::kNode) << host;
}

TEST(HostNamesTest, ABucketStandsBeforeADomain) {
  const HostNames names({"localhost", "example.com", "store.example.com"});
  const std::pair<std::string_view, std::string_view> cases[] = {{"train.localhost:9400", "train"},
                                                                 {"TRAIN.localhost", "train"},
                                                                 {"a.b.localhost", "a.b"},
                                                                 {"train.store.example.com", "train"},
                                                                 {"other.example.com", "other"}};
  for (const auto& [host, bucket] : cases) {
    const HostName found = names.find(host);
    EXPECT_EQ(found.kind, Kind::kBucket) << host;
    EXPECT_EQ(found.bucket, bucket) << host;
  }
}

TEST(HostNamesTest, OtherNamesAreForeignIfTheyCouldHoldABucket) {
  const HostNames names({"localhost"});
  for (const std::string_view host : {"train.node-7:9400", "evil.example", "train.localhost.evil.example",
                                      "trainlocalhost.example", "127.0.0.1.nip.io"})
    EXPECT_EQ(names.find(host).kind, Kind::kForeign) << host;
  for (const std::string_view host : {"x", "millrace-node-of-nobody:9400"})
    EXPECT_EQ(names.find(host).kind, Kind::kShort) << host;
}

TEST(HostNamesTest, DomainsAreNames) {
  EXPECT_TRUE(check_domains({"localhost", "store.example.com"}));
  for (const char* const bad : {"", "a b", "store:9400", ".com", "com.", "127.0.0.1", "http://x"})
    EXPECT_FALSE(check_domains({bad})) << bad;
}

}  // namespace
}  // namespace millrace::gateway
