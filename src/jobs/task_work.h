// One task of a job, done with the code of the tools. Blocks; one at a time in a process.
#pragma once

#include "base/result.h"
#include "exchange/rank_sort.h"
#include "jobs/worker_lines.h"
#include "transfer/stores.h"

namespace millrace::jobs {

struct Workplace {
  transfer::Stores& stores;
  const WorkSetup& setup;
};

// The job's files, where its commands find them (MILLRACE_FILES).
Status write_files(const WorkSetup& setup);
// What the task adds to the sums of its job.
Result<Sums> run_task(const Workplace& place, const WorkTask& task);
// How this job sorts: seed, field, limits, output.
Result<exchange::RankSortOptions> rank_options(const Workplace& place);

}  // namespace millrace::jobs
