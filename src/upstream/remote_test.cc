// Which addresses can be upstreams, and what is told of their objects.
#include "upstream/remote.h"

#include <gtest/gtest.h>

#include "store/reasons.h"
#include "upstream/remote_object.h"

namespace millrace::upstream {
namespace {

store::UpstreamSettings settings_of(const std::string& url) {
  store::UpstreamSettings settings;
  settings.url = url;
  return settings;
}

std::shared_ptr<Remote> open_remote(const store::UpstreamSettings& settings) {
  auto remote = Remote::open(settings, {});
  EXPECT_TRUE(remote) << remote.error().message();
  return remote ? remote.take() : nullptr;
}

RemoteHead head_of(std::vector<net::HeaderField> headers, Etags etags = Etags::kOpaque) {
  headers.emplace_back("content-length", "10");
  return read_remote_head(transfer::read_head(headers), etags);
}

TEST(RemoteTest, AppendsTheKeyToTheAddressOfAWebServer) {
  for (const char* url : {"http://host:81/path", "http://host:81/path/"}) {
    const auto remote = open_remote(settings_of(url));
    EXPECT_EQ(remote->location("a b/c.tar").url.text(), "http://host:81/path/a%20b/c.tar");
    EXPECT_FALSE(remote->is_store());
  }
}

TEST(RemoteTest, PutsThePrefixBeforeTheKeyOfAStore) {
  for (const char* url : {"s3://bucket/some/prefix", "s3://bucket/some/prefix/"}) {
    store::UpstreamSettings settings = settings_of(url);
    settings.endpoint = "http://127.0.0.1:9000";
    const auto remote = open_remote(settings);
    EXPECT_EQ(remote->location("c.tar").url.text(), "http://127.0.0.1:9000/bucket/some/prefix/c.tar");
    EXPECT_TRUE(remote->is_store());
  }
  EXPECT_EQ(open_remote(settings_of("s3://bucket"))->location("c.tar").url.text(),
            "https://bucket.s3.us-east-1.amazonaws.com/c.tar");
}

TEST(RemoteTest, TakesTheNodeOfAMillraceFromItsAddress) {
  const auto remote = open_remote(settings_of("mr://10.0.0.7:9400/bucket/prefix"));
  EXPECT_EQ(remote->location("c.tar").url.text(), "http://10.0.0.7:9400/bucket/prefix/c.tar");
}

TEST(RemoteTest, RefusesAddressesThatCannotBeUpstreams) {
  for (const char* url : {"", "ftp://host/", "http://user:secret@host/", "http://host/?token=secret",
                          "mr://bucket", "mr+prod://bucket", "s3://", "mr://:9400/bucket"}) {
    const auto remote = Remote::open(settings_of(url), {});
    ASSERT_FALSE(remote) << url;
    EXPECT_EQ(remote.error().code(), Code::kInvalid);
  }
  store::UpstreamSettings with_keys = settings_of("http://host/");
  with_keys.access_key = "a";
  with_keys.secret_key = "b";
  EXPECT_FALSE(Remote::open(with_keys, {}));
  store::UpstreamSettings writable = settings_of("http://host/");
  writable.writes = store::UpstreamWrites::kThrough;
  EXPECT_FALSE(Remote::open(writable, {}));
}

TEST(RemoteTest, NamesTheUpstreamAndTheNextStepInEveryError) {
  const auto remote = open_remote(settings_of("http://host/path"));
  for (const Code code :
       {Code::kDenied, Code::kUnavailable, Code::kCorrupt, Code::kInvalid, Code::kTruncated}) {
    const Error told = remote->told(make_error(code, "what happened"));
    EXPECT_EQ(told.code(), Code::kUnavailable);
    EXPECT_NE(told.message().find("http://host/path"), std::string::npos);
    EXPECT_FALSE(told.hint().empty());
  }
  EXPECT_TRUE(remote->told(make_error(net::kChangedMeanwhile, "x")).is(store::kUpstreamChanged));
  EXPECT_TRUE(remote->told(make_error(Code::kDenied, "x")).is(store::kUpstreamRefused));
}

TEST(RemoteObjectTest, ShowsAStrongEtagAsItIsAndNoOther) {
  EXPECT_EQ(shown_etag(head_of({{"etag", "\"abc\""}})), "abc");
  const std::string weak = shown_etag(head_of({{"etag", "W/\"abc\""}}));
  EXPECT_TRUE(weak.ends_with("-1")) << weak;
  const std::string dated = shown_etag(head_of({{"last-modified", "Sun, 15 Nov 2026 22:50:34 GMT"}}));
  EXPECT_NE(dated, weak);
  EXPECT_NE(dated, shown_etag(head_of({{"last-modified", "Sun, 15 Nov 2026 22:50:35 GMT"}})));
}

TEST(RemoteObjectTest, KeepsHeadersOfTheObjectAndNothingThatBreaksOutOfItsLine) {
  const RemoteHead head = head_of({{"content-type", "image/png"},
                                   {"server", "nginx"},
                                   {"x-amz-meta-a", "b"},
                                   {"cache-control", "a\rset-cookie: b"}});
  const std::vector<store::NameValue> kept = {{"content-type", "image/png"}, {"x-amz-meta-a", "b"}};
  EXPECT_EQ(head.headers, kept);
}

TEST(RemoteObjectTest, IsAsLargeAsTheUpstreamSaysAndIsNotStored) {
  const RemoteObject object("bucket", "a.tar", open_remote(settings_of("http://host/")),
                            head_of({{"etag", "\"v\""}}), {});
  EXPECT_EQ(object.record().size, 10u);
  EXPECT_FALSE(object.is_inline());
  EXPECT_EQ(object.record().shard, store::ShardState::kPending);
  ASSERT_NE(find_version(object.record()), nullptr);
  EXPECT_EQ(*find_version(object.record()), "\"v\"");
}

}  // namespace
}  // namespace millrace::upstream
