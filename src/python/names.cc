// Expands names of shards for Python.
#include <pybind11/stl.h>

#include "python/bindings.h"
#include "shard/names.h"

namespace millrace::python {

namespace {

std::vector<std::string> expand_names(const std::vector<std::string>& specifications) {
  const auto stores = value_or_raise(shared_stores());
  Result<std::vector<std::string>> names;
  {
    py::gil_scoped_release released;  // a glob in an address asks the store
    names = shard::expand_names(specifications, stores.get());
  }
  return value_or_raise(std::move(names));
}

}  // namespace

void bind_names(py::module_& module) {
  module.def(
      "expand_names", [](const std::string& specification) { return expand_names({specification}); },
      py::arg("specification"),
      "The shards that a name means: ranges {000..123}, lists {a,b}, counts @000124, unions a::b, globs.");
  module.def("expand_names", &expand_names, py::arg("specifications"));
}

}  // namespace millrace::python
