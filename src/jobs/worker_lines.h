// What a node and its worker processes say to each other: one line of JSON at a time.
//
//   node ─► worker   {"setup": …}   which job and stage, and where to work
//                    {"task": …}    one task; answered by a result
//                    {"listen": …}  to take part as a rank; answered by {"port": N}
//                    {"ranks": …}   all ranks listen: to begin; answered by a result
//   worker ─► node   {"port": N}, {"result": …}
//
// Values and their encodings; strict on both sides.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "jobs/description.h"
#include "jobs/task_table.h"
#include "shard/sandbox.h"

namespace millrace::jobs {

inline constexpr size_t kMostLineBytes = 256 << 20;  // names of all inputs of a sort

struct WorkSetup {
  std::string job;
  std::string stage;
  Description description;
  std::string directory;  // exists, for this worker alone
  std::string program;    // millrace, to run in sandboxes
  shard::Confinement confinement = shard::Confinement::kBubblewrap;
  std::vector<std::string> readable;  // for commands
  uint64_t sorted_shards = 0;         // of a reduce stage: how many
};
struct WorkTask {
  uint64_t number = 0;
  std::string input;
  std::string output;
};
struct WorkListen {
  std::string host;
};
struct WorkRanks {
  uint32_t rank = 0;
  std::vector<std::string> addresses;
  std::string secret;
  std::vector<std::string> inputs;
};
using WorkOrder = std::variant<WorkSetup, WorkTask, WorkListen, WorkRanks>;
std::string encode(const WorkOrder& order);
Result<WorkOrder> decode_order(std::string_view line);

// How a task went.
enum class Outcome {
  kDone,
  kFailed,    // trying again may help
  kHopeless,  // it would fail again
  kCut,       // a rank lost another one
};
struct WorkResult {
  Outcome outcome = Outcome::kDone;
  Sums sums;
  std::string message;  // of a failure, with its hint
};
struct WorkPort {
  uint16_t port = 0;
};
using WorkAnswer = std::variant<WorkResult, WorkPort>;
std::string encode(const WorkAnswer& answer);
Result<WorkAnswer> decode_answer(std::string_view line);

}  // namespace millrace::jobs
