// Uploads, downloads and synchronising against a small store in memory, and what happens when it fails.
#include <gtest/gtest.h>

#include <map>

#include "base/file.h"
#include "base/mutex.h"
#include "base/testing/temporary_directory.h"
#include "net/testing/script_server.h"
#include "transfer/download.h"
#include "transfer/stream_upload.h"
#include "transfer/sync.h"

namespace millrace::transfer {
namespace {

using testing::ScriptServer;
using Asked = ScriptServer::Asked;
using Answer = ScriptServer::Answer;

// Buckets, objects, ranges and uploads in parts: as much of S3 as the transfers use. One bucket, "b".
class MemoryStore {
 public:
  MemoryStore() : server_([this](const Asked& asked) { return answer(asked); }) {}

  Location at(const std::string& key) {
    auto location = stores_.find(server_.url("/b/" + key));
    MR_ASSERT(location.has_value());
    return location.take();
  }
  std::map<std::string, std::string> objects() {
    const MutexLock lock(mutex_);
    return objects_;
  }
  void put(const std::string& key, const std::string& bytes) {
    const MutexLock lock(mutex_);
    objects_[key] = bytes;
  }
  size_t uploads() {
    const MutexLock lock(mutex_);
    return parts_.size();
  }
  ScriptServer& server() { return server_; }
  std::function<bool(const Asked&)> fails = [](const Asked&) { return false; };
  std::string claimed_crc;  // said of every object

 private:
  static std::string tag(const std::string& bytes) {
    return "ETag: \"" + net::to_hex(net::digest(net::DigestKind::kMd5, bytes)) + "\"\r\n";
  }

  Answer answer(const Asked& asked) {
    const MutexLock lock(mutex_);
    if (fails(asked)) return ScriptServer::status(400, "<Error><Code>Broken</Code></Error>");
    const std::string target = asked.target();
    const std::string path = target.substr(0, target.find('?'));
    const std::string query = path.size() < target.size() ? target.substr(path.size() + 1) : "";
    const std::string key = path.size() > 3 ? path.substr(3) : "";
    if (asked.method() == "POST" && query.starts_with("uploads")) {
      parts_[key].clear();
      return ScriptServer::ok("<R><UploadId>u1</UploadId></R>");
    }
    if (query.starts_with("uploads")) return ScriptServer::ok(list_uploads());
    if (query.find("uploadId=") != std::string::npos) return answer_upload(asked, key, query);
    if (query.starts_with("list-type")) return ScriptServer::ok(list(query));
    return answer_object(asked, key);
  }

  Answer answer_upload(const Asked& asked, const std::string& key, const std::string& query)
      MR_REQUIRES(mutex_) {
    if (asked.method() == "PUT") {
      parts_[key][std::stoi(query.substr(query.find("partNumber=") + 11))] = asked.body;
      return ScriptServer::ok("", tag(asked.body));
    }
    if (asked.method() == "GET") {
      std::string body = "<R>";
      for (const auto& [number, bytes] : parts_[key]) {
        body += fmt::format("<Part><PartNumber>{}</PartNumber><Size>{}</Size><ETag>\"{}\"</ETag></Part>",
                            number, bytes.size(), net::to_hex(net::digest(net::DigestKind::kMd5, bytes)));
      }
      return ScriptServer::ok(body + "</R>");
    }
    if (asked.method() == "POST") {
      std::string whole;
      for (const auto& [number, bytes] : parts_[key]) whole += bytes;
      objects_[key] = whole;
    }
    parts_.erase(key);
    return ScriptServer::ok("<R/>");
  }

