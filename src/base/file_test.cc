// Files on a real file system: whole reads and writes, mappings, and files that appear complete or not at
// all.
#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/testing/temporary_directory.h"

namespace millrace {
namespace {

using testing::TemporaryDirectory;

using Names = std::vector<std::string>;

void write_plainly(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string read_all(const std::string& path) {
  return read_file(path, uint64_t{1} << 30).take();
}

TEST(FileTest, ReadsSomeUntilTheEnd) {
  const TemporaryDirectory directory;
  write_plainly(directory.path("a"), "hello world");
  File file = File::open_read(directory.path("a")).take();
  EXPECT_TRUE(file.is_open());
  EXPECT_EQ(file.name(), directory.path("a"));
  std::string into(6, '\0');
  EXPECT_EQ(*file.read_some(std::as_writable_bytes(std::span(into))), 6u);
  EXPECT_EQ(into, "hello ");
  EXPECT_EQ(*file.read_some(std::as_writable_bytes(std::span(into))), 5u);
  EXPECT_EQ(into.substr(0, 5), "world");
  EXPECT_EQ(*file.read_some(std::as_writable_bytes(std::span(into))), 0u);
}

TEST(FileTest, ReadsAtAnOffsetAndLessOnlyAtTheEnd) {
  const TemporaryDirectory directory;
  write_plainly(directory.path("a"), "hello world");
  File file = File::open_read(directory.path("a")).take();
  std::string into(5, '\0');
  EXPECT_EQ(*file.read_at(3, std::as_writable_bytes(std::span(into))), 5u);
  EXPECT_EQ(into, "lo wo");
  EXPECT_EQ(*file.read_at(9, std::as_writable_bytes(std::span(into))), 2u);
  EXPECT_EQ(*file.read_at(100, std::as_writable_bytes(std::span(into))), 0u);
}

TEST(FileTest, ReadsExactlyOrSaysThatTheFileEndsTooEarly) {
  const TemporaryDirectory directory;
  write_plainly(directory.path("a"), "hello world");
  const File file = File::open_read(directory.path("a")).take();
  std::string into(5, '\0');
  ASSERT_TRUE(file.read_exactly(6, std::as_writable_bytes(std::span(into))));
  EXPECT_EQ(into, "world");
  const auto cut = file.read_exactly(7, std::as_writable_bytes(std::span(into)));
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code(), Code::kTruncated);
  EXPECT_NE(cut.error().message().find(directory.path("a")), std::string::npos);
  EXPECT_FALSE(File().read_exactly(0, std::as_writable_bytes(std::span(into))));
}

TEST(FileTest, KnowsItsSizeAndKind) {
  const TemporaryDirectory directory;
  write_plainly(directory.path("a"), "hello");
  const File file = File::open_read(directory.path("a")).take();
  EXPECT_EQ(*file.size(), 5u);
  EXPECT_TRUE(*file.is_regular());
  const File null = File::open_read("/dev/null").take();
  EXPECT_FALSE(*null.is_regular());
}

TEST(FileTest, AMissingFileIsNotFoundAndNamed) {
  const TemporaryDirectory directory;
  const auto file = File::open_read(directory.path("gone"));
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code(), Code::kNotFound);
  EXPECT_EQ(file.error().message(), "opening " + directory.path("gone") + ": No such file or directory");
}

TEST(FileTest, ADirectoryIsNoFile) {
  const TemporaryDirectory directory;
  const auto file = File::open_read(directory.path());
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code(), Code::kInvalid);
}

TEST(FileTest, WritingToAFileOpenedForReadingIsAnErrorThatNamesIt) {
  const TemporaryDirectory directory;
  write_plainly(directory.path("a"), "hello");
  File file = File::open_read(directory.path("a")).take();
  const Status status = file.write_all("x");
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message().find(directory.path("a")), std::string::npos);
}

TEST(FileTest, AFullDriveIsNoSpace) {
  File full(::open("/dev/full", O_WRONLY | O_CLOEXEC), "/dev/full");
  ASSERT_TRUE(full.is_open());
  EXPECT_EQ(full.write_all("x").error().code(), Code::kNoSpace);
}

