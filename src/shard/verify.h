// verify and repair: what is wrong with a shard, and a new shard of what can be saved.
//
// Reading goes on behind damage at the next header whose checksum is right. Nothing is changed in place:
// repair writes a new file.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "shard/input.h"
#include "shard/output.h"

namespace millrace::shard {

enum class Fault {
  kTruncated,     // the archive ends too early
  kDamaged,       // bytes that are no header where one must be
  kDoubledField,  // a sample has a field twice
  kScatteredKey,  // a sample's members are not adjacent
  kMissingField,  // a sample lacks a field that was asked for
  kStaleIndex,    // the index beside the shard is damaged or belongs to other bytes
  kUnreadable,    // sparse members and the like
  kUndecodable,   // the content of a field is not what its name says
};
std::string_view fault_name(Fault fault);

struct Problem {
  Fault fault = Fault::kDamaged;
  uint64_t offset = 0;  // in the tar
  std::string text;
};

struct Verdict {
  std::string shard;
  uint64_t samples = 0;
  uint64_t members = 0;
  uint64_t loose_members = 0;
  uint64_t tar_bytes = 0;
  bool has_index = false;
  std::map<std::string, uint64_t> fields;  // how many samples have each
  uint64_t problem_count = 0;
  std::vector<Problem> problems;  // the first kMostProblems

  static constexpr size_t kMostProblems = 1000;
};

struct VerifyOptions {
  InputOptions input;
  std::vector<std::string> expected_fields;
  // Judges the content of a field; no function: content is not looked at. What it refuses is a problem, and
  // repair leaves out its sample.
  std::function<Status(std::string_view field, std::string_view bytes)> check_content;
};

Result<Verdict> verify_shard(const std::string& shard, const VerifyOptions& options);

struct RepairReport {
  uint64_t kept_samples = 0;
  uint64_t gathered_samples = 0;  // scattered members brought together
  std::vector<std::string> lost;  // one sentence each
};

Result<RepairReport> repair_shard(const std::string& shard, const std::string& repaired,
                                  const VerifyOptions& options);

}  // namespace millrace::shard