  Answer answer_object(const Asked& asked, const std::string& key) MR_REQUIRES(mutex_) {
    if (asked.method() == "PUT") {
      objects_[key] = asked.body;
      return ScriptServer::ok("", tag(asked.body));
    }
    if (!objects_.contains(key)) return ScriptServer::status(404);
    const std::string& bytes = objects_[key];
    std::string more = tag(bytes);
    if (!claimed_crc.empty()) more += "x-amz-checksum-crc32c: " + claimed_crc + "\r\n";
    if (asked.method() == "HEAD") {
      return {fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{}\r\n", bytes.size(), more)};
    }
    const std::string range = asked.header("range");
    if (range.empty()) return ScriptServer::ok(bytes, more);
    const size_t first = std::stoul(range.substr(6));
    const size_t last = std::min<size_t>(bytes.size() - 1, std::stoul(range.substr(range.find('-') + 1)));
    more += fmt::format("Content-Range: bytes {}-{}/{}\r\n", first, last, bytes.size());
    return ScriptServer::status(206, bytes.substr(first, last + 1 - first), more);
  }

  std::string list(const std::string& query) MR_REQUIRES(mutex_) {
    std::string prefix;
    if (const size_t at = query.find("&prefix="); at != std::string::npos)
      prefix = net::percent_decode(query.substr(at + 8, query.find('&', at + 8) - at - 8)).take();
    std::string body = "<R>";
    for (const auto& [key, bytes] : objects_) {
      if (!key.starts_with(prefix)) continue;
      body += fmt::format(
          "<Contents><Key>{}</Key><Size>{}</Size><ETag>\"x\"</ETag><LastModified>2030-01-01T00:00:00.000Z"
          "</LastModified></Contents>",
          key, bytes.size());
    }
    return body + "<IsTruncated>false</IsTruncated></R>";
  }

  std::string list_uploads() MR_REQUIRES(mutex_) {
    std::string body = "<R>";
    for (const auto& [key, parts] : parts_)
      body += fmt::format("<Upload><Key>{}</Key><UploadId>u1</UploadId></Upload>", key);
    return body + "</R>";
  }

  Mutex mutex_;
  std::map<std::string, std::string> objects_ MR_GUARDED_BY(mutex_);
  std::map<std::string, std::map<int, std::string>> parts_ MR_GUARDED_BY(mutex_);
  Stores stores_{Settings()};
  ScriptServer server_;
};

std::string content_of(size_t size) {
  std::string content(size, 0);
  for (size_t i = 0; i < size; ++i) content[i] = static_cast<char>(i * 2654435761U >> 13);
  return content;
}

class CopyTest : public ::testing::Test {
 protected:
  Copy up(const std::string& key) { return {{std::nullopt, path("f")}, {store_.at(key), ""}, 0}; }
  Copy down(const std::string& key) { return {{store_.at(key), ""}, {std::nullopt, path("d")}, 0}; }
  std::string path(const std::string& name) const { return directory_.path(name); }
  std::string downloaded() const { return read_file(path("d"), 1 << 30).take(); }

