// Recipes: trees and classes to samples, and shards that do not depend on threads.
#include "shard/recipe.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/testing/temporary_directory.h"
#include "shard/stream.h"

namespace millrace::shard {
namespace {

using Texts = std::vector<std::string>;

class RecipeTest : public ::testing::Test {
 protected:
  void write(const std::string& name, std::string_view bytes) {
    std::filesystem::create_directories(std::filesystem::path(directory_.path("tree/" + name)).parent_path());
    ASSERT_TRUE(write_file_atomically(directory_.path("tree/" + name), bytes));
  }
  std::string tree() const { return directory_.path("tree"); }
  Result<RecipeBook> recipes() const { return recipes_of_directory(tree(), tar::KeyRule::kFirstDot); }

  Result<std::vector<ShardSummary>> build(const RecipeBook& book, const std::string& name,
                                          unsigned jobs) const {
    BuildOptions options;
    options.name = *OutputName::parse(directory_.path(name));
    options.limits.max_samples = 3;
    options.jobs = jobs;
    return build_shards(book, options);
  }

  millrace::testing::TemporaryDirectory directory_;
};

TEST_F(RecipeTest, FilesAreGroupedByKeyInNameOrder) {
  write("b/2.jpg", "x");
  write("a/1.txt", "y");
  write("a/1.JPG", "z");
  write("a/1-x.jpg", "w");
  write("README", "loose");
  const auto book = recipes();
  ASSERT_TRUE(book);
  ASSERT_EQ(book->samples.size(), 3U);
  EXPECT_EQ(book->samples[0].key, "a/1");
  EXPECT_EQ(book->samples[0].fields[0].field, "jpg");
  EXPECT_EQ(book->samples[0].fields[1].field, "txt");
  EXPECT_EQ(book->samples[1].key, "a/1-x");
  EXPECT_EQ(book->loose_files, 1U);
}

TEST_F(RecipeTest, TwoSpellingsOfOneFieldAreRefused) {
  write("1.jpg", "x");
  write("1.JPG", "y");
  const auto book = recipes();
  ASSERT_FALSE(book);
  EXPECT_NE(book.error().message().find("same field"), std::string::npos);
}

TEST_F(RecipeTest, ClassesAreNumberedInNameOrderAndReused) {
  write("dog/1.jpg", "x");
  write("cat/1.jpg", "y");
  auto book = recipes();
  Texts classes;
  ASSERT_TRUE(add_classes(*book, classes));
  EXPECT_EQ(classes, (Texts{"cat", "dog"}));
  EXPECT_EQ(book->samples[1].key, "dog/1");
  EXPECT_EQ(book->samples[1].fields[0].field, "cls");
  EXPECT_EQ(book->samples[1].fields[0].text, "1");
  auto again = recipes();
  Texts known = {"dog"};
  const auto unknown = add_classes(*again, known);
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message().find("class \"cat\""), std::string::npos);
}

TEST_F(RecipeTest, ClassesNeedDirectoriesAndNoClsFiles) {
  Texts classes;
  write("1.jpg", "x");
  auto flat = recipes();
  EXPECT_FALSE(add_classes(*flat, classes));
  std::filesystem::remove(tree() + "/1.jpg");
  write("cat/1.cls", "0");
  auto doubled = recipes();
  EXPECT_FALSE(add_classes(*doubled, classes));
}

TEST_F(RecipeTest, ShardsAreTheSameForAnyNumberOfThreads) {
  for (int i = 0; i < 20; ++i)
    write(fmt::format("{:02}.txt", i), std::string(static_cast<size_t>(i) * 100, 'x'));
  auto book = recipes();
  ASSERT_TRUE(measure_files(*book));
  const auto one = build(*book, "one-%d.tar", 1);
  const auto four = build(*book, "four-%d.tar", 4);
  ASSERT_TRUE(one && four);
  ASSERT_EQ(one->size(), 7U);
  ASSERT_EQ(four->size(), 7U);
  for (size_t i = 0; i < one->size(); ++i) {
    EXPECT_EQ(*read_file((*one)[i].path, 1 << 20), *read_file((*four)[i].path, 1 << 20));
  }
}

TEST_F(RecipeTest, AFileThatChangesMeanwhileIsAnErrorAndLeavesNoShard) {
  write("1.txt", "four");
  auto book = recipes();
  ASSERT_TRUE(measure_files(*book));
  for (const char* changed : {"longer than before", "x"}) {
    ASSERT_TRUE(write_file_atomically(tree() + "/1.txt", changed));
    const auto shards = build(*book, "s.tar", 1);
    ASSERT_FALSE(shards);
    EXPECT_NE(shards.error().message().find("changed while it was read"), std::string::npos);
    EXPECT_EQ(directory_.names(), (Texts{"tree"}));
  }
}

TEST_F(RecipeTest, AManifestCannotReachOutOfItsRoot) {
  write("in/1.txt", "inside");
  ASSERT_TRUE(write_file_atomically(directory_.path("secret.txt"), "secret"));
  ASSERT_EQ(symlink("../../secret.txt", (tree() + "/in/link.txt").c_str()), 0);
  ASSERT_EQ(symlink("1.txt", (tree() + "/in/fine.txt").c_str()), 0);
  for (const std::string& path :
       Texts{"../../secret.txt", "link.txt", directory_.path("secret.txt"), "no.txt", "."}) {
    RecipeBook book;
    book.root = tree() + "/in";
    book.samples = {{"k", {{"txt", FieldRecipe::Kind::kFile, path, 0}}}};
    const auto measured = measure_files(book);
    ASSERT_FALSE(measured) << path;
    EXPECT_NE(measured.error().message().find("sample \"k\", field txt"), std::string::npos) << path;
  }
  RecipeBook book;
  book.root = tree() + "/in";
  book.samples = {{"k", {{"txt", FieldRecipe::Kind::kFile, "fine.txt", 0}}}};
  ASSERT_TRUE(measure_files(book));
  EXPECT_EQ(book.samples[0].fields[0].size, 6U);
}

}  // namespace
}  // namespace millrace::shard
