// Text in documents: nothing of it is markup, and nothing that XML cannot hold is left.
#include "base/xml_text.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace millrace {
namespace {

TEST(XmlTextTest, TextCannotBecomeMarkup) {
  std::string out;
  append_escaped(out, "<a href=\"x\">&amp;\r\n\t\x01\x1f ü</a>");
  EXPECT_EQ(out, "&lt;a href=&quot;x&quot;&gt;&amp;amp;&#13;&#10;&#9;\xef\xbf\xbd\xef\xbf\xbd ü&lt;/a&gt;");
}

TEST(XmlTextTest, WhatXmlCannotHoldIsReplaced) {
  for (const std::string_view text :
       {"\xff", "a\xc3", "\xed\xa0\x80", "\xef\xbf\xbe", "\xef\xbf\xbf", "\xc0\xaf"}) {
    std::string out;
    append_escaped(out, text);
    EXPECT_TRUE(is_utf8(out)) << out;
    EXPECT_NE(out.find("\xef\xbf\xbd"), std::string::npos) << out;
    EXPECT_EQ(out.find("\xef\xbf\xbe"), std::string::npos) << out;
    EXPECT_EQ(out.find("\xef\xbf\xbf"), std::string::npos) << out;
  }
  std::string kept;
  append_escaped(kept, "ü\xef\xbf\xbd\xef\xbc\x81");
  EXPECT_EQ(kept, "ü\xef\xbf\xbd\xef\xbc\x81");
}

}  // namespace
}  // namespace millrace
