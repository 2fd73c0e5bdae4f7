// A Group over MPI, through a module that is loaded when it is needed.
//
// A program that was not started by mpirun never loads MPI. Messages are made and tested by one thread at a
// time.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "exchange/group.h"

namespace millrace::exchange {

// Whether a launcher that speaks MPI started this process.
bool started_by_mpirun();

// All ranks that were started together. All of them call it. MPI is started where it is not yet, and ended
// with the process.
Result<std::unique_ptr<Group>> open_mpi_group();

// Over MPI where mpirun started us, otherwise a group of one.
Result<std::unique_ptr<Group>> open_group();

// Ends all ranks at once: for failures that the others cannot know of. Nothing where there is no MPI.
void abort_mpi(int code);

}  // namespace millrace::exchange
