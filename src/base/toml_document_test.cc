// Tests the positions of keys and values in a document, and the errors about wrong ones.
#include "base/toml_document.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

constexpr const char* kText = R"(name = "shelf"
count = 24
share = 0.25

[part]
read = "5GB/s"
room = "8TB"
)";

TEST(TomlDocumentTest, KnowsWhereEveryValueStands) {
  const auto document = parse_toml(kText, "p.toml");
  ASSERT_TRUE(document) << document.error().message();
  const TomlValue* count = document->root.find("count");
  ASSERT_NE(count, nullptr);
  EXPECT_EQ(count->kind, TomlValue::Kind::kWhole);
  EXPECT_EQ(document->place(count->at), "p.toml:2:9");
  EXPECT_EQ(document->root.find("nothing"), nullptr);
}

TEST(TomlDocumentTest, BrokenTextIsAnErrorWithItsPlace) {
  const auto document = parse_toml("a = 1\nb = \n", "p.toml");
  ASSERT_FALSE(document);
  EXPECT_EQ(document.error().code(), Code::kInvalid);
  EXPECT_TRUE(document.error().message().starts_with("p.toml:2:")) << document.error().message();
  EXPECT_EQ(parse_toml(std::string(kMostTomlBytes + 1, '#'), "p.toml").error().code(), Code::kTooLarge);
  EXPECT_FALSE(read_toml("/nonexistent/p.toml"));
}

TEST(TomlFieldsTest, ReadsEveryKind) {
  const TomlDocument document = parse_toml(kText, "p.toml").take();
  TomlFields root(document, document.root, "the plan");
  EXPECT_EQ(root.text("name"), "shelf");
  EXPECT_EQ(root.count("count", 0), 24U);
  EXPECT_EQ(root.real("share"), 0.25);
  EXPECT_EQ(root.count("absent", 7), 7U);
  EXPECT_TRUE(root.has("part"));
  EXPECT_TRUE(root.finish());
  TomlFields part(document, *document.root.find("part"), "[part]");
  EXPECT_EQ(part.rate("read"), 5'000'000'000U);
  EXPECT_EQ(part.bytes("room"), 8'000'000'000'000U);
  EXPECT_TRUE(part.finish());
}

TEST(TomlFieldsTest, AnUnknownKeyIsNamedWithItsPlaceAndTheNearestOne) {
  const TomlDocument document = parse_toml("coutn = 3\n", "p.toml").take();
  TomlFields root(document, document.root, "the plan");
  root.count("count", 0);
  const auto finished = root.finish();
  ASSERT_FALSE(finished);
  EXPECT_TRUE(finished.error().message().starts_with("p.toml:1:1: the plan has no key \"coutn\""));
  EXPECT_EQ(finished.error().hint(), "did you mean \"count\"?");
}

TEST(TomlFieldsTest, AWrongKindIsNamedWithItsPlace) {
  const TomlDocument document =
      parse_toml("count = \"many\"\nshare = [1]\nname = 2026-01-01\nroom = -1\n", "p.toml").take();
  const auto said = [&document](auto read) {
    TomlFields root(document, document.root, "the plan");
    for (const char* known : {"count", "share", "name", "room"}) root.has(known);
    read(root);
    auto finished = root.finish();
    return finished ? std::string() : finished.error().message();
  };
  EXPECT_TRUE(
      said([](TomlFields& root) { root.count("count", 0); }).starts_with("p.toml:1:9: the plan: count"));
  EXPECT_TRUE(said([](TomlFields& root) { root.real("share"); }).starts_with("p.toml:2:9: the plan: share"));
  EXPECT_TRUE(said([](TomlFields& root) { root.text("name"); }).starts_with("p.toml:3:8: the plan: name"));
  EXPECT_TRUE(said([](TomlFields& root) { root.bytes("room"); }).starts_with("p.toml:4:8: the plan: room"));
}

TEST(TomlValueTest, WordsBecomeWhatTheyLookLike) {
  EXPECT_EQ(make_toml_value("24").kind, TomlValue::Kind::kWhole);
  EXPECT_EQ(make_toml_value("-24").whole, -24);
  EXPECT_EQ(make_toml_value("0.3").real, 0.3);
  EXPECT_EQ(make_toml_value("5GB/s").kind, TomlValue::Kind::kText);
  TomlValue table;
  table.field("a") = make_toml_value("1");
  table.field("a") = make_toml_value("2");
  ASSERT_EQ(table.fields.size(), 1U);
  EXPECT_EQ(table.find("a")->whole, 2);
}

}  // namespace
}  // namespace millrace
