// The file that keeps the keys.
#include "node/keys.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/testing/temporary_directory.h"

namespace millrace::node {
namespace {

using gateway::Key;
using gateway::KeyRing;
using gateway::make_key;
using gateway::Right;
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
  ASSERT_TRUE(save_keys(path, ring));
  EXPECT_EQ(mode_of(path), 0600U);
  auto back = load_keys(path);
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
  const auto ring = load_keys(directory.path("none"));
  ASSERT_TRUE(ring);
  EXPECT_TRUE(ring->empty());
}

TEST(KeyRingTest, AFileThatOthersCanReadIsRefused) {
  const TemporaryDirectory directory;
  const std::string path = directory.path("keys.json");
  KeyRing ring;
  ring.add(make_key());
  ASSERT_TRUE(save_keys(path, ring));
  for (const mode_t mode : {0640U, 0604U, 0620U, 0602U, 0601U, 0666U}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const auto loaded = load_keys(path);
    ASSERT_FALSE(loaded) << mode;
    EXPECT_EQ(loaded.error().code(), Code::kDenied) << mode;
    EXPECT_NE(loaded.error().hint().find("chmod 600"), std::string::npos);
  }
  ASSERT_EQ(::chmod(path.c_str(), 0400), 0);
  EXPECT_TRUE(load_keys(path));
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
    const auto loaded = load_keys(path);
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
}  // namespace millrace::node
