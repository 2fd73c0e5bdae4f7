// Runs a node's protocol on a loop's thread.
#include "cluster/loop_strand.h"

#include <cstring>

#include "base/assert.h"
#include "base/clock.h"
#include "net/digest.h"
#include "net/pause.h"

namespace millrace::cluster {

namespace {

uint64_t seed_from_kernel() {
  uint64_t seed = 0;
  std::memcpy(&seed, net::random_bytes(sizeof seed).data(), sizeof seed);
  return seed;
}

net::Task<void> run_at(net::Loop& loop, uint64_t at_us, std::function<void()> work) {
  net::Pause pause(loop, at_us, nullptr);
  co_await pause;
  work();
}

}  // namespace

LoopStrand::LoopStrand()
    : loop_(std::make_unique<net::Loop>()),
      inbox_(loop_->inbox()),
      random_(seed_from_kernel()),
      thread_([loop = loop_.get()] { loop->run(); }) {}

void LoopStrand::after(uint64_t us, std::function<void()> work) {
  const uint64_t at_us = now_us() + us;
  // stop() takes the loop away when its thread has ended: whatever runs there finds it.
  post([this, at_us, work = std::move(work)]() mutable {
    loop_->spawn(run_at(*loop_, at_us, std::move(work)));
  });
}

uint64_t LoopStrand::now_us() const {
  return steady_us();
}

void LoopStrand::stop() {
  if (!thread_.joinable()) return;
  MR_ASSERT(thread_.get_id() != std::this_thread::get_id());
  loop_->stop();
  thread_.join();
  loop_.reset();
}

}  // namespace millrace::cluster
