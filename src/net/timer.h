// Timer: something that is due at a time. TimerHeap: all timers of one Loop.
//
// Times are steady_us(). Arming costs a few swaps in a binary heap, disarming the same; a loop without timers
// pays one comparison a round. Everything here belongs to the loop's thread. The heap outlives its timers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::net {

class TimerHeap;

class Timer {
 public:
  // Without a heap the timer is never armed: for objects that also exist outside of loops.
  explicit Timer(TimerHeap* heap) : heap_(heap) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 protected:
  ~Timer() { disarm(); }
  void arm(uint64_t at_us);  // an armed timer moves to the new time
  void disarm();
  bool is_armed() const { return place_ != kNone; }
  uint64_t armed_us() const;  // UINT64_MAX where it is not

 private:
  friend class TimerHeap;
  static constexpr size_t kNone = SIZE_MAX;
  // Called once, disarmed. May arm the timer again or destroy it.
  virtual void due() = 0;

  TimerHeap* const heap_;
  size_t place_ = kNone;
};

class TimerHeap {
 public:
  uint64_t first_us() const { return heap_.empty() ? UINT64_MAX : heap_.front().at_us; }
  void fire(uint64_t now_us);

 private:
  friend class Timer;
  struct Entry {
    uint64_t at_us;
    Timer* timer;
  };
  void put(size_t place, Entry entry);
  void sift_up(size_t place);
  void sift_down(size_t place);
  void remove(size_t place);

  std::vector<Entry> heap_;
};

}  // namespace millrace::net
