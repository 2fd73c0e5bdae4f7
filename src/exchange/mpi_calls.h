// MpiCalls: MPI as a table of functions, so that only a small module of its own is linked against it.
//
// The binary and the Python module load libmillrace_mpi.so when they were started by mpirun, and run without
// MPI being installed otherwise. Plain C across the seam. Functions that can fail give null, or a text that
// stays valid until the next call.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct MillraceMpiPeer {
  uint32_t rank;
  int tag;
};

struct MillraceMpiCalls {
  uint32_t version;
  const char* (*start)(void);  // joins a started MPI, or starts it
  const char* (*world)(void** group);
  void (*release)(void* group);
  uint32_t (*rank)(void* group);
  uint32_t (*size)(void* group);
  const char* (*send)(void* group, MillraceMpiPeer to, const void* bytes, size_t size, void** request);
  const char* (*receive)(void* group, MillraceMpiPeer from, void* into, size_t size, void** request);
  const char* (*test)(void* request, int* done);
  const char* (*split)(void* group, uint32_t colour, void** part);
  const char* (*node)(void* group, uint32_t* node);
  void (*abort)(int code);
};

// The one function of the module.
typedef const MillraceMpiCalls* (*MillraceMpiModule)(void);
}

inline constexpr uint32_t kMpiCallsVersion = 2;
inline constexpr const char* kMpiModuleFunction = "millrace_mpi_module";
inline constexpr const char* kMpiModuleFile = "libmillrace_mpi.so";
