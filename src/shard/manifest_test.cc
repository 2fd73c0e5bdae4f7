// Manifests: what they say, and each way they can be wrong.
#include "shard/manifest.h"

#include <gtest/gtest.h>

namespace millrace::shard {
namespace {

std::string fault_of(std::string_view text, ManifestSyntax syntax) {
  const auto samples = parse_manifest(text, syntax);
  return samples ? "no fault" : samples.error().message();
}

TEST(ManifestTest, TsvColumnsAreFilesOrLiterals) {
  const auto samples =
      parse_manifest("__key__\t@jpg\tcls\r\na/1\timg/1.jpg\t3\n\nb\t\t4\n", ManifestSyntax::kTsv);
  ASSERT_TRUE(samples) << samples.error().message();
  ASSERT_EQ(samples->size(), 2U);
  const SampleRecipe& first = (*samples)[0];
  EXPECT_EQ(first.key, "a/1");
  ASSERT_EQ(first.fields.size(), 2U);
  EXPECT_EQ(first.fields[0].field, "jpg");
  EXPECT_EQ(first.fields[0].kind, FieldRecipe::Kind::kFile);
  EXPECT_EQ(first.fields[0].text, "img/1.jpg");
  EXPECT_EQ(first.fields[1].kind, FieldRecipe::Kind::kLiteral);
  EXPECT_EQ(first.fields[1].text, "3");
  // No path: the sample does not have the field.
  ASSERT_EQ((*samples)[1].fields.size(), 1U);
  EXPECT_EQ((*samples)[1].fields[0].field, "cls");
}

TEST(ManifestTest, JsonValuesBecomeTheTextTheyStandFor) {
  const auto samples = parse_manifest(
      R"({"__key__": "k", "cls": 7, "jpg": {"file": "a.jpg"}, "json": {"json": {"x": [1, 2]}}, "txt": "hi"})",
      ManifestSyntax::kJsonLines);
  ASSERT_TRUE(samples) << samples.error().message();
  const std::vector<FieldRecipe>& fields = (*samples)[0].fields;
  ASSERT_EQ(fields.size(), 4U);
  EXPECT_EQ(fields[0].text, "7");
  EXPECT_EQ(fields[1].kind, FieldRecipe::Kind::kFile);
  EXPECT_EQ(fields[2].text, R"({"x":[1,2]})");
  EXPECT_EQ(fields[3].text, "hi");
}

TEST(ManifestTest, TsvFaultsNameTheLine) {
  const auto fault = [](std::string_view text) { return fault_of(text, ManifestSyntax::kTsv); };
  EXPECT_NE(fault("jpg\tcls\n").find("line 1"), std::string::npos);
  EXPECT_NE(fault("__key__\n").find("no column beside"), std::string::npos);
  EXPECT_NE(fault("__key__\t__key__\tx\n").find("two columns"), std::string::npos);
  EXPECT_NE(fault("__key__\tx\t@x\n").find("two columns"), std::string::npos);
  EXPECT_NE(fault("__key__\t__url__\n").find("unknown special column"), std::string::npos);
  EXPECT_NE(fault("__key__\ta/b\n").find("slash"), std::string::npos);
  EXPECT_NE(fault("__key__\tJPG\n").find("capitals"), std::string::npos);
  EXPECT_NE(fault("__key__\tx\nk\t1\nk2\n").find("line 3: 1 columns"), std::string::npos);
  EXPECT_NE(fault("__key__\tx\nk\t1\nk\t2\n").find("line 3: key \"k\" came before"), std::string::npos);
  EXPECT_NE(fault("__key__\tx\nk.1\t1\n").find("line 2"), std::string::npos);
  EXPECT_NE(fault("__key__\tx\n\t1\n").find("the key is empty"), std::string::npos);
  EXPECT_NE(fault("__key__\t@x\nk\t\n").find("no field"), std::string::npos);
  EXPECT_NE(fault("__key__\tx\n__meta__/a\t1\n").find("line 2"), std::string::npos);
}

TEST(ManifestTest, JsonFaultsNameTheLine) {
  const auto fault = [](std::string_view text) { return fault_of(text, ManifestSyntax::kJsonLines); };
  EXPECT_NE(fault("{\"__key__\": \"a\", \"x\": 1}\nnonsense\n").find("line 2: not a JSON object"),
            std::string::npos);
  EXPECT_NE(fault("[1]\n").find("not a JSON object"), std::string::npos);
  EXPECT_NE(fault("{\"x\": 1}\n").find("__key__"), std::string::npos);
  EXPECT_NE(fault("{\"__key__\": 5.5, \"x\": 1}\n").find("__key__"), std::string::npos);
  EXPECT_NE(fault("{\"__key__\": \"a\", \"x\": null}\n").find("field x must be"), std::string::npos);
  EXPECT_NE(fault("{\"__key__\": \"a\", \"x\": {\"file\": 3}}\n").find("field x must be"), std::string::npos);
  EXPECT_NE(fault("{\"__key__\": \"a\"}\n").find("no field"), std::string::npos);
  const std::string deep =
      "{\"__key__\": \"a\", \"x\": {\"json\": " + std::string(100, '[') + std::string(100, ']') + "}}";
  EXPECT_NE(fault(deep).find("nested too deeply"), std::string::npos);
}

}  // namespace
}  // namespace millrace::shard