TEST(FileTest, WritesTwoPiecesInOrderWhateverIsEmpty) {
  const TemporaryDirectory directory;
  File file = File::make_temporary(directory.path()).take();
  ASSERT_TRUE(file.write_all("ab", "cd"));
  ASSERT_TRUE(file.write_all("", "ef"));
  ASSERT_TRUE(file.write_all("gh", ""));
  ASSERT_TRUE(file.write_all("", ""));
  std::string into(20, '\0');
  EXPECT_EQ(*file.read_at(0, std::as_writable_bytes(std::span(into))), 8u);
  EXPECT_EQ(into.substr(0, 8), "abcdefgh");
}

TEST(FileTest, WritesEverythingThroughAPipeThatTakesLittleAtATime) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  File out(ends[1], "pipe");
  File in(ends[0], "pipe");
  const std::string first(300'000, 'a');
  const std::string second(300'000, 'b');
  std::string got;
  std::thread reader([&] {
    std::string step(7777, '\0');
    while (const size_t size = in.read_some(std::as_writable_bytes(std::span(step))).take())
      got += step.substr(0, size);
  });
  EXPECT_TRUE(out.write_all(first, second));
  out = File();
  reader.join();
  EXPECT_EQ(got, first + second);
}

TEST(FileTest, ATemporaryFileHasNoName) {
  const TemporaryDirectory directory;
  const File file = File::make_temporary(directory.path()).take();
  EXPECT_EQ(directory.names(), Names{});
}

TEST(FileTest, ATemporaryFileInAMissingDirectoryIsAnError) {
  const TemporaryDirectory directory;
  EXPECT_EQ(File::make_temporary(directory.path("gone")).error().code(), Code::kNotFound);
}

TEST(FileTest, ClosesItsDescriptor) {
  const TemporaryDirectory directory;
  int descriptor = -1;
  {
    File file = File::make_temporary(directory.path()).take();
    descriptor = file.descriptor();
    const File moved = std::move(file);
    EXPECT_FALSE(file.is_open());  // NOLINT(bugprone-use-after-move): that it is empty is the point
    EXPECT_EQ(::fcntl(descriptor, F_GETFD), FD_CLOEXEC);
  }
  EXPECT_EQ(::fcntl(descriptor, F_GETFD), -1);
}

TEST(FileTest, StandardStreamsAreCopiesThatMayBeClosed) {
  {
    const File output = File::standard_output().take();
  }
  {
    const File input = File::standard_input().take();
  }
  EXPECT_GE(::fcntl(STDOUT_FILENO, F_GETFD), 0);
  EXPECT_GE(::fcntl(STDIN_FILENO, F_GETFD), 0);
}

TEST(MappedFileTest, ShowsTheBytesOfTheFile) {
  const TemporaryDirectory directory;
  const std::string bytes(100'000, 'x');
  write_plainly(directory.path("a"), bytes);
  MappedFile mapped = MappedFile::open(directory.path("a")).take();
  EXPECT_EQ(mapped.bytes(), bytes);
  const MappedFile moved = std::move(mapped);
  EXPECT_EQ(moved.bytes(), bytes);
}

TEST(MappedFileTest, AnEmptyFileIsEmptyBytes) {
  const TemporaryDirectory directory;
  write_plainly(directory.path("a"), "");
  EXPECT_EQ(MappedFile::open(directory.path("a")).take().bytes(), "");
}

TEST(MappedFileTest, WhatIsNoRegularFileCannotBeMapped) {
  EXPECT_EQ(MappedFile::open("/dev/null").error().code(), Code::kUnsupported);
}

TEST(MappedFileTest, AMissingFileIsNotFound) {
  const TemporaryDirectory directory;
  EXPECT_EQ(MappedFile::open(directory.path("gone")).error().code(), Code::kNotFound);
}

TEST(AtomicFileTest, AppearsOnlyWhenFinished) {
  const TemporaryDirectory directory;
  AtomicFile atomic = AtomicFile::create(directory.path("a")).take();
  EXPECT_EQ(atomic.path(), directory.path("a"));
  ASSERT_TRUE(atomic.file().write_all("hello"));
  EXPECT_FALSE(file_exists(directory.path("a")));
  ASSERT_TRUE(atomic.finish());
  EXPECT_EQ(read_all(directory.path("a")), "hello");
  EXPECT_EQ(directory.names(), Names{"a"});
}

TEST(AtomicFileTest, LeavesNoTraceWhenDropped) {
  const TemporaryDirectory directory;
  {
    AtomicFile atomic = AtomicFile::create(directory.path("a")).take();
    ASSERT_TRUE(atomic.file().write_all("hello"));
    AtomicFile moved = std::move(atomic);
    ASSERT_TRUE(moved.file().write_all("more"));
  }
  EXPECT_EQ(directory.names(), Names{});
}

TEST(AtomicFileTest, ReplacesAnExistingFileWhole) {
  const TemporaryDirectory directory;
  write_plainly(directory.path("a"), "the old and longer text");
  AtomicFile atomic = AtomicFile::create(directory.path("a")).take();
  ASSERT_TRUE(atomic.file().write_all("new"));
  EXPECT_EQ(read_all(directory.path("a")), "the old and longer text");
  ASSERT_TRUE(atomic.finish());
  EXPECT_EQ(read_all(directory.path("a")), "new");
  EXPECT_EQ(directory.names(), Names{"a"});
}

TEST(AtomicFileTest, LeavesTheOldFileWhenDropped) {
  const TemporaryDirectory directory;
  write_plainly(directory.path("a"), "old");
  {
    AtomicFile atomic = AtomicFile::create(directory.path("a")).take();
  }
  EXPECT_EQ(read_all(directory.path("a")), "old");
  EXPECT_EQ(directory.names(), Names{"a"});
}

TEST(AtomicFileTest, AMissingDirectoryIsAnErrorAtOnce) {
  const TemporaryDirectory directory;
  const auto atomic = AtomicFile::create(directory.path("gone/a"));
  ASSERT_FALSE(atomic);
  EXPECT_EQ(atomic.error().code(), Code::kNotFound);
}

TEST(AtomicFileTest, ReplacesNothingButRegularFiles) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory.path("a"));
  ASSERT_EQ(::mkfifo(directory.path("b").c_str(), 0600), 0);
  for (const std::string& path : {directory.path("a"), directory.path("b"), std::string("/dev/null")}) {
    const auto refused = AtomicFile::create(path);
    ASSERT_FALSE(refused) << path;
    EXPECT_EQ(refused.error().code(), Code::kInvalid);
  }
  EXPECT_EQ(directory.names(), (Names{"a", "b"}));
}

