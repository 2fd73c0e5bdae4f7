// S3's small documents: what is written can be read by anyone, what is read is checked.
#include "gateway/s3_xml.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "gateway/s3_errors.h"

namespace millrace::gateway {
namespace {

std::string_view code_of(const Error& error) {
  return refusal_of(error).code();
}

TEST(XmlWriterTest, ElementsAreNestedAndClosed) {
  XmlWriter xml("Root", XmlWriter::Namespace::kNone);
  xml.add("A", "text");
  xml.open("B");
  xml.add("C", uint64_t{18446744073709551615U});
  xml.close();
  xml.open("D");
  EXPECT_EQ(xml.finish(),
            "<?xml version=\"1.0\" "
            "encoding=\"UTF-8\"?>\n<Root><A>text</A><B><C>18446744073709551615</C></B><D></D></Root>\n");
}

TEST(XmlTest, ADeleteNamesItsObjects) {
  const auto request = parse_delete(
      "<?xml version=\"1.0\"?><Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>"
      "<Object><Key>a&amp;b &#252;</Key></Object><Object><Key> c </Key><ETag>\"e\"</ETag></Object></Delete>");
  ASSERT_TRUE(request) << request.error().message();
  EXPECT_TRUE(request->quiet);
  ASSERT_EQ(request->entries.size(), 2U);
  EXPECT_EQ(request->entries[0].key, "a&b ü");
  EXPECT_EQ(request->entries[1].key, " c ");
  EXPECT_EQ(request->entries[1].condition.only_if_etag, "e");
  EXPECT_FALSE(request->entries[0].condition.is_any());
}

TEST(XmlTest, AKeyOfOneBlankIsAKey) {
  const auto request = parse_delete("<Delete><Object><Key> </Key></Object></Delete>");
  ASSERT_TRUE(request) << request.error().message();
  EXPECT_EQ(request->entries[0].key, " ");
}

TEST(XmlTest, PrefixedNamesCountAsTheirLocalNames) {
  const auto request =
      parse_delete("<s3:Delete xmlns:s3=\"x\"><s3:Object><s3:Key>k</s3:Key></s3:Object></s3:Delete>");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->entries[0].key, "k");
}

TEST(XmlTest, BrokenDeletesAreMalformed) {
  for (const std::string_view text :
       {"", " ", "x", "<Delete>", "<Delete/>", "<Delete></Deleted>",
        "<Other><Object><Key>k</Key></Object></Other>", "<Delete><Object/></Delete>",
        "<Delete><Object><Key></Key></Object></Delete>", "<Delete><Object><Key>k</Object></Delete>"}) {
    const auto request = parse_delete(text);
    ASSERT_FALSE(request) << text;
    EXPECT_EQ(code_of(request.error()), "MalformedXML") << text;
  }
}

TEST(XmlTest, AThousandDeletesAreTheMost) {
  std::string objects;
  for (size_t i = 0; i < kMaxDeletes; ++i) objects += "<Object><Key>k</Key></Object>";
  EXPECT_TRUE(parse_delete("<Delete>" + objects + "</Delete>"));
  EXPECT_FALSE(parse_delete("<Delete>" + objects + "<Object><Key>k</Key></Object></Delete>"));
}

TEST(XmlTest, VersionsAreNotKept) {
  EXPECT_TRUE(parse_delete("<Delete><Object><Key>k</Key><VersionId>null</VersionId></Object></Delete>"));
  const auto request = parse_delete("<Delete><Object><Key>k</Key><VersionId>7</VersionId></Object></Delete>");
  ASSERT_FALSE(request);
  EXPECT_EQ(code_of(request.error()), "NotImplemented");
}

TEST(XmlTest, TheWholeTextOfAKeyIsItsName) {
  const std::pair<std::string_view, std::string_view> cases[] = {{"a<!-- x -->b", "ab"},
                                                                 {"<![CDATA[a]]>b", "ab"},
                                                                 {"a<![CDATA[&#0;<x>]]>", "a&#0;<x>"},
                                                                 {"a<?pi x?>b", "ab"},
                                                                 {"a<!-- x --> ", "a "},
                                                                 {"<!-- x -->a", "a"},
                                                                 {"a&#98;&#x63;&amp;", "abc&"},
                                                                 {"<![CDATA[a]]><![CDATA[b]]>", "ab"},
                                                                 {" <!-- & --> ", "  "}};
  for (const auto& [text, key] : cases) {
    const auto request =
        parse_delete("<Delete><Object><Key>" + std::string(text) + "</Key></Object></Delete>");
    ASSERT_TRUE(request) << text << ": " << request.error().message();
    EXPECT_EQ(request->entries[0].key, key) << text;
    const auto tags = parse_tagging("<Tagging><TagSet><Tag><Key>k</Key><Value>" + std::string(text) +
                                    "</Value></Tag></TagSet></Tagging>");
    ASSERT_TRUE(tags) << text;
    EXPECT_EQ(tags->front().second, key) << text;
  }
}

TEST(XmlTest, TextThatTwoReadersWouldReadDifferentlyIsRefused) {
  for (const std::string_view text :
       {"a&#0;b", "a&#x0;b", "a&#00;b", "a&#4294967296;b", "a&#xd800;b", "a&#x110000;b", "a&b", "a&b;c",
        "a&#;b", "a&#-1;b", "a<x/>b", "<x>a</x>", "a</Key><Key>b", "\xff"}) {
    const auto request =
        parse_delete("<Delete><Object><Key>" + std::string(text) + "</Key></Object></Delete>");
    ASSERT_FALSE(request) << text;
    EXPECT_EQ(code_of(request.error()), "MalformedXML") << text;
  }
  const std::string nul("<Delete><Object><Key>a\0b</Key></Object></Delete>", 49);
  EXPECT_FALSE(parse_delete(nul));
  const std::string good = "<Delete><Object><Key>a</Key></Object></Delete>";
  for (const std::string& whole : {"<!DOCTYPE d [<!ENTITY a SYSTEM \"file:///etc/passwd\">]>" + good,
                                   "<!DOCTYPE Delete>" + good, good + good, "text" + good, good + "text",
                                   std::string("<Delete>text<Object><Key>a</Key></Object></Delete>")})
    EXPECT_FALSE(parse_delete(whole)) << whole;
  EXPECT_TRUE(parse_delete("<?xml version=\"1.0\"?> <!-- x --> " + good + "\n"));
}

TEST(XmlTest, ADeleteCarriesItsConditions) {
  const auto request = parse_delete(
      "<Delete><Object><Key>k</Key><Size>12</Size><LastModifiedTime>Sun, 15 Nov 2026 22:50:34 "
      "GMT</LastModifiedTime>"
      "</Object><Object><Key>l</Key><LastModifiedTime>2026-11-15T22:50:34.123Z</LastModifiedTime></Object></"
      "Delete>");
  ASSERT_TRUE(request) << request.error().message();
  EXPECT_EQ(request->entries[0].condition.only_if_size, 12U);
  ASSERT_TRUE(request->entries[0].condition.only_if_modified_ms);
  EXPECT_EQ(*request->entries[0].condition.only_if_modified_ms + 123,
            *request->entries[1].condition.only_if_modified_ms);
  for (const std::string_view bad :
       {"<Size>x</Size>", "<Size></Size>", "<Size>-1</Size>", "<Size>1</Size><Size>1</Size>",
        "<LastModifiedTime>yesterday</LastModifiedTime>", "<LastModifiedTime/>"})
    EXPECT_FALSE(parse_delete("<Delete><Object><Key>k</Key>" + std::string(bad) + "</Object></Delete>"))
        << bad;
}

TEST(XmlTest, ElementsThatAreNotKnownAreNotPassedOver) {
  for (const std::string_view text :
       {"<Delete><Object><Key>k</Key><IfMatch>e</IfMatch></Object></Delete>",
        "<Delete><BypassEverything>true</BypassEverything><Object><Key>k</Key></Object></Delete>"})
    EXPECT_EQ(code_of(parse_delete(text).error()), "NotImplemented") << text;
  EXPECT_EQ(code_of(parse_complete("<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>e</ETag>"
                                   "<ChecksumOther>x</ChecksumOther></Part></CompleteMultipartUpload>")
                        .error()),
            "NotImplemented");
  EXPECT_EQ(code_of(parse_tagging(
                        "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value><Until>x</Until></Tag></TagSet>"
                        "</Tagging>")
                        .error()),
            "NotImplemented");
  EXPECT_EQ(
      code_of(parse_create_bucket("<CreateBucketConfiguration><Tags/></CreateBucketConfiguration>").error()),
      "NotImplemented");
}

TEST(XmlTest, DeepDocumentsAreReadOrRefusedButHarmless) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<a>";
  EXPECT_FALSE(parse_delete(deep));
  EXPECT_FALSE(parse_tagging("<Tagging>" + deep));
}

