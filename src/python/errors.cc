// Turns errors into exceptions. The classes are Python's (millrace/errors.py), so that they can be subclassed
// and pickled.
#include "python/bindings.h"

namespace millrace::python {

py::str to_text(std::string_view text) {
  PyObject* decoded =
      PyUnicode_DecodeUTF8(text.data(), static_cast<py::ssize_t>(text.size()), "surrogateescape");
  if (decoded == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(decoded);
}

py::object make_exception(const Error& error, const std::string& shard) {
  py::object member = py::none();
  py::object offset = py::none();
  if (const auto& place = error.place()) {
    offset = py::int_(place->offset);
    if (!place->member.empty()) member = to_text(place->member);
  }
  const std::string& concerned = error.shard().empty() ? shard : error.shard();
  return py::module_::import("millrace.errors")
      .attr("make_error")(std::string(code_name(error.code())), to_text(error.message()),
                          to_text(error.hint()),
                          concerned.empty() ? py::object(py::none()) : to_text(concerned), member, offset,
                          error.stage().empty() ? py::object(py::none()) : to_text(error.stage()));
}

void raise_in_use() {
  const py::object kind = py::module_::import("millrace.errors").attr("InUseError");
  PyErr_SetObject(kind.ptr(), kind().ptr());
  throw py::error_already_set();
}

void raise(const Error& error, const std::string& shard) {
  const py::object exception = make_exception(error, shard);
  PyErr_SetObject(py::type::of(exception).ptr(), exception.ptr());
  throw py::error_already_set();
}

}  // namespace millrace::python
