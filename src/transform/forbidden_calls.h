// The system calls that a sandbox does not have, as a filter for the kernel (seccomp).
//
// Those that take memory which no limit of a process counts (memfd_create, System V shared memory, huge files
// of io_uring), that trace, or that reach into the kernel where programs on samples have no business. They
// fail with EPERM.
#pragma once

#include <string>

namespace millrace::transform {

// Instructions as bubblewrap takes them; empty for a processor that this file does not know.
std::string forbidden_calls();

}  // namespace millrace::transform