std::string parts_xml(std::string_view number) {
  return "<CompleteMultipartUpload><Part><PartNumber>" + std::string(number) +
         "</PartNumber><ETag>&quot;e&quot;</ETag>"
         "<ChecksumSHA256>c</ChecksumSHA256></Part></CompleteMultipartUpload>";
}

TEST(XmlTest, ACompletionNamesItsParts) {
  const auto parts = parse_complete(parts_xml("10000"));
  ASSERT_TRUE(parts) << parts.error().message();
  ASSERT_EQ(parts->size(), 1U);
  EXPECT_EQ(parts->front().number, 10000U);
  EXPECT_EQ(parts->front().etag, "e");
  ASSERT_EQ(parts->front().checksums.size(), 1U);
  EXPECT_EQ(parts->front().checksums[0], store::NameValue("x-amz-checksum-sha256", "c"));
}

TEST(XmlTest, PartNumbersAreChecked) {
  for (const std::string_view number : {"", "0", "10001", "-1", "1x", " ", "99999999999999999999"}) {
    const auto parts = parse_complete(parts_xml(number));
    ASSERT_FALSE(parts) << number;
    EXPECT_EQ(code_of(parts.error()), "InvalidPart") << number;
  }
  EXPECT_FALSE(parse_complete("<CompleteMultipartUpload/>"));
}

