// Names that no client can choose, and that nobody else can be taken for.
#include "cluster/hidden_bucket.h"

#include <gtest/gtest.h>

#include <set>

namespace millrace::cluster {
namespace {

TEST(HiddenBucketTest, AHiddenBucketBelongsToItsBucket) {
  EXPECT_EQ(real_bucket(uploads_of("train")), "train");
  EXPECT_EQ(real_bucket(parts_of("train")), "train");
  EXPECT_EQ(real_bucket("train"), "train");
  EXPECT_NE(uploads_of("train"), parts_of("train"));
}

TEST(HiddenBucketTest, GoingOverABucketComesToEachHiddenOneOnce) {
  std::set<std::string> seen;
  for (std::string name = "train"; !name.empty(); name = next_hidden(name))
    EXPECT_TRUE(seen.insert(name).second);
  EXPECT_EQ(seen,
            (std::set<std::string>{"train", indexes_of("train"), parts_of("train"), uploads_of("train")}));
}

TEST(HiddenBucketTest, APartsNameTellsItsUploadAndItsNumber) {
  const std::string upload = make_upload_id();
  for (const unsigned number : {1U, 7U, 10'000U}) {
    const uint64_t file = make_part_file(number);
    EXPECT_EQ(part_number_of(file), number);
    const auto name = parse_part_key(part_key(upload, file));
    ASSERT_TRUE(name);
    EXPECT_EQ(name->upload, upload);
    EXPECT_EQ(name->file, file);
  }
}

TEST(HiddenBucketTest, TwoPutsOfOnePartHaveTwoNames) {
  std::set<uint64_t> files;
  for (int turn = 0; turn < 1000; ++turn) files.insert(make_part_file(3));
  EXPECT_EQ(files.size(), 1000U);
}

TEST(HiddenBucketTest, PartsAreInTheOrderOfTheirNumbers) {
  const std::string upload = make_upload_id();
  EXPECT_LT(part_key(upload, make_part_file(2)), part_key(upload, make_part_file(10)));
  EXPECT_LT(part_key(upload, make_part_file(9'999)), part_key(upload, make_part_file(10'000)));
}

TEST(HiddenBucketTest, OtherNamesAreNone) {
  const std::string upload(32, 'a');
  EXPECT_TRUE(is_upload_id(upload));
  for (const std::string& name : {std::string(), std::string(".."), std::string(31, 'a'),
                                  std::string(33, 'a'), std::string(32, 'A'), std::string(32, '/')})
    EXPECT_FALSE(is_upload_id(name)) << name;
  for (const std::string& name : {upload, upload + "/", upload + "/0123456789abcde",
                                  upload + "/0123456789abcdeF", upload + "-0123456789abcdef",
                                  upload + "/0123456789abcdef0", std::string(32, 'X') + "/0123456789abcdef"})
    EXPECT_FALSE(parse_part_key(name)) << name;
  EXPECT_TRUE(parse_part_key(upload + "/0123456789abcdef"));
}

TEST(HiddenBucketTest, ATargetIsTheKeyInTheHeaders) {
  store::Record record;
  EXPECT_EQ(target_of(record), "");
  record.headers = {{"content-type", "x"}, {std::string(kTargetHeader), "a/b"}};
  EXPECT_EQ(target_of(record), "a/b");
}

}  // namespace
}  // namespace millrace::cluster
