// run_worker: the process in which a node runs tasks of jobs, one after the other.
//
// It takes orders on standard input and answers on standard output (jobs/worker_lines.h); what commands say
// goes to standard error. It uses the store like any client, and so do its commands not: they see a tar on
// standard input and nothing of the network. It ends with its input.
#pragma once

#include "base/result.h"
#include "transfer/stores.h"

namespace millrace::jobs {

Status run_worker(transfer::Stores& stores);

}  // namespace millrace::jobs
