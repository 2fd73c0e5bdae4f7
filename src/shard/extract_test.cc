// Extraction stays inside its directory, whatever the archive says.
#include "shard/extract.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/testing/temporary_directory.h"
#include "tar/testing/archive.h"

namespace millrace::shard {
namespace {

using tar::testing::end_blocks;
using tar::testing::raw_file;
using tar::testing::raw_member;
using Texts = std::vector<std::string>;

class ExtractTest : public ::testing::Test {
 protected:
  Result<ExtractReport> extract(const std::string& members, const ExtractOptions& options = {}) {
    EXPECT_TRUE(write_file_atomically(directory_.path("a.tar"), members + end_blocks()));
    return extract_shard(directory_.path("a.tar"), directory_.path("out"), options);
  }
  std::string out(const std::string& name) const { return directory_.path("out/" + name); }

  millrace::testing::TemporaryDirectory directory_;
};

TEST_F(ExtractTest, FilesAndDirectoriesAppearWithTheirBytes) {
  const auto report = extract(raw_member({.name = "empty/", .type = tar::kTypeDirectory}) +
                              raw_file("a/b.txt", "hello") + raw_file("./c.txt", ""));
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->files, 2U);
  EXPECT_EQ(*read_file(out("a/b.txt"), 100), "hello");
  EXPECT_EQ(*read_file(out("c.txt"), 100), "");
  EXPECT_TRUE(std::filesystem::is_directory(out("empty")));
}

TEST_F(ExtractTest, NamesThatLeadOutAreRefused) {
  for (const char* name : {"../evil.txt", "/tmp/evil.txt", "a/../../evil.txt", "..", "a/.."}) {
    const auto report = extract(raw_file(name, "evil"));
    ASSERT_FALSE(report) << name;
    EXPECT_EQ(report.error().code(), Code::kDenied) << name;
  }
  EXPECT_FALSE(file_exists(directory_.path("evil.txt")));
}

TEST_F(ExtractTest, LinksAreNeitherMadeNorFollowed) {
  const auto made =
      extract(raw_member({.name = "link", .type = tar::kTypeSymbolicLink, .link = "/etc"}) +
              raw_member({.name = "hard", .type = tar::kTypeHardLink, .link = "../../etc/passwd"}) +
              raw_file("x.txt", "x"));
  ASSERT_TRUE(made);
  EXPECT_EQ(made->passed_over, 2U);
  EXPECT_FALSE(std::filesystem::is_symlink(out("link")));
  // A link that is there already is in the way.
  std::filesystem::create_directory(directory_.path("outside"));
  ASSERT_EQ(symlink(directory_.path("outside").c_str(), out("door").c_str()), 0);
  const auto through = extract(raw_file("door/y.txt", "y"));
  ASSERT_FALSE(through);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path("outside")));
  ExtractOptions replace;
  replace.existing = Existing::kReplace;
  ASSERT_EQ(symlink(directory_.path("a.tar").c_str(), out("z.txt").c_str()), 0);
  ASSERT_TRUE(extract(raw_file("z.txt", "z"), replace));
  EXPECT_FALSE(std::filesystem::is_symlink(out("z.txt")));
}

TEST_F(ExtractTest, ExistingFilesStayUnlessAskedFor) {
  ASSERT_TRUE(extract(raw_file("x.txt", "old")));
  const auto again = extract(raw_file("x.txt", "new"));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), Code::kExists);
  EXPECT_EQ(*read_file(out("x.txt"), 100), "old");
  ExtractOptions replace;
  replace.existing = Existing::kReplace;
  ASSERT_TRUE(extract(raw_file("x.txt", "new"), replace));
  EXPECT_EQ(*read_file(out("x.txt"), 100), "new");
}

TEST_F(ExtractTest, ACutMemberLeavesNoHalfFile) {
  ASSERT_TRUE(extract(raw_file("x.txt", "old")));
  const std::string cut = raw_file("x.txt", std::string(3000, 'n')).substr(0, 1024);
  ASSERT_TRUE(write_file_atomically(directory_.path("a.tar"), cut));
  ExtractOptions replace;
  replace.existing = Existing::kReplace;
  EXPECT_FALSE(extract_shard(directory_.path("a.tar"), directory_.path("out"), replace));
  EXPECT_EQ(*read_file(out("x.txt"), 100), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_.path("out")), {}), 1);
}

TEST_F(ExtractTest, FieldsChooseFiles) {
  ExtractOptions options;
  options.fields = {"txt"};
  const auto report =
      extract(raw_file("a.TXT", "1") + raw_file("a.jpg", "2") + raw_file("README", "3"), options);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->files, 1U);
  EXPECT_TRUE(file_exists(out("a.TXT")));
}

TEST_F(ExtractTest, SetUserBitsAreDropped) {
  tar::Header header = tar::testing::raw_header({.name = "x.sh", .data = "x"});
  std::memcpy(header.mode, "0004755", 7);
  tar::testing::seal(header);
  ASSERT_TRUE(extract(tar::testing::with_padding(tar::testing::as_text(header) + "x")));
  const auto permissions = std::filesystem::status(out("x.sh")).permissions();
  EXPECT_EQ(permissions & std::filesystem::perms::set_uid, std::filesystem::perms::none);
  EXPECT_NE(permissions & std::filesystem::perms::owner_exec, std::filesystem::perms::none);
}

}  // namespace
}  // namespace millrace::shard
