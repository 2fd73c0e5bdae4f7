// size: how many of each part keep so many GPUs busy.
//
// A count is the ceiling of demand over unit rate, exactly. The result is also a plan (TOML) that check()
// finds to keep the GPUs 100 % busy, and that with one part less of any kind it does not.
#pragma once

#include <string>
#include <vector>

#include "plan/catalogue.h"
#include "plan/installation.h"

namespace millrace::plan {

struct SizeRequest {
  uint64_t gpus = 1;
  Part gpu;
  Part drive;
  Part core;                 // no name: nothing is decoded
  Part interface;            // no name: the drives are in the GPU machine
  Part link;                 // to one GPU; no name: no limit
  Rational compression = 1;  // decoded bytes of one stored byte
  Access access = Access::kSequential;
  uint64_t dataset = 0;  // stored bytes; 0: only the rate counts
  Redundancy redundancy;
};

struct Size {
  uint64_t gpus = 0;
  uint64_t drives = 0;
  uint64_t drives_for_rate = 0;
  uint64_t drives_for_room = 0;
  uint64_t interfaces = 0;
  uint64_t cores = 0;
  uint64_t links = 0;
  uint64_t store_machines = 0;  // 0: not known how many drives one holds
  Rational stored;              // bytes a second read
  Rational decoded;             // bytes a second into the GPUs, which is also what they compute on
  Rational drive_rate;          // all drives together
  Rational price = 0;           // of the drives; 0: not known
};

Result<Size> size_for(const SizeRequest& request);

// The same as a plan's text.
std::string plan_text(const SizeRequest& request, const Size& size);

}  // namespace millrace::plan
