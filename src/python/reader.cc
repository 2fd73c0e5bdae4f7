// ByteReader: an object or file as a Python stream, stored bytes as they are.
#include "python/bindings.h"
#include "shard/input.h"

namespace millrace::python {

namespace {

class ByteReader {
 public:
  explicit ByteReader(const std::string& name) : name_(name), stores_(value_or_raise(shared_stores(), name)) {
    Result<std::unique_ptr<shard::FileSource>> source;
    {
      py::gil_scoped_release released;
      source = shard::FileSource::open(name, stores_.get());
    }
    source_ = value_or_raise(std::move(source), name);
  }

  // Less than asked only at the end; a negative size means all.
  py::bytes read(int64_t size) {
    const InUse in_use(in_use_);
    if (!source_) throw py::value_error("the stream is closed");
    const uint64_t most = size < 0 ? UINT64_MAX : static_cast<uint64_t>(size);
    std::string bytes;
    size_t filled = 0;
    size_t last = 1;
    while (filled < most && last > 0) {
      bytes.resize(filled + std::min<uint64_t>(most - filled, kStep));
      Result<size_t> got;
      {
        py::gil_scoped_release released;
        got = source_->read_some(std::as_writable_bytes(std::span(bytes)).subspan(filled));
      }
      last = value_or_raise(std::move(got), name_);
      filled += last;
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
    return py::bytes(bytes.data(), filled);
  }
  void close() {
    const InUse in_use(in_use_);
    py::gil_scoped_release released;
    source_.reset();
  }

 private:
  static constexpr uint64_t kStep = 1 << 20;

  const std::string name_;
  const std::shared_ptr<transfer::Stores> stores_;
  std::unique_ptr<shard::FileSource> source_;
  bool in_use_ = false;
};

}  // namespace

void bind_reader(py::module_& module) {
  py::class_<ByteReader>(module, "ByteReader",
                         "The stored bytes of a file or an object; cut connections are mended.")
      .def(py::init<const std::string&>(), py::arg("name"))
      .def("read", &ByteReader::read, py::arg("size") = -1)
      .def("close", &ByteReader::close)
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](ByteReader& self, const py::args&) { self.close(); });
}

}  // namespace millrace::python
