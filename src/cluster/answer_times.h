// AnswerTimes: how soon others answer (nodes, or drives), and which of them are grey: they serve, and yet
// answer so late or so rarely that others are asked first.
//
// One is *silent* while a question waits for long, or the last one failed lately; *slow* while its answers
// take many times as long as those of most others. Both are a matter of order only: whoever has the only
// bytes is asked all the same. So a wrong guess costs little, and an answer is enough to come back.
//
// Times are the caller's, steady. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace millrace::cluster {

class AnswerTimes {
 public:
  struct Limits {
    uint64_t silent_us = 500'000;     // without any answer while questions wait
    uint64_t least_slow_us = 20'000;  // quicker answers are never slow
  };
  static constexpr uint64_t kFailingUs = 5'000'000;  // a failure is believed for so long
  static constexpr double kManyTimes = 5;            // the time of most others
  static constexpr uint64_t kProbeUs = 1'000'000;    // between two questions that only find out

  explicit AnswerTimes(Limits limits) : limits_(limits) {}

  // A question leaves. end() follows once, whatever comes of it.
  void begin(uint64_t whom, uint64_t now_us);
  enum class Outcome : uint8_t { kAnswered, kFailed };
  void end(uint64_t whom, uint64_t began_us, uint64_t now_us, Outcome outcome);

  enum class Standing : uint8_t { kPrompt, kSlow, kSilent };
  Standing standing(uint64_t whom, uint64_t now_us) const;
  bool is_grey(uint64_t whom, uint64_t now_us) const { return standing(whom, now_us) != Standing::kPrompt; }
  // Whether to ask a grey one now, only to find out: true once a second.
  bool take_probe(uint64_t whom, uint64_t now_us);

  struct Reading {
    uint64_t whom = 0;
    Standing standing = Standing::kPrompt;
    uint64_t mean_us = 0;     // the last few answers count most; 0: there was none
    uint64_t typical_us = 0;  // of all
    uint64_t silent_us = 0;   // since when a question waits, or since the last failure
  };
  Reading read(uint64_t whom, uint64_t now_us) const;

 private:
  static constexpr double kNewestShare = 1.0 / 4;
  static constexpr uint64_t kTypicalEveryUs = 200'000;

  struct Entry {
    uint64_t pending = 0;
    uint64_t since_us = 0;   // nothing was heard since, while something is pending
    uint64_t failed_us = 0;  // 0: the last question was answered
    double mean_us = 0;
    uint64_t probed_us = 0;
  };
  Standing judge(const Entry& entry, uint64_t now_us) const MR_REQUIRES(mutex_);
  void find_typical(uint64_t now_us) MR_REQUIRES(mutex_);

  const Limits limits_;
  mutable Mutex mutex_;
  std::map<uint64_t, Entry> entries_ MR_GUARDED_BY(mutex_);
  double typical_us_ MR_GUARDED_BY(mutex_) = 0;  // the lower median of the means
  uint64_t typical_at_us_ MR_GUARDED_BY(mutex_) = 0;
};

// Why one is grey, for people: "it answers in 340 ms, most others in 2 ms"; empty: it is not.
std::string why_grey(const AnswerTimes::Reading& reading);

}  // namespace millrace::cluster