TEST(XmlTest, TagsComeFromDocumentsAndHeaders) {
  const std::vector<store::NameValue> wanted = {{"a", "1"}, {"b c", ""}};
  const auto document = parse_tagging(
      "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag><Tag><Key>b "
      "c</Key><Value/></Tag></TagSet></Tagging>");
  ASSERT_TRUE(document);
  EXPECT_EQ(*document, wanted);
  const auto header = parse_tagging_header("a=1&b%20c=");
  ASSERT_TRUE(header);
  EXPECT_EQ(*header, wanted);
  EXPECT_TRUE(parse_tagging("<Tagging><TagSet/></Tagging>")->empty());
  EXPECT_TRUE(parse_tagging_header("")->empty());
}

TEST(XmlTest, TagsHaveLimits) {
  EXPECT_TRUE(parse_tagging_header(std::string(128, 'k') + "=" + std::string(256, 'v')));
  for (const std::string& text :
       {std::string(129, 'k') + "=v", "k=" + std::string(257, 'v'), std::string("k=1&k=2"), std::string("=v"),
        std::string("1=&2=&3=&4=&5=&6=&7=&8=&9=&10=&11=")}) {
    const auto tags = parse_tagging_header(text);
    ASSERT_FALSE(tags) << text;
    EXPECT_EQ(code_of(tags.error()), "InvalidTag") << text;
  }
  EXPECT_FALSE(parse_tagging_header("a=%zz"));
}

TEST(XmlTest, ABucketMayBeMadeWithoutADocument) {
  EXPECT_EQ(*parse_create_bucket(""), "");
  EXPECT_EQ(*parse_create_bucket(" \n"), "");
  EXPECT_EQ(*parse_create_bucket("<CreateBucketConfiguration><LocationConstraint>eu</LocationConstraint></"
                                 "CreateBucketConfiguration>"),
            "eu");
  EXPECT_FALSE(parse_create_bucket("<Other/>"));
  EXPECT_FALSE(parse_create_bucket("x"));
}

}  // namespace
}  // namespace millrace::gateway
