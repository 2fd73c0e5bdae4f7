// Locks between processes: real files, and a child where only another process shows it.
#include "base/file_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/testing/temporary_directory.h"

namespace millrace {
namespace {

using testing::TemporaryDirectory;

TEST(FileLockTest, OnlyOneHoldsIt) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/lock";
  auto first = FileLock::try_take(path);
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->is_held());
  const auto second = FileLock::try_take(path);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kUnavailable);
  *first = FileLock();
  EXPECT_TRUE(FileLock::try_take(path));
}

TEST(FileLockTest, NamesTheProcessThatHoldsIt) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/lock";
  const auto held = FileLock::try_take(path);
  ASSERT_TRUE(held);
  const std::string said = FileLock::try_take(path).error().message();
  const std::string process = "it is in use by process " + std::to_string(::getpid()) + " (";
  // A container may hide the numbers of processes.
  EXPECT_TRUE(said.starts_with(process) || said == "it is in use by another process") << said;
}

TEST(FileLockTest, EndsWithItsProcess) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/lock";
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto held = FileLock::try_take(path);
    (void)!::write(told[1], held ? "y" : "n", 1);
    ::pause();
    ::_exit(0);
  }
  char answer = 0;
  ASSERT_EQ(::read(told[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_FALSE(FileLock::try_take(path));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(FileLock::try_take(path));
  ::close(told[0]);
  ::close(told[1]);
}

TEST(FileLockTest, TakingWaitsForTheHolder) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/lock";
  auto first = FileLock::take(path);
  ASSERT_TRUE(first);
  bool released = false;
  std::jthread holder([&] {
    released = true;
    *first = FileLock();
  });
  EXPECT_TRUE(FileLock::take(path));
  EXPECT_TRUE(released);
}

TEST(FileLockTest, AMissingDirectoryIsAnErrorThatNamesTheFile) {
  const auto lock = FileLock::try_take("/nonexistent/lock");
  ASSERT_FALSE(lock);
  EXPECT_NE(lock.error().message().find("/nonexistent/lock"), std::string::npos);
  EXPECT_EQ(FileLock::take("/nonexistent/lock").error().code(), lock.error().code());
}

TEST(FileLockTest, TheLockFileHasTheAskedPermissions) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/lock";
  ASSERT_TRUE(FileLock::take(path, 0600));
  struct stat facts = {};
  ASSERT_EQ(::stat(path.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600U);
}

TEST(FileLockTest, BytesOfAFileAreLockedSingly) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/places";
  ASSERT_TRUE(write_file_atomically(path, ""));
  const File one(::open(path.c_str(), O_RDWR | O_CLOEXEC), path);
  const File other(::open(path.c_str(), O_RDWR | O_CLOEXEC), path);
  EXPECT_TRUE(*try_lock_byte(one, 7));
  EXPECT_FALSE(*try_lock_byte(other, 7));
  EXPECT_TRUE(*try_lock_byte(other, 8));
  EXPECT_FALSE(try_lock_byte(File(), 0));
}

}  // namespace
}  // namespace millrace
