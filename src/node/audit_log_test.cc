// Lines that reach their file or socket whole and in order, and what happens where they cannot.
#include "node/audit_log.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/testing/temporary_directory.h"
#include "cluster/testing/eventually.h"

namespace millrace::node {
namespace {

using Json = nlohmann::ordered_json;
using testing::eventually;

std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
  return lines;
}

// A place that takes so many bytes, and then none.
class NarrowSink final : public AuditSink {
 public:
  Result<size_t> write(std::string_view lines) override {
    const MutexLock lock(mutex_);
    const size_t taken = std::min(room_, lines.size());
    if (taken == 0) return make_error(Code::kNoSpace, "no space left on the drive");
    room_ -= taken;
    files_.back() += lines.substr(0, taken);
    return taken;
  }
  Status reopen() override {
    const MutexLock lock(mutex_);
    files_.emplace_back();
    return {};
  }
  void give(size_t bytes) {
    const MutexLock lock(mutex_);
    room_ = bytes;
  }
  std::vector<std::string> files() {
    const MutexLock lock(mutex_);
    return files_;
  }

 private:
  Mutex mutex_;
  size_t room_ MR_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> files_ MR_GUARDED_BY(mutex_) = {""};
};

class AuditLogTest : public ::testing::Test {
 protected:
  const testing::TemporaryDirectory directory_;
  Log log_{LogLevel::kWarn};
};

TEST_F(AuditLogTest, EveryLineIsInTheFileWithTimeAndNode) {
  const std::string path = directory_.path("audit");
  {
    AuditLog audit(open_audit_file(path).take(), "n1", log_);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&audit, thread] {
        for (int turn = 0; turn < 500; ++turn)
          audit.note({{"thread", thread}, {"turn", turn}, {"key", "a\nb"}});
      });
    }
    for (std::thread& thread : threads) thread.join();
    audit.stop();
    EXPECT_EQ(audit.read().written, 2000U);
    EXPECT_EQ(audit.read().lost, 0U);
  }
  std::vector<int> turns(4, 0);
  for (const Json& line : lines_of(read_file(path, 1 << 20).take())) {
    EXPECT_EQ(line.at("node"), "n1");
    EXPECT_EQ(line.at("time").get<std::string>().size(), 24U);
    EXPECT_EQ(line.at("turn").get<int>(), turns[line.at("thread").get<size_t>()]++);
  }
  EXPECT_EQ(turns, (std::vector<int>{500, 500, 500, 500}));
  // Who may read objects need not know who does.
  struct stat facts{};
  ASSERT_EQ(::stat(path.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600U);
}

TEST_F(AuditLogTest, AfterARotationLinesGoIntoANewFile) {
  const std::string path = directory_.path("audit");
  AuditLog audit(open_audit_file(path).take(), "n1", log_);
  audit.note({{"number", 1}});
  eventually([&] { return audit.read().written == 1; });
  std::filesystem::rename(path, path + ".1");
  audit.note({{"number", 2}});
  eventually([&] { return audit.read().written == 2; });
  audit.reopen();
  eventually([&] { return std::filesystem::exists(path); });
  audit.note({{"number", 3}});
  audit.stop();
  EXPECT_EQ(lines_of(read_file(path + ".1", 4096).take()).size(), 2U);
  const std::vector<Json> later = lines_of(read_file(path, 4096).take());
  ASSERT_EQ(later.size(), 1U);
  EXPECT_EQ(later[0].at("number"), 3);
}

TEST_F(AuditLogTest, WhereThePlaceIsFullLinesWaitAndThenAreCounted) {
  auto made = std::make_unique<NarrowSink>();
  NarrowSink& sink = *made;
  AuditLog audit(std::move(made), "n1", log_);
  const std::string text(1 << 20, 'x');
  for (int number = 0; number < 20; ++number) audit.note({{"number", number}, {"text", text}});
  // It returned, though nothing was written.
  EXPECT_EQ(audit.read().written, 0U);
  const uint64_t lost = audit.read().lost;
  EXPECT_GE(lost, 4U);
  EXPECT_LT(lost, 20U);
  sink.give(SIZE_MAX);
  audit.reopen();  // a reason to try again now
  eventually([&] { return audit.read().written == 20 - lost; });
  audit.note({{"number", 20}});
  audit.stop();
  const std::vector<Json> lines = lines_of(sink.files()[0] + sink.files()[1]);
  ASSERT_EQ(lines.size(), 20 - lost + 2);
  EXPECT_EQ(lines[lines.size() - 2].at("event"), "lost");
  EXPECT_EQ(lines[lines.size() - 2].at("lines"), lost);
  EXPECT_EQ(lines.back().at("number"), 20);
}

TEST_F(AuditLogTest, ALineThatWasCutIsFinishedOrBegunAgainInTheNextFile) {
  for (const bool rotated : {false, true}) {
    auto made = std::make_unique<NarrowSink>();
    NarrowSink& sink = *made;
    sink.give(30);
    AuditLog audit(std::move(made), "n1", log_);
    audit.note({{"number", 1}, {"text", "long enough to be cut"}});
    eventually([&] { return sink.files()[0].size() == 30; });
    sink.give(SIZE_MAX);
    if (rotated) audit.reopen();
    audit.note({{"number", 2}});
    audit.stop();
    const std::vector<std::string> files = sink.files();
    ASSERT_EQ(files.size(), rotated ? 2U : 1U);
    const std::vector<Json> lines = lines_of(files.back());
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0].at("number"), 1);
  }
}

TEST_F(AuditLogTest, TheSystemsLogGetsOneDatagramALine) {
  const std::string path = directory_.path("log");
  EXPECT_FALSE(open_syslog(path));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const File listening(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), path);
  ASSERT_EQ(::bind(listening.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  AuditLog audit(open_syslog(path).take(), "n1", log_);
  for (int number = 0; number < 3; ++number) audit.note({{"number", number}, {"key", "a\nb"}});
  for (int number = 0; number < 3; ++number) {
    char text[4096];
    const ssize_t size = ::recv(listening.descriptor(), text, sizeof text, 0);
    ASSERT_GT(size, 0);
    const std::string line(text, static_cast<size_t>(size));
    EXPECT_TRUE(line.starts_with(fmt::format("<86>millrace[{}]: {{", ::getpid()))) << line;
    EXPECT_EQ(Json::parse(line.substr(line.find('{'))).at("number"), number);
  }
}

}  // namespace
}  // namespace millrace::node