  testing::TemporaryDirectory directory_;
  MemoryStore store_;
};

TEST_F(CopyTest, SmallFilesGoUpInOneRequestWithTheirChecksum) {
  ASSERT_TRUE(write_file_atomically(path("f"), "123456789"));
  ASSERT_TRUE(copy_one(up("k"), {}));
  EXPECT_EQ(store_.objects()["k"], "123456789");
  EXPECT_EQ(store_.server().asked().front().header("x-amz-checksum-crc32c"), "4waSgw==");
}

TEST_F(CopyTest, LargeFilesGoUpInPartsAndGoOnAfterAFailure) {
  const std::string content = content_of(kMultipartFrom + 5'000'000);
  ASSERT_TRUE(write_file_atomically(path("f"), content));
  store_.fails = [](const Asked& asked) { return asked.target().find("partNumber=3&") != std::string::npos; };
  const auto failed = copy_one(up("k"), {});
  ASSERT_FALSE(failed);
  EXPECT_TRUE(store_.objects().empty());
  store_.fails = [](const Asked&) { return false; };
  const auto done = copy_one(up("k"), {});
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_GE(done->resumed_bytes, 2 * kPartBytes);
  EXPECT_EQ(store_.objects()["k"], content);
}

TEST_F(CopyTest, PartsOfAnotherFileAreNotTakenOver) {
  const std::string content = content_of(kMultipartFrom + 1);
  ASSERT_TRUE(write_file_atomically(path("f"), std::string(content.size(), 'x')));
  store_.fails = [](const Asked& asked) { return asked.target().find("partNumber=3&") != std::string::npos; };
  ASSERT_FALSE(copy_one(up("k"), {}));
  store_.fails = [](const Asked&) { return false; };
  ASSERT_TRUE(write_file_atomically(path("f"), content));
  const auto done = copy_one(up("k"), {});
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(done->resumed_bytes, 0U);
  EXPECT_EQ(store_.objects()["k"], content);
}

TEST_F(CopyTest, LargeObjectsComeInRangesAndGoOnAfterAFailure) {
  const std::string content = content_of(kStretchBytes * 3 + 77);
  store_.put("k", content);
  store_.fails = [](const Asked& asked) { return asked.header("range").starts_with("bytes=33554432-"); };
  TransferOptions one;
  one.jobs = 1;
  ASSERT_FALSE(copy_one(down("k"), one));
  EXPECT_FALSE(file_exists(path("d")));
  store_.fails = [](const Asked&) { return false; };
  const auto done = copy_one(down("k"), one);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(done->resumed_bytes, 2 * kStretchBytes);
  EXPECT_EQ(downloaded(), content);
  EXPECT_EQ(directory_.names(), std::vector<std::string>{"d"});
}

TEST_F(CopyTest, StretchesOfAnotherVersionAreNotTakenOver) {
  store_.put("k", content_of(kStretchBytes * 2));
  store_.fails = [](const Asked& asked) { return asked.header("range").starts_with("bytes=16777216-"); };
  TransferOptions one;
  one.jobs = 1;
  ASSERT_FALSE(copy_one(down("k"), one));
  store_.fails = [](const Asked&) { return false; };
  const std::string other(kStretchBytes * 2, 'o');
  store_.put("k", other);
  const auto done = copy_one(down("k"), one);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(done->resumed_bytes, 0U);
  EXPECT_EQ(downloaded(), other);
}

TEST_F(CopyTest, BytesThatDoNotHaveTheChecksumLeaveNothing) {
  store_.put("k", "123456789");
  store_.claimed_crc = "4waSgw==";
  ASSERT_TRUE(copy_one(down("k"), {}));
  ASSERT_TRUE(remove_file_if_present(path("d")));
  store_.claimed_crc = "AAAAAA==";
  const auto done = copy_one(down("k"), {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), Code::kCorrupt);
  EXPECT_TRUE(directory_.names().empty());
}

TEST_F(CopyTest, EmptyObjectsArrive) {
  ASSERT_TRUE(write_file_atomically(path("f"), ""));
  ASSERT_TRUE(copy_one(up("k"), {}));
  ASSERT_TRUE(copy_one(down("k"), {}));
  EXPECT_EQ(downloaded(), "");
}

TEST_F(CopyTest, AStreamThatIsNotFinishedLeavesNothing) {
  const std::string content = content_of(kPartBytes * 2 + 5);
  {
    StreamUpload upload(store_.at("k"));
    ASSERT_TRUE(upload.write(content));
  }
  EXPECT_TRUE(store_.objects().empty());
  EXPECT_EQ(store_.uploads(), 0U);
  StreamUpload upload(store_.at("k"));
  ASSERT_TRUE(upload.write(content));
  ASSERT_TRUE(upload.finish());
  EXPECT_EQ(store_.objects()["k"], content);
}

TEST_F(CopyTest, AStreamWhosePartsFailSaysSo) {
  store_.fails = [](const Asked& asked) { return asked.target().find("partNumber=") != std::string::npos; };
  StreamUpload upload(store_.at("k"));
  const std::string part = content_of(kPartBytes);
  Status last;
  for (int i = 0; i < 6 && last; ++i) last = upload.write(part);
  if (last) last = upload.finish();
  ASSERT_FALSE(last);
  EXPECT_NE(last.error().message().find("Broken"), std::string::npos);
}

TEST_F(CopyTest, SyncCopiesWhatDiffersAndKnowsWhatIsTooMuch) {
  ASSERT_TRUE(write_file_atomically(path("same"), "same"));
  ASSERT_TRUE(write_file_atomically(path("longer"), "longer now"));
  ASSERT_TRUE(write_file_atomically(path("new"), "new"));
  store_.put("t/same", "same");
  store_.put("t/longer", "longer");
  store_.put("t/gone", "gone");
  store_.put("t2/other", "other");
  const Place here{std::nullopt, directory_.path()};
  const Place there{store_.at("t"), ""};
  const auto plan = plan_sync(here, there, Compare::kTime);
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->copy, (std::vector<std::string>{"longer", "new"}));
  EXPECT_EQ(plan->remove, std::vector<std::string>{"gone"});
  EXPECT_EQ(plan->same, 1U);
}

TEST_F(CopyTest, AHostileKeyIsNotSynchronisedToADirectory) {
  store_.put("t/../../evil", "x");
  const auto plan = plan_sync({store_.at("t"), ""}, {std::nullopt, directory_.path()}, Compare::kTime);
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_TRUE(plan->copy.empty());
  EXPECT_EQ(plan->unusable, std::vector<std::string>{"../../evil"});
}

}  // namespace
}  // namespace millrace::transfer