TEST(AtomicFileTest, IsReadableAsTheUmaskAllows) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(write_file_atomically(directory.path("a"), "hello"));
  const mode_t mask = ::umask(0);
  ::umask(mask);
  struct stat facts = {};
  ASSERT_EQ(::stat(directory.path("a").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0666 & ~mask);
}

TEST(ReadFileTest, ReadsAllUpToItsLimit) {
  const TemporaryDirectory directory;
  const std::string bytes(200'000, 'y');
  write_plainly(directory.path("a"), bytes);
  EXPECT_EQ(*read_file(directory.path("a"), 200'000), bytes);
  const auto over = read_file(directory.path("a"), 199'999);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code(), Code::kTooLarge);
  EXPECT_EQ(read_file(directory.path("gone"), 1).error().code(), Code::kNotFound);
}

TEST(FileNamesTest, RemovingAMissingFileIsFine) {
  const TemporaryDirectory directory;
  write_plainly(directory.path("a"), "hello");
  EXPECT_TRUE(file_exists(directory.path("a")));
  EXPECT_EQ(*file_size(directory.path("a")), 5u);
  EXPECT_TRUE(remove_file_if_present(directory.path("a")));
  EXPECT_FALSE(file_exists(directory.path("a")));
  EXPECT_TRUE(remove_file_if_present(directory.path("a")));
  EXPECT_EQ(file_size(directory.path("a")).error().code(), Code::kNotFound);
}

TEST(FileNamesTest, RemovingADirectoryIsAnError) {
  const TemporaryDirectory directory;
  EXPECT_FALSE(remove_file_if_present(directory.path()));
}

TEST(FileNamesTest, DirectoryOfAnyPath) {
  EXPECT_EQ(directory_of("a/b/c.tar"), "a/b");
  EXPECT_EQ(directory_of("c.tar"), ".");
  EXPECT_EQ(directory_of("/c.tar"), "/");
  EXPECT_EQ(directory_of("/a/c.tar"), "/a");
}

}  // namespace
}  // namespace millrace
