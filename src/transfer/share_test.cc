// Tests links by the checks that a store makes.
#include "transfer/share.h"

#include <gtest/gtest.h>

#include <optional>

#include "net/client.h"
#include "net/signing.h"

namespace millrace::transfer {
namespace {

constexpr int64_t kNow = 1'790'000'000'000;
constexpr const char* kSecret = "secret";

Settings with_keys() {
  Settings settings;
  settings.endpoint = "http://node:9400";
  settings.credentials = net::Credentials{"AKID", kSecret, "", "us-east-1"};
  return settings;
}

net::SignatureProblem judged(const std::string& link, const std::string& method, int64_t when) {
  const net::Url url = net::parse_url(link).take();
  const net::SignedRequest request{method, url.path, url.query, {{"host", net::host_header(url)}}};
  auto claim = net::read_claim(request);
  if (!claim || !*claim) return net::SignatureProblem::kMalformed;
  return net::judge(request, **claim, kSecret, when);
}

TEST(ShareTest, ALinkIsGoodUntilItExpires) {
  Stores stores(with_keys());
  const Location object = stores.find("mr://train/a b+ü.tar").take();
  const std::string link = make_link(object, {ShareOptions::Right::kRead, 60}, kNow).take();
  EXPECT_TRUE(link.starts_with("http://node:9400/train/a%20b%2B%C3%BC.tar?")) << link;
  EXPECT_EQ(judged(link, "GET", kNow), net::SignatureProblem::kNone);
  EXPECT_EQ(judged(link, "GET", kNow + 59'000), net::SignatureProblem::kNone);
  EXPECT_EQ(judged(link, "GET", kNow + 61'000), net::SignatureProblem::kExpired);
}

TEST(ShareTest, AnAlteredLinkIsWorthless) {
  Stores stores(with_keys());
  const Location object = stores.find("mr://train/a.tar").take();
  const std::string link = make_link(object, {ShareOptions::Right::kWrite, 60}, kNow).take();
  EXPECT_EQ(judged(link, "PUT", kNow), net::SignatureProblem::kNone);
  EXPECT_EQ(judged(link, "GET", kNow), net::SignatureProblem::kMismatch);
  std::string longer = link;
  longer.replace(longer.find("Expires=60"), 10, "Expires=90");
  EXPECT_EQ(judged(longer, "PUT", kNow), net::SignatureProblem::kMismatch);
  std::string other = link;
  other.replace(other.find("a.tar"), 5, "b.tar");
  EXPECT_EQ(judged(other, "PUT", kNow), net::SignatureProblem::kMismatch);
}

TEST(ShareTest, WhatCannotBeSharedIsSaidWithTheNextStep) {
  Stores stores(with_keys());
  const Location object = stores.find("mr://train/a.tar").take();
  const ShareOptions usual;
  const auto refused = [](const Location& location, const ShareOptions& options) -> std::optional<Code> {
    const auto link = make_link(location, options, kNow);
    if (link) return std::nullopt;
    EXPECT_FALSE(link.error().hint().empty());
    return link.error().code();
  };
  EXPECT_EQ(refused(stores.find("mr://train").take(), usual), Code::kInvalid);
  EXPECT_EQ(refused(object, {ShareOptions::Right::kRead, 7 * 86400 + 1}), Code::kInvalid);
  EXPECT_EQ(refused(object, {ShareOptions::Right::kRead, 0}), Code::kInvalid);
  Settings without = with_keys();
  without.credentials.reset();
  Stores open(without);
  EXPECT_EQ(refused(open.find("mr://train/a.tar").take(), usual), Code::kDenied);
}

}  // namespace
}  // namespace millrace::transfer
