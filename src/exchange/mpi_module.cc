// libmillrace_mpi.so: the functions of exchange/mpi_calls.h, by MPI. The only file that includes mpi.h.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdio>
#include <cstdlib>

#include "exchange/mpi_calls.h"

namespace {

// The text of the last failure; one thread at a time uses MPI.
char text[MPI_MAX_ERROR_STRING + 64];

const char* failure(int code) {
  if (code == MPI_SUCCESS) return nullptr;
  int size = 0;
  if (MPI_Error_string(code, text, &size) != MPI_SUCCESS)
    std::snprintf(text, sizeof text, "MPI error %d", code);
  return text;
}

struct Communicator {
  MPI_Comm comm;
};
struct Pending {
  MPI_Request request;
};

MPI_Comm comm_of(void* group) {
  return static_cast<Communicator*>(group)->comm;
}

// Errors are returned to whoever asked, not the end of the process.
const char* wrap(MPI_Comm comm, void** group) {
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  *group = new Communicator{comm};
  return nullptr;
}

void finish_at_exit() {
  int finished = 0;
  MPI_Finalized(&finished);
  if (finished == 0) MPI_Finalize();
}

const char* start() {
  int started = 0;
  MPI_Initialized(&started);
  int level = MPI_THREAD_SINGLE;
  if (started == 0) {
    const char* failed = failure(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level));
    if (failed != nullptr) return failed;
    std::atexit(finish_at_exit);
  } else {
    MPI_Query_thread(&level);
  }
  // The exchange runs in a thread of its own; with SERIALIZED the program must leave MPI alone meanwhile.
  if (level < MPI_THREAD_SERIALIZED)
    return "MPI was started without support for threads (MPI_THREAD_MULTIPLE)";
  return nullptr;
}

const char* world(void** group) {
  MPI_Comm comm;
  if (const char* failed = failure(MPI_Comm_dup(MPI_COMM_WORLD, &comm))) return failed;
  return wrap(comm, group);
}

void release(void* group) {
  int finished = 0;
  MPI_Finalized(&finished);
  if (finished == 0) MPI_Comm_free(&static_cast<Communicator*>(group)->comm);
  delete static_cast<Communicator*>(group);
}

uint32_t rank(void* group) {
  int value = 0;
  MPI_Comm_rank(comm_of(group), &value);
  return static_cast<uint32_t>(value);
}

uint32_t size(void* group) {
  int value = 0;
  MPI_Comm_size(comm_of(group), &value);
  return static_cast<uint32_t>(value);
}

const char* send(void* group, MillraceMpiPeer to, const void* bytes, size_t count, void** request) {
  auto* pending = new Pending{};
  *request = pending;
  return failure(MPI_Isend(bytes, static_cast<int>(count), MPI_BYTE, static_cast<int>(to.rank), to.tag,
                           comm_of(group), &pending->request));
}

const char* receive(void* group, MillraceMpiPeer from, void* into, size_t count, void** request) {
  auto* pending = new Pending{};
  *request = pending;
  return failure(MPI_Irecv(into, static_cast<int>(count), MPI_BYTE, static_cast<int>(from.rank), from.tag,
                           comm_of(group), &pending->request));
}

const char* test(void* request, int* done) {
  auto* pending = static_cast<Pending*>(request);
  const char* failed = failure(MPI_Test(&pending->request, done, MPI_STATUS_IGNORE));
  if (failed != nullptr || *done != 0) delete pending;
  return failed;
}

const char* split(void* group, uint32_t colour, void** part) {
  MPI_Comm comm;
  const char* failed =
      failure(MPI_Comm_split(comm_of(group), static_cast<int>(colour), static_cast<int>(rank(group)), &comm));
  return failed != nullptr ? failed : wrap(comm, part);
}

// The lowest rank of those that share this machine's memory.
const char* node(void* group, uint32_t* number) {
  MPI_Comm shared;
  const char* failed =
      failure(MPI_Comm_split_type(comm_of(group), MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared));
  if (failed != nullptr) return failed;
  *number = rank(group);
  failed = failure(MPI_Bcast(number, 1, MPI_UINT32_T, 0, shared));
  MPI_Comm_free(&shared);
  return failed;
}

void abort_all(int code) {
  MPI_Abort(MPI_COMM_WORLD, code);
}

const MillraceMpiCalls kCalls = {kMpiCallsVersion, start, world, release, rank,     size, send,
                                 receive,          test,  split, node,    abort_all};

}  // namespace

extern "C" __attribute__((visibility("default"))) const MillraceMpiCalls* millrace_mpi_module(void) {
  return &kCalls;
}
