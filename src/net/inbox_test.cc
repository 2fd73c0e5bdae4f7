// Posts that are taken, refused and given back.
#include "net/inbox.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <functional>
#include <memory>
#include <vector>

namespace millrace::net {
namespace {

bool is_readable(const Inbox& inbox) {
  pollfd wanted{inbox.descriptor(), POLLIN, 0};
  return ::poll(&wanted, 1, 0) == 1;
}

TEST(InboxTest, WakesUntilEverythingWasTakenInOrder) {
  Inbox inbox;
  EXPECT_FALSE(is_readable(inbox));
  std::vector<int> ran;
  for (int i = 0; i < 3; ++i) inbox.post([&ran, i] { ran.push_back(i); });
  EXPECT_TRUE(is_readable(inbox));
  for (const Inbox::Work& work : inbox.take()) work();
  EXPECT_EQ(ran, (std::vector<int>{0, 1, 2}));
  EXPECT_FALSE(is_readable(inbox));
  EXPECT_TRUE(inbox.take().empty());
}

TEST(InboxTest, ClosingGivesBackWhatHasNotRun) {
  Inbox inbox;
  inbox.post([] {});
  EXPECT_EQ(inbox.close().size(), 1U);
  EXPECT_TRUE(inbox.close().empty());
}

// Posts when it goes, as a lease does that others wait for.
struct PostsAtItsEnd {
  Inbox& inbox;
  int& ended;
  ~PostsAtItsEnd() {
    ++ended;
    inbox.post([] {});
  }
};

TEST(InboxTest, APostAfterCloseIsDestroyedAndMayPostAgainMeanwhile) {
  Inbox inbox;
  EXPECT_TRUE(inbox.close().empty());
  int ended = 0;
  inbox.post([guest = std::make_shared<PostsAtItsEnd>(inbox, ended)] { ADD_FAILURE() << guest->ended; });
  EXPECT_EQ(ended, 1);
  EXPECT_TRUE(inbox.take().empty());
}

}  // namespace
}  // namespace millrace::net
