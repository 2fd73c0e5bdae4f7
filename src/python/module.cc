// millrace._core: the engine as Python sees it. The package around it is in millrace/.
#include <malloc.h>

#include <cstdlib>

#include "python/bindings.h"

namespace {

// Batches of large fields are freed and made again all the time. glibc gives the memory back to the kernel in
// between, and taking it again, zeroed page by page, cost more than all the rest: 110 KB fields in batches of
// 64 came at 6.2 k/s, and at 15.6 k/s with these limits. What is free stays below the second of them.
void keep_freed_memory() {
  constexpr int kLargestFromHeap = 16 << 20;
  constexpr int kMostKept = 128 << 20;
  // Whoever sets limits of his own means them.
  for (const char* name :
       {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES"}) {
    if (std::getenv(name) != nullptr) return;
  }
  ::mallopt(M_MMAP_THRESHOLD, kLargestFromHeap);
  ::mallopt(M_TRIM_THRESHOLD, kMostKept);
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  using namespace millrace::python;
  module.doc() = "Millrace's engine: data sets, names, samples and writers. Use the package millrace.";
  module.attr("version") = MILLRACE_VERSION;
  keep_freed_memory();
  bind_dataset(module);
  bind_decoding(module);
  bind_names(module);
  bind_planning(module);
  bind_pls_plan(module);
  bind_pls_store(module);
  bind_reader(module);
  bind_samples(module);
  bind_writers(module);
}
