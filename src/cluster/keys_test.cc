// Keys: what they may do, and the file that keeps them.
#include "cluster/keys.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <set>

#include "base/testing/temporary_directory.h"

namespace millrace::cluster {
namespace {

using testing::TemporaryDirectory;

mode_t mode_of(const std::string& path) {
  struct stat found{};
  EXPECT_EQ(::stat(path.c_str(), &found), 0);
  return found.st_mode & 07777;
}

void write(const std::string& path, const std::string& text, mode_t mode) {
  std::ofstream(path) << text;
  ASSERT_EQ(::chmod(path.c_str(), mode), 0);
}

TEST(GrantTest, AGrantNamesABucketAndARight) {
  EXPECT_TRUE(parse_grant("train:read")->read);
  EXPECT_FALSE(parse_grant("train:read")->write);
  EXPECT_TRUE(parse_grant("train:write")->write);
  EXPECT_FALSE(parse_grant("train:write")->read);
  EXPECT_EQ(parse_grant("*:read-write")->bucket, "*");
  for (const std::string_view text :
       {"", "train", "train:", ":read", "train:all", "train:READ", "train:read,write"}) {
    const auto grant = parse_grant(text);
    ASSERT_FALSE(grant) << text;
    EXPECT_EQ(grant.error().code(), Code::kInvalid) << text;
  }
}

TEST(KeyTest, AKeyMayWhatItWasGrantedAndNoMore) {
  Key key = make_key();
  EXPECT_FALSE(key.may(Right::kRead, "train"));
  key.grants = {{"train", true, false}, {"out", false, true}};
  EXPECT_TRUE(key.may(Right::kRead, "train"));
  EXPECT_FALSE(key.may(Right::kWrite, "train"));
  EXPECT_TRUE(key.may(Right::kWrite, "out"));
  EXPECT_FALSE(key.may(Right::kRead, "out"));
  EXPECT_FALSE(key.may(Right::kRead, "train2"));
  EXPECT_FALSE(key.may(Right::kRead, ""));
  EXPECT_FALSE(key.may(Right::kAdmin, "train"));
  key.grants = {{"*", true, true}};
  EXPECT_TRUE(key.may(Right::kWrite, "anything"));
  EXPECT_FALSE(key.may(Right::kAdmin, "anything"));
  key.grants.clear();
  key.admin = true;
  EXPECT_TRUE(key.may(Right::kAdmin, ""));
  EXPECT_TRUE(key.may(Right::kWrite, "anything"));
}

TEST(KeyTest, MadeKeysDiffer) {
  std::set<std::string> seen;
  for (int i = 0; i < 200; ++i) {
    const Key key = make_key();
    EXPECT_EQ(key.access_key.size(), 20U);
    EXPECT_EQ(key.secret_key.size(), 40U);
    EXPECT_TRUE(seen.insert(key.access_key).second);
    EXPECT_TRUE(seen.insert(key.secret_key).second);
  }
}

TEST(KeyRingTest, ComesBackAsItWasSavedAndOnlyItsOwnerCanReadIt) {
  const TemporaryDirectory directory;
  const std::string path = key_file_path(directory.path());
  KeyRing ring;
  Key key = make_key();
  key.note = "odd \"note\" ü\n";
  key.grants = {{"train", true, false}, {"*", false, true}};
  ring.add(key);
  Key admin = make_key();
  admin.admin = true;
  ring.add(admin);
  ASSERT_TRUE(ring.save(path));
  EXPECT_EQ(mode_of(path), 0600U);
  auto back = KeyRing::load(path);
  ASSERT_TRUE(back) << back.error().message();
  ASSERT_EQ(back->keys().size(), 2U);
  const Key* found = back->find(key.access_key);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->secret_key, key.secret_key);
  EXPECT_EQ(found->note, key.note);
  EXPECT_TRUE(found->may(Right::kRead, "train"));
  EXPECT_FALSE(found->may(Right::kRead, "other"));
  EXPECT_TRUE(back->find(admin.access_key)->admin);
  EXPECT_EQ(back->find("nobody"), nullptr);
  EXPECT_TRUE(back->remove(key.access_key));
  EXPECT_FALSE(back->remove(key.access_key));
}

TEST(KeyRingTest, AMissingFileIsAnEmptyRing) {
  const TemporaryDirectory directory;
  const auto ring = KeyRing::load(directory.path("none"));
  ASSERT_TRUE(ring);
  EXPECT_TRUE(ring->empty());
}

TEST(KeyRingTest, AFileThatOthersCanReadIsRefused) {
  const TemporaryDirectory directory;
  const std::string path = directory.path("keys.json");
  KeyRing ring;
  ring.add(make_key());
  ASSERT_TRUE(ring.save(path));
  for (const mode_t mode : {0640U, 0604U, 0620U, 0602U, 0601U, 0666U}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const auto loaded = KeyRing::load(path);
    ASSERT_FALSE(loaded) << mode;
    EXPECT_EQ(loaded.error().code(), Code::kDenied) << mode;
    EXPECT_NE(loaded.error().hint().find("chmod 600"), std::string::npos);
  }
  ASSERT_EQ(::chmod(path.c_str(), 0400), 0);
  EXPECT_TRUE(KeyRing::load(path));
}

TEST(KeyRingTest, ABrokenFileIsRefusedWithoutQuotingIt) {
  const TemporaryDirectory directory;
  const std::string path = directory.path("keys.json");
  for (const std::string text :
       {"", "{", "[]", "5", "{}", "{\"keys\": 5}", "{\"keys\": [{\"secret_key\": \"HUSH\"}]}",
        "{\"keys\": [{\"access_key\": 5, \"secret_key\": \"HUSH\"}]}",
        "{\"keys\": [{\"access_key\": \"a\", \"secret_key\": \"HUSH\", \"grants\": [{}]}]}",
        "{\"keys\": [{\"secret_key\": \"HUSH"}) {
    write(path, text, 0600);
    const auto loaded = KeyRing::load(path);
    ASSERT_FALSE(loaded) << text;
    EXPECT_EQ(loaded.error().code(), Code::kCorrupt) << text;
    EXPECT_EQ(loaded.error().message().find("HUSH"), std::string::npos);
  }
}

TEST(KeyFileTest, RefusesToOpenWhatItCannotTrust) {
  const TemporaryDirectory directory;
  write(directory.path("keys.json"), "{\"keys\": []}", 0644);
  EXPECT_FALSE(KeyFile::open(directory.path("keys.json"), [](const Error&) {}));
  const auto missing = KeyFile::open(directory.path("none"), [](const Error&) {});
  ASSERT_TRUE(missing);
  EXPECT_TRUE((*missing)->current()->empty());
}

}  // namespace
}  // namespace millrace::cluster
