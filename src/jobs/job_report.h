// What people and programs are told of a job: state, stages, progress, rate, time left, failures with logs.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "jobs/job_book.h"

namespace millrace::jobs {

enum class Detail { kSummary, kFull };  // full: also the description, what failed and the ends of logs

// Reads the tables of the job's stages; blocks on the registry.
Result<nlohmann::ordered_json> report_job(JobBook& book, const Job& job, Detail detail);

}  // namespace millrace::jobs
