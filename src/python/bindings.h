// One function per binding file; module.cc calls them all to build millrace._core.
//
// Every entry from Python holds the GIL; whatever may wait lets go of it first (py::gil_scoped_release).
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>

#include "base/result.h"
#include "transfer/stores.h"

namespace millrace::python {

namespace py = pybind11;

void bind_dataset(py::module_& module);
void bind_decoding(py::module_& module);
void bind_names(py::module_& module);
void bind_planning(py::module_& module);
void bind_pls_plan(py::module_& module);
void bind_pls_store(py::module_& module);
void bind_reader(py::module_& module);
void bind_samples(py::module_& module);
void bind_writers(py::module_& module);

// An Error as the exception of millrace.errors that its code means, with shard, member and offset.
py::object make_exception(const Error& error, const std::string& shard);
[[noreturn]] void raise(const Error& error, const std::string& shard = {});

template <typename T>
T value_or_raise(Result<T> result, const std::string& shard = {}) {
  if (!result) raise(result.error(), shard);
  if constexpr (!std::is_void_v<T>) return result.take();
}

// The stores as the environment describes them now, shared while it does not change. A forked process gets
// its own: two of them on one connection would read each other's answers.
Result<std::shared_ptr<transfer::Stores>> shared_stores();

// Names from outside as Python's tarfile shows them: bytes that are no UTF-8 become lone surrogates.
py::str to_text(std::string_view text);

[[noreturn]] void raise_in_use();

// While one thread is inside without the GIL, another that enters gets an exception rather than half a
// sample.
class InUse {
 public:
  explicit InUse(bool& flag) : flag_(flag) {
    if (flag_) raise_in_use();
    flag_ = true;
  }
  ~InUse() { flag_ = false; }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 private:
  bool& flag_;
};

}  // namespace millrace::python
