// Says where a data set should live, as `millrace plan place` does, and how much memory is free for it.
#include "base/memory_info.h"
#include "plan/place.h"
#include "python/bindings.h"

namespace millrace::python {

void bind_planning(py::module_& module) {
  module.def("available_memory", &available_memory,
             "Bytes that the system could still give, page cache included.");
  module.def(
      "place",
      [](uint64_t dataset, uint64_t nodes, uint64_t gpu_memory, uint64_t ram, uint64_t local) {
        if (nodes == 0) throw py::value_error("nodes must be at least 1");
        const plan::Placement placement = plan::place({dataset, nodes, gpu_memory, ram, local});
        return py::make_tuple(std::string(plan::home_name(placement.home)), placement.chosen().reason);
      },
      py::arg("dataset"), py::kw_only(), py::arg("nodes") = plan::PlaceRequest().nodes,
      py::arg("gpu_memory") = plan::PlaceRequest().gpu_memory, py::arg("ram") = plan::PlaceRequest().ram,
      py::arg("local") = plan::PlaceRequest().local,
      "Where a data set of so many bytes should live, and why: gpu, ram, local, local-replicated, "
      "local-partitioned or distributed. The other figures are what can be spared: of one GPU, and of the "
      "memory and "
      "the drives of one node.");
}

}  // namespace millrace::python
