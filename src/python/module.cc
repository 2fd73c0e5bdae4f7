// millrace._core: the engine as Python sees it. The package around it is in millrace/.
#include "python/bindings.h"

PYBIND11_MODULE(_core, module) {
  using namespace millrace::python;
  module.doc() = "Millrace's engine: names, samples and writers. Use the package millrace.";
  module.attr("version") = MILLRACE_VERSION;
  bind_dataset(module);
  bind_names(module);
  bind_reader(module);
  bind_samples(module);
  bind_writers(module);
}
