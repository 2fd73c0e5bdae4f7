// The registry of files among processes that are killed, on a machine that starts again, and over files that
// somebody damaged.
#include "cluster/files_registry.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include "base/file_lock.h"
#include "base/number.h"
#include "base/random.h"
#include "base/testing/temporary_directory.h"
#include "cluster/testing/eventually.h"

namespace millrace::cluster {
namespace {

using millrace::testing::eventually;
using millrace::testing::TemporaryDirectory;
using std::chrono::milliseconds;

class FilesRegistryTest : public ::testing::Test {
 protected:
  std::unique_ptr<Registry> open() const { return FilesRegistry::open(path_).take(); }
  // Runs in a process of its own, which ends without destructors, as a killed one does.
  static pid_t run(const std::function<void()>& work) {
    const pid_t child = ::fork();
    MR_ASSERT(child >= 0);
    if (child > 0) return child;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    work();
    ::_exit(0);
  }
  static void wait(pid_t child) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_.path("registry");
};

TEST_F(FilesRegistryTest, HasOneWinnerOfManyProcesses) {
  const auto registry = open();
  constexpr int kProcesses = 4;
  constexpr int kRounds = 10;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    children.push_back(run([&] {
      const auto mine = open();
      const std::string who = std::to_string(process);
      for (int round = 0; round < kRounds; ++round) {
        const std::string name = "round/" + std::to_string(round);
        if (mine->swap(name, 0, who).take())
          mine->swap("won/" + std::to_string(round) + "/" + who, 0, "").take();
      }
    }));
  }
  for (const pid_t child : children) wait(child);
  EXPECT_EQ(registry->list("round/").take().size(), static_cast<size_t>(kRounds));
  EXPECT_EQ(registry->list("won/").take().size(), static_cast<size_t>(kRounds));
}

TEST_F(FilesRegistryTest, StaysReadableWhenWritersAreKilled) {
  const uint64_t seed = 20261118;
  SCOPED_TRACE(seed);
  Random random(seed);
  uint64_t highest = 0;
  for (int round = 0; round < 25; ++round) {
    const pid_t child = run([&] {
      const auto mine = open();
      const LeaseId lease = mine->grant(milliseconds(100)).take();
      for (int change = 0;; ++change) {
        const auto before = mine->get("count").take();
        const uint64_t next = before ? parse_number<uint64_t>(before->value).value() + 1 : 1;
        mine->swap("count", before ? before->revision : 0, std::to_string(next)).take();
        const std::string leased = "leased/" + std::to_string(round) + "-" + std::to_string(change);
        static_cast<void>(mine->swap(leased, 0, "x", lease));
      }
    });
    const auto registry = open();
    // After so many changes, and then at some moment of the next.
    const uint64_t until = highest + 1 + random.below(8);
    const auto count = [&] {
      const auto entry = registry->get("count").take();
      return entry ? parse_number<uint64_t>(entry->value).value() : 0;
    };
    ASSERT_TRUE(eventually([&] { return count() >= until; }));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const auto again = open();
    const auto entry = again->get("count").take().value();
    highest = parse_number<uint64_t>(entry.value).value();
    EXPECT_GE(highest, until);
    for (const Entry& listed : again->list("").take()) {
      const auto found = again->get(listed.name).take();
      // The killed writer's lease may end at any moment; what it holds is gone then, never changed.
      if (found || !listed.name.starts_with("leased/")) EXPECT_EQ(found, listed);
    }
    EXPECT_TRUE(again->swap("count", entry.revision, entry.value).take().has_value());
    ASSERT_TRUE(eventually([&] { return again->list("leased/").take().empty(); }));
  }
  // Nothing half written is left after an open.
  open();
  for (const auto& file : std::filesystem::recursive_directory_iterator(path_))
    EXPECT_FALSE(file.path().string().ends_with(".part")) << file.path();
}

TEST_F(FilesRegistryTest, EndsALeaseAtARestartOfTheMachine) {
  auto registry = open();
  const LeaseId lease = registry->grant(milliseconds(3'600'000)).take();
  ASSERT_TRUE(registry->swap("held", 0, "x", lease).take().has_value());
  const std::string file = path_ + "/leases/" + std::to_string(static_cast<uint64_t>(lease));
  std::string text = read_file(file, 4096).take();
  // Another boot's id.
  text[0] = text[0] == 'a' ? 'b' : 'a';
  ASSERT_TRUE(write_file_atomically(file, text).has_value());
  EXPECT_FALSE(registry->get("held").take().has_value());
  EXPECT_FALSE(registry->renew(lease).take());
}

TEST_F(FilesRegistryTest, EndsALeaseWhoseFileAPowerLossEmptied) {
  const auto registry = open();
  const LeaseId lease = registry->grant(milliseconds(3'600'000)).take();
  ASSERT_TRUE(registry->swap("held", 0, "x", lease).take().has_value());
  ASSERT_TRUE(write_file_atomically(path_ + "/leases/" + std::to_string(static_cast<uint64_t>(lease)), "")
                  .has_value());
  EXPECT_FALSE(registry->get("held").take().has_value());
}

TEST_F(FilesRegistryTest, GivesNoRevisionTwiceOverReopening) {
  uint64_t last = 0;
  for (int round = 0; round < 5; ++round) {
    const auto registry = open();
    const auto before = registry->get("a").take();
    const uint64_t revision = registry->swap("a", before ? before->revision : 0, "x").take().value();
    EXPECT_GT(revision, last);
    ASSERT_TRUE(registry->remove("a", revision).take());
    last = revision;
  }
}

TEST_F(FilesRegistryTest, RefusesDamagedFilesAndNewerFormats) {
  const auto registry = open();
  ASSERT_TRUE(registry->swap("a", 0, "x").take().has_value());
  ASSERT_TRUE(write_file_atomically(path_ + "/entries/a=", "nonsense").has_value());
  EXPECT_EQ(registry->get("a").error().code(), Code::kCorrupt);
  ASSERT_TRUE(write_file_atomically(path_ + "/revision", "many\n").has_value());
  EXPECT_EQ(registry->swap("b", 0, "x").error().code(), Code::kCorrupt);
  ASSERT_TRUE(write_file_atomically(path_ + "/format", "millrace registry 2\n").has_value());
  EXPECT_EQ(FilesRegistry::open(path_).error().code(), Code::kUnsupported);
}

TEST_F(FilesRegistryTest, GoesOnWithoutAProcessThatStandsStillInItsTurn) {
  const auto registry = open();
  ASSERT_TRUE(registry->swap("a", 0, "x").take().has_value());
  for (const uint64_t byte : {0, 1}) {
    const Turn still = Turn::take(path_).take();
    // Of one that waits for its turn, the door.
    if (byte == 1) ASSERT_TRUE(try_lock_byte(still.lock(), 1).take());
    EXPECT_EQ(registry->get("a").take()->value, "x");
    EXPECT_TRUE(still.put(path_ + "/entries/a=", "1 0\nlate").error().code() == Code::kUnavailable);
    EXPECT_TRUE(still.remove(path_ + "/entries/a=").error().code() == Code::kUnavailable);
    EXPECT_EQ(registry->get("a").take()->value, "x");
  }
  const auto entry = registry->get("a").take();
  EXPECT_TRUE(registry->swap("a", entry->revision, "y").take().has_value());
}

TEST_F(FilesRegistryTest, SeveralWhoMeetAProcessThatStandsStillGoOnInTurns) {
  const auto registry = open();
  const Turn still = Turn::take(path_).take();
  std::vector<std::jthread> threads;
  std::atomic<int> won = 0;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      const auto own = open();
      for (uint64_t expected = 0;;) {
        const auto done = own->swap("count", expected, "x");
        if (done && *done) break;
        const auto entry = own->get("count");
        if (entry && *entry) expected = (*entry)->revision;
      }
      ++won;
    });
  }
  threads.clear();
  EXPECT_EQ(won, 6);
  EXPECT_EQ(still.put(path_ + "/entries/count=", "1 0\nlate").error().code(), Code::kUnavailable);
}

TEST_F(FilesRegistryTest, KeepsItsFilesToItsOwner) {
  const auto registry = open();
  ASSERT_TRUE(registry->swap("cluster", 0, "secret").take().has_value());
  registry->grant(milliseconds(1000)).take();
  namespace fs = std::filesystem;
  for (const auto& file : fs::recursive_directory_iterator(path_))
    EXPECT_EQ(fs::status(file).permissions() & (fs::perms::group_all | fs::perms::others_all),
              fs::perms::none)
        << file.path();
}

TEST_F(FilesRegistryTest, LetsAWatchOutliveItsRegistry) {
  std::atomic<int> calls = 0;
  auto registry = open();
  const auto watch = registry->watch("", [&] { ++calls; });
  registry.reset();
  open()->swap("a", 0, "x").take();
  EXPECT_TRUE(eventually([&] { return calls > 0; }));
}

}  // namespace
}  // namespace millrace::cluster
