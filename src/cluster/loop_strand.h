// LoopStrand: the strand of a real node: a net::Loop with a thread of its own.
//
// What is posted runs on that thread, one after another, beside the coroutines of the loop. post(), after(),
// now_us() and stop() may be called by any thread; random() only on the strand. Whoever's work is posted
// outlives stop(). After stop() nothing runs any more, and posts are destroyed unrun.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "base/random.h"
#include "cluster/peers.h"
#include "net/loop.h"

namespace millrace::cluster {

class LoopStrand final : public Strand {
 public:
  LoopStrand();  // runs at once
  ~LoopStrand() override { stop(); }

  void post(std::function<void()> work) override { inbox_->post(std::move(work)); }
  void after(uint64_t us, std::function<void()> work) override;
  uint64_t now_us() const override;
  uint64_t random() override { return random_.next(); }

  // Not on the strand itself. Returns when what runs has ended; the loop, its tasks and posts are gone then.
  void stop();
  bool is_stopped() const { return loop_ == nullptr; }

  // For sockets on the strand's thread; until stop().
  net::Loop& loop() { return *loop_; }

 private:
  std::unique_ptr<net::Loop> loop_;
  const std::shared_ptr<net::Inbox> inbox_;  // outlives the loop: others may post when it is gone
  Random random_;
  std::thread thread_;
};

}  // namespace millrace::cluster
