// Tests which files become samples, with which label, and which rank gets them.
#include "exchange/ingest.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "exchange/sample_store.h"
#include "exchange/testing/stores.h"
#include "tar/sample.h"

namespace millrace::exchange {
namespace {

using testing::TemporaryDirectory;

class IngestTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = directory_.path(name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
    return path;
  }

  std::string folder(const std::vector<std::string>& names) const {
    for (const std::string& name : names) write("in/" + name, name);
    return directory_.path("in");
  }

  // key.field -> (label, bytes) of everything that the source gives.
  static std::map<std::string, std::pair<std::string, std::string>> all_of(IngestSource& source) {
    std::map<std::string, std::pair<std::string, std::string>> found;
    EXPECT_TRUE(source.read([](uint64_t) { return true; },
                            [&](const IngestSource::Sample& sample) -> Status {
                              std::string label;
                              for (const shard::NewField& field : sample.fields)
                                if (field.field == "cls") label = field.bytes;
                              for (const shard::NewField& field : sample.fields) {
                                if (field.field != "cls")
                                  found[fmt::format("{}.{}", sample.key, field.field)] = {
                                      label, std::string(field.bytes)};
                              }
                              return {};
                            }));
    return found;
  }

  TemporaryDirectory directory_;
};

TEST_F(IngestTest, EveryFileIsASampleOfItsOwn) {
  const std::string in = folder({"a/same.jpg", "a/same.png", "b/img.0001.png", "b/img.0002.png",
                                 "b/deep.er/x.PNG", "b/.hidden.png", "b/README"});
  auto source = open_folder(in, {});
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_EQ((*source)->samples(), 5U);
  EXPECT_EQ((*source)->passed_over(), 2U);
  EXPECT_EQ(all_of(**source), (std::map<std::string, std::pair<std::string, std::string>>{
                                  {"a/same.jpg", {"0", "a/same.jpg"}},
                                  {"a/same.png", {"0", "a/same.png"}},
                                  {"b/img_0001.png", {"1", "b/img.0001.png"}},
                                  {"b/img_0002.png", {"1", "b/img.0002.png"}},
                                  {"b/deep.er/x.png", {"1", "b/deep.er/x.PNG"}}}));
}

TEST_F(IngestTest, OnlyFilesWithTheExtensionsAskedFor) {
  auto source = open_folder(folder({"a/1.jpg", "a/list.txt", "b/2.png"}), {{}, {"jpg", "png"}});
  ASSERT_TRUE(source);
  EXPECT_EQ((*source)->samples(), 2U);
  EXPECT_EQ((*source)->passed_over(), 1U);
}

TEST_F(IngestTest, AFolderWithoutSamplesIsAnError) {
  const auto source = open_folder(folder({"a/README"}), {});
  ASSERT_FALSE(source);
  EXPECT_NE(source.error().message().find("there are no samples"), std::string::npos);
}

TEST_F(IngestTest, FingerprintsTellNamesAndSizesApart) {
  write("one/a/1.png", "xx");
  write("same/a/1.png", "yy");
  write("size/a/1.png", "xxx");
  write("name/a/2.png", "xx");
  const auto of = [&](const std::string& name) {
    return (*open_folder(directory_.path(name), {}))->fingerprint();
  };
  EXPECT_EQ(of("one"), of("same"));
  EXPECT_NE(of("one"), of("size"));
  EXPECT_NE(of("one"), of("name"));
}

TEST_F(IngestTest, TheClassFileNumbersByItsSecondColumnOrElseByLineOrName) {
  using Names = std::vector<std::string>;
  const std::string plain = write("plain", "dog\n\ncat\r\n");
  EXPECT_EQ(*read_classes(plain, ClassOrder::kByLine), (Names{"dog", "cat"}));
  EXPECT_EQ(*read_classes(plain, ClassOrder::kByName), (Names{"cat", "dog"}));
  const std::string numbered = write("numbered", "dog\t0\tsome\ncat\t1\tother\n");
  EXPECT_EQ(*read_classes(numbered, ClassOrder::kByName), (Names{"dog", "cat"}));
  EXPECT_EQ(*read_classes(write("turned", "dog\t1\ncat\t0\n"), ClassOrder::kByLine), (Names{"cat", "dog"}));
  EXPECT_EQ(*read_classes(write("words", "dog\tbig\ncat\t0\n"), ClassOrder::kByLine), (Names{"dog", "cat"}));
  EXPECT_EQ(*read_classes(write("blanks", "great dane 1\ncat  0\n"), ClassOrder::kByLine),
            (Names{"cat", "great dane"}));
  EXPECT_EQ(*read_classes(write("phrases", "great dane\ncat 0\n"), ClassOrder::kByLine),
            (Names{"great dane", "cat 0"}));
  EXPECT_EQ(*read_classes(write("types", "type 1\ntype 0\n"), ClassOrder::kByLine),
            (Names{"type 1", "type 0"}));
  EXPECT_FALSE(read_classes(write("blank gap", "dog 0\ncat 2\n"), ClassOrder::kByLine));
  EXPECT_FALSE(read_classes(write("twice", "dog\ncat\ndog\n"), ClassOrder::kByLine));
  EXPECT_FALSE(read_classes(write("gap", "dog\t0\ncat\t2\n"), ClassOrder::kByLine));
  EXPECT_FALSE(read_classes(write("both", "dog\t1\ncat\t1\n"), ClassOrder::kByLine));
  EXPECT_FALSE(read_classes(write("empty", "\n"), ClassOrder::kByLine));
}

TEST_F(IngestTest, APartOfTheWholeIsDealtToThoseThatShareIt) {
  auto source = open_folder(folder({"a/1.x", "a/2.x", "a/3.x", "a/4.x", "a/5.x"}), {});
  IngestOptions options;
  options.deal = {Partition::kContiguous, 4, 0};
  options.ranks = {1, 3};
  options.sharers = {1, 3};
  options.first_id = 10;
  options.all = 20;
  const auto made = ingest(**source, directory_.path("stores"), options);
  ASSERT_TRUE(made) << made.error().message();
  ASSERT_EQ(made->size(), 2U);
  std::set<uint64_t> ids;
  for (const Manifest& manifest : *made) {
    EXPECT_EQ(manifest.world, 4U);
    EXPECT_EQ(manifest.samples, 20U);
    for (const Record& record : manifest.records) {
      EXPECT_EQ(record.home, manifest.rank);
      ids.insert(record.id);
    }
  }
  EXPECT_EQ(ids, (std::set<uint64_t>{10, 11, 12, 13, 14}));
  EXPECT_EQ((*made)[0].rank, 1U);
  EXPECT_GE((*made)[0].records.size(), 2U);
  EXPECT_GE((*made)[1].records.size(), 2U);
}

}  // namespace
}  // namespace millrace::exchange
