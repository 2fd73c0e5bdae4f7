// Heads and chunked bodies: what is HTTP is read, what two servers could read differently is refused.
#include "net/http.h"

#include <gtest/gtest.h>

namespace millrace::net {
namespace {

Result<RequestHead> parsed(std::string_view text) {
  RequestHead head;
  MR_TRY(parse_request(text, head));
  return head;
}

Code refused(std::string_view text) {
  const auto head = parsed(text);
  EXPECT_FALSE(head) << text;
  return head ? Code::kIo : head.error().code();
}

std::string with_headers(std::string_view headers) {
  return "PUT /a HTTP/1.1\r\nHost: h\r\n" + std::string(headers) + "\r\n\r\n";
}

TEST(HttpTest, ARequestIsTakenApart) {
  const auto head =
      parsed("GET /box/a%20b?x=1&y HTTP/1.1\r\nHost: h:1\r\nX-Empty:\r\nX-Padded: \t two words \t\r\n\r\n");
  ASSERT_TRUE(head) << head.error().message();
  EXPECT_EQ(head->method, "GET");
  EXPECT_EQ(head->path, "/box/a%20b");
  EXPECT_EQ(head->query, "x=1&y");
  EXPECT_EQ(head->get("HOST"), "h:1");
  EXPECT_EQ(head->find("x-empty"), std::string_view());
  EXPECT_EQ(head->get("x-padded"), "two words");
  EXPECT_FALSE(head->find("x-none"));
  EXPECT_TRUE(head->keep_alive);
  EXPECT_FALSE(head->chunked);
  EXPECT_FALSE(head->content_length);
}

TEST(HttpTest, AQueryMayBeEmptyAndATargetMayBeWhole) {
  EXPECT_EQ(parsed("GET /a? HTTP/1.1\r\nHost: h\r\n\r\n")->query, "");
  EXPECT_EQ(parsed("GET /a?b?c HTTP/1.1\r\nHost: h\r\n\r\n")->query, "b?c");
  EXPECT_EQ(parsed("GET http://host/a?b HTTP/1.1\r\nHost: host\r\n\r\n")->path, "/a");
  EXPECT_EQ(parsed("GET https://host HTTP/1.1\r\nHost: HOST\r\n\r\n")->path, "/");
  EXPECT_EQ(parsed("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n")->path, "*");
}

TEST(HttpTest, TheHostIsSaidOnceAndHttp11NeedsIt) {
  EXPECT_EQ(refused("GET / HTTP/1.1\r\n\r\n"), Code::kInvalid);
  EXPECT_EQ(refused("GET http://host/ HTTP/1.1\r\n\r\n"), Code::kInvalid);
  EXPECT_EQ(parsed("GET / HTTP/1.0\r\n\r\n")->host, "");
  EXPECT_EQ(parsed("GET / HTTP/1.1\r\nHost:\r\n\r\n")->host, "");
  EXPECT_EQ(parsed("GET / HTTP/1.1\r\nHost: [::1]:9400\r\n\r\n")->host, "[::1]:9400");
  EXPECT_EQ(parsed("GET http://a.b:1/ HTTP/1.1\r\nHost: a.b:1\r\n\r\n")->host, "a.b:1");
  EXPECT_EQ(parsed("GET http://a.b:1/ HTTP/1.0\r\n\r\n")->host, "a.b:1");
  for (const std::string_view line :
       {"GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", "GET http:/// HTTP/1.1\r\nHost: b\r\n\r\n",
        "GET http://a?b/c HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"})
    EXPECT_EQ(refused(line), Code::kInvalid) << line;
}

TEST(HttpTest, AReusedHeadForgetsTheLastRequest) {
  RequestHead head;
  ASSERT_TRUE(parse_request("PUT /a?b HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", head));
  ASSERT_TRUE(parse_request("PUT /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", head));
  EXPECT_FALSE(head.content_length);
  EXPECT_FALSE(head.expects_continue);
  ASSERT_TRUE(parse_request("GET /d HTTP/1.1\r\nHost: h\r\n\r\n", head));
  EXPECT_FALSE(head.chunked);
  EXPECT_TRUE(head.keep_alive);
  EXPECT_EQ(head.headers.size(), 1U);
  EXPECT_EQ(head.query, "");
}

TEST(HttpTest, VersionsAndConnectionHeadersDecideAboutKeepingTheConnection) {
  EXPECT_FALSE(parsed("GET / HTTP/1.0\r\n\r\n")->keep_alive);
  EXPECT_TRUE(parsed("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n")->keep_alive);
  EXPECT_FALSE(parsed("GET / HTTP/1.1\r\nHost: h\r\nConnection: x, CLOSE\r\n\r\n")->keep_alive);
  EXPECT_TRUE(parsed("GET / HTTP/1.1\r\nHost: h\r\nConnection: closed\r\n\r\n")->keep_alive);
  EXPECT_EQ(refused("GET / HTTP/2.0\r\n\r\n"), Code::kUnsupported);
  EXPECT_EQ(refused("GET / HTTP/1.11\r\n\r\n"), Code::kUnsupported);
}

TEST(HttpTest, FirstLinesThatAreNoneAreRefused) {
  for (const std::string_view line :
       {"", "GET", "GET /", "GET / FTP/1.1", " GET / HTTP/1.1", "GET / x HTTP/1.1", "GET  HTTP/1.1",
        "GET a HTTP/1.1", "G(T / HTTP/1.1", "GET /\x01 HTTP/1.1", "GET /\x7f HTTP/1.1", "GET /\t HTTP/1.1",
        "GET http:/x HTTP/1.1", "GET http://h\x01/ HTTP/1.1", "GET https://h\r HTTP/1.1"}) {
    EXPECT_EQ(refused(std::string(line) + "\r\nHost: h\r\n\r\n"), Code::kInvalid) << line;
  }
  EXPECT_EQ(refused("GET / HTTP/1.1"), Code::kInvalid);
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nHost: x\r\n"), Code::kInvalid);
}

TEST(HttpTest, WhatCannotBecomeARequestIsKnownByItsFirstByte) {
  EXPECT_TRUE(judge_first_byte('G'));
  EXPECT_TRUE(judge_first_byte('!'));  // a token, as RFC 9110 has it
  for (const char first : {'\0', ' ', '"', '\x80'}) EXPECT_FALSE(judge_first_byte(first)) << int{first};
  const auto tls = judge_first_byte('\x16');
  ASSERT_FALSE(tls);
  EXPECT_NE(tls.error().message().find("http:// instead of https://"), std::string::npos);
}

TEST(HttpTest, HeadersThatServersReadDifferentlyAreRefused) {
  for (const std::string_view headers :
       {"Host : x", " Host: x", "Host: x\r\n folded", ": x", "Host", "Ho st: x", "Host: a\r\nHost: b",
        "A: b\rc", "A: \x01", "A: \x7f", "A\x80: b"}) {
    EXPECT_EQ(refused(with_headers(headers)), Code::kInvalid) << headers;
  }
  EXPECT_EQ(refused(with_headers(std::string_view("A: b\0c", 6))), Code::kInvalid);
}

TEST(HttpTest, ALengthIsDigitsAndThereIsOne) {
  EXPECT_EQ(parsed(with_headers("Content-Length: 0"))->content_length, 0U);
  EXPECT_EQ(parsed(with_headers("Content-Length: 18446744073709551615"))->content_length, UINT64_MAX);
  EXPECT_EQ(parsed(with_headers("Content-Length: 5\r\nContent-Length: 5"))->content_length, 5U);
  for (const std::string_view value : {"", "-1", "+1", "0x1", "1 ,", "1,1", "1a", "18446744073709551616"}) {
    EXPECT_EQ(refused(with_headers("Content-Length: " + std::string(value))), Code::kInvalid) << value;
  }
  EXPECT_EQ(refused(with_headers("Content-Length: 5\r\nContent-Length: 6")), Code::kInvalid);
}

TEST(HttpTest, OnlyChunkedIsATransferCodingAndNotBesideALength) {
  EXPECT_TRUE(parsed(with_headers("Transfer-Encoding: Chunked"))->chunked);
  for (const std::string_view value :
       {"gzip", "gzip, chunked", "chunked, chunked", "identity", "", "chunkedx"}) {
    EXPECT_EQ(refused(with_headers("Transfer-Encoding: " + std::string(value))), Code::kUnsupported) << value;
  }
  EXPECT_EQ(refused(with_headers("Transfer-Encoding: chunked\r\nContent-Length: 5")), Code::kInvalid);
  EXPECT_EQ(refused(with_headers("Content-Length: 5\r\nTransfer-Encoding: chunked")), Code::kInvalid);
}

TEST(HttpTest, ThereIsALimitOfHeaders) {
  std::string lines;
  for (size_t i = 1; i < kMaxHeaders; ++i) lines += "A: b\r\n";
  lines += "Host: h\r\n";
  EXPECT_TRUE(parsed("GET / HTTP/1.1\r\n" + lines + "\r\n"));
  EXPECT_EQ(refused("GET / HTTP/1.1\r\n" + lines + "A: b\r\n\r\n"), Code::kTooLarge);
}

TEST(HttpTest, TheEndOfAHeadIsFoundOnlyWhenItIsThere) {
  const std::string text = "GET / HTTP/1.1\r\nA: b\r\n\r\n";
  for (size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(find_head_end(text.substr(0, size))) << size;
  EXPECT_EQ(find_head_end(text + "body\r\n\r\n"), text.size());
}

TEST(HttpTest, AResponseHeadIsBuiltAndBuiltAgain) {
  HeadBuilder head;
  head.start(404);
  head.add("X-First", "1");
  head.start(206);
  head.add("Content-Length", uint64_t{17});
  const std::string kept = head.finish(true);
  EXPECT_TRUE(kept.starts_with("HTTP/1.1 206 Partial Content\r\n")) << kept;
  EXPECT_TRUE(kept.ends_with("\r\nContent-Length: 17\r\n\r\n")) << kept;
  EXPECT_EQ(kept.find("X-First"), std::string::npos);
  EXPECT_EQ(head.status(), 206);
  head.start(200);
  EXPECT_TRUE(head.finish(false).ends_with("\r\nConnection: close\r\n\r\n"));
}

TEST(HttpTest, AValueCannotStartAnotherHeader) {
  for (const std::string_view value :
       {std::string_view("safe\r\nX-Injected: 1"), std::string_view("safe\nX-Injected: 1"),
        std::string_view("safe\rX-Injected: 1"), std::string_view("safe\0X-Injected: 1", 18)}) {
    HeadBuilder head;
    head.start(200);
    head.add("X-Value", value);
    const std::string text = head.finish(true);
    EXPECT_EQ(text.find("Injected"), std::string::npos) << text;
    EXPECT_NE(text.find("X-Value: safe\r\n"), std::string::npos) << text;
  }
}

struct Decoded {
  std::string plain;
  bool finished = false;
  size_t used = 0;
};

Result<Decoded> decode(std::string_view body, size_t step) {
  ChunkedDecoder decoder;
  Decoded decoded;
  for (size_t at = 0; at < body.size() && !decoder.finished();) {
    std::string_view input = body.substr(at, step);
    at += input.size();
    while (!input.empty() && !decoder.finished()) {
      const auto one = MR_TRY(decoder.decode(input));
      MR_ASSERT(one.used > 0);
      decoded.plain += one.plain;
      decoded.used += one.used;
      input.remove_prefix(one.used);
    }
  }
  decoded.finished = decoder.finished();
  return decoded;
}

TEST(ChunkedDecoderTest, EverySplitGivesTheSameBytes) {
  const std::string body = "5\r\nhello\r\n1;name=value\r\n \r\n00A\r\nfrom chunk\r\n0\r\nTrailer: x\r\n\r\n";
  for (size_t step = 1; step <= body.size(); ++step) {
    const auto decoded = decode(body + "GET /next", step);
    ASSERT_TRUE(decoded) << step;
    EXPECT_EQ(decoded->plain, "hello from chunk") << step;
    EXPECT_TRUE(decoded->finished) << step;
    EXPECT_EQ(decoded->used, body.size()) << step;
  }
}

TEST(ChunkedDecoderTest, ACutBodyIsNeverFinished) {
  const std::string body = "5\r\nhello\r\n0\r\n\r\n";
  for (size_t size = 0; size < body.size(); ++size) {
    const auto decoded = decode(std::string_view(body).substr(0, size), 3);
    ASSERT_TRUE(decoded) << size;
    EXPECT_FALSE(decoded->finished) << size;
  }
}

TEST(ChunkedDecoderTest, BrokenBodiesAreRefused) {
  for (const std::string_view body :
       {"\r\n", "x\r\n", "-1\r\n", "0x5\r\nhello\r\n", "5\nhello\r\n", "5\r\nhello0\r\n\r\n",
        "5\r\nhello\r0\r\n", "1234567890ABCDEF\r\n", ";x\r\n", "0\r\n\rX", "5\r\rhello\r\n",
        "5;x\nhello\r\n0\r\n\r\n", "5;x=\"\n\"\r\nhello\r\n0\r\n\r\n", "5 \n\r\nhello\r\n0\r\n\r\n",
        "0\r\na: b\n\r\n", "0\r\na: b\nc: d\r\n\r\n", "0\r\n\n", "0\r\na\rb\r\n\r\n"}) {
    for (const size_t step : {size_t{1}, size_t{100}}) EXPECT_FALSE(decode(body, step)) << body;
  }
}

TEST(ChunkedDecoderTest, LinesAreBounded) {
  EXPECT_FALSE(decode("5;" + std::string(1000, 'x') + "\r\n", 10));
  EXPECT_FALSE(decode("0\r\nTrailer: " + std::string(1000, 'x'), 10));
  std::string many = "0\r\n";
  for (int i = 0; i < 1000; ++i) many += "A: b\r\n";
  EXPECT_FALSE(decode(many, 10));
}

}  // namespace
}  // namespace millrace::net
