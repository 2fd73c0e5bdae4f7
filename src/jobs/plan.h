// What a job's description means as tasks: which objects go in, and where each result goes.
//
// Looks into the store; any thread, blocks.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "jobs/job_book.h"
#include "transfer/stores.h"

namespace millrace::jobs {

// Of the user agent of requests that jobs make, so that a node can tell them from those of clients.
inline constexpr std::string_view kUserAgent = "millrace-job";

struct Plan {
  Stage stage;  // the first
  std::vector<Task> tasks;
};
// `id` names what is kept between the stages. kInvalid where two inputs would have the same output.
Result<Plan> plan_job(transfer::Stores& stores, const Description& description, const std::string& id);

// The stage behind one that is done; nothing: the job is done. `sums` are those of the stage that is done.
struct NextStage {
  Stage stage;
  std::vector<Task> tasks;
};
Result<std::vector<NextStage>> plan_next(const Job& job, const Sums& sums);

// Of jobs with several stages: where the records between them are; removed with the last stage.
std::string kept_prefix(const Description& description, const std::string& id);
std::string mapped_name(const Description& description, const std::string& id, uint64_t number);
std::string sorted_pattern(const Description& description, const std::string& id);

// Whether an object with this key of the output's bucket can be an output of the job.
bool is_output(const Description& description, std::string_view key);

}  // namespace millrace::jobs
