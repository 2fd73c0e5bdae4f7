// SampleIterator and FileIterator: a shard's samples or files as Python objects.
#include <pybind11/stl.h>

#include <cstring>
#include <map>
#include <unordered_set>

#include "python/batch.h"
#include "python/bindings.h"
#include "python/read_ahead.h"
#include "shard/input.h"
#include "shard/names.h"
#include "tar/key.h"

namespace millrace::python {

namespace {

constexpr uint64_t kDefaultMemory = 16 << 20;
// How long ^C may wait.
constexpr std::chrono::milliseconds kSignalPause{50};
// Field names are few; their objects are made once.
constexpr size_t kMostNames = 64;

class ShardFileInput final : public Input {
 public:
  ShardFileInput(std::shared_ptr<transfer::Stores> stores, std::unique_ptr<shard::ShardInput> shard)
      : stores_(std::move(stores)), shard_(std::move(shard)) {}
  tar::Window& window() override { return shard_->window(); }

 private:
  std::shared_ptr<transfer::Stores> stores_;
  std::unique_ptr<shard::ShardInput> shard_;
};

OpenInput open_shard(const std::string& name, uint64_t max_sample) {
  auto stores = value_or_raise(shared_stores(), name);
  return [name, max_sample, stores]() -> Result<std::unique_ptr<Input>> {
    shard::InputOptions options;
    options.max_sample = max_sample;
    options.stores = stores.get();
    const std::string plain = MR_TRY(shard::plain_name(name));
    auto shard = MR_TRY(shard::ShardInput::open(plain, options));
    return std::unique_ptr<Input>(new ShardFileInput(stores, std::move(shard)));
  };
}

// What a Python object with read(n) gives. Called without the GIL; an exception of read() is kept for the
// caller of next() and passes through the readers as an Error.
class PythonSource final : public tar::ByteSource {
 public:
  PythonSource(py::object stream, std::optional<py::error_already_set>& raised)
      : read_(stream.attr("read")), raised_(raised) {}
  ~PythonSource() override {
    py::gil_scoped_acquire held;
    read_ = {};
  }

  Result<size_t> read_some(std::span<std::byte> into) override {
    py::gil_scoped_acquire held;
    try {
      const py::object got = read_(into.size());
      char* bytes = nullptr;
      py::ssize_t size = 0;
      if (PyBytes_AsStringAndSize(got.ptr(), &bytes, &size) != 0) throw py::error_already_set();
      if (static_cast<size_t>(size) > into.size())
        return make_error(Code::kInvalid, "read({}) gave {} bytes", into.size(), size);
      std::memcpy(into.data(), bytes, static_cast<size_t>(size));
      return static_cast<size_t>(size);
    } catch (py::error_already_set& exception) {
      raised_.emplace(exception);
      return make_error(Code::kIo, "reading a stream failed");
    }
  }
  Result<uint64_t> skip(uint64_t bytes) override { return tar::skip_by_reading(*this, bytes); }

 private:
  py::object read_;
  std::optional<py::error_already_set>& raised_;
};

struct IteratorOptions {
  std::string name;
  py::object stream = py::none();  // read instead of the name
  BatchOptions batch;
  uint64_t memory = kDefaultMemory;
  uint64_t max_sample = tar::StreamWindow::kDefaultMostBytes;
};

// Turns batches into Python objects, one sample a call. Addresses are read ahead by a thread; Python
// streams are read when asked, by the thread that asks: no other can take its exceptions and signals.
class Iterator {
 public:
  explicit Iterator(IteratorOptions options) : name_(options.name) {
    live().insert(this);
    if (options.stream.is_none()) {
      BatchReader reader(name_, open_shard(name_, options.max_sample), std::move(options.batch));
      ahead_ = value_or_raise(ReadAhead::start(std::move(reader), options.memory), name_);
      return;
    }
    auto source = std::make_shared<std::unique_ptr<tar::ByteSource>>(
        std::make_unique<PythonSource>(options.stream, raised_));
    inline_ = std::make_shared<BatchReader>(
        name_,
        [this, source, max_sample = options.max_sample] {
          return make_stream_input(std::move(*source), name_, max_sample);
        },
        std::move(options.batch));
  }

  // The next sample's place in the batch; null at the end.
  const Batch::Sample* advance() {
    if (closed_) return nullptr;
    if (at_ == batch_.samples.size() && !fetch()) {
      close();
      return nullptr;
    }
    return &batch_.samples[at_++];
  }
  const Batch& batch() const { return batch_; }

  void close() {
    closed_ = true;
    // Making objects may run any Python, also this: the sample under way stays.
    if (!in_use_) batch_ = {};
    auto ahead = std::move(ahead_);
    auto reader = std::move(inline_);
    py::gil_scoped_release released;
    ahead.reset();
    reader.reset();
  }
  static void close_all() {
    for (Iterator* iterator : std::vector<Iterator*>(live().begin(), live().end())) iterator->close();
  }

  py::object fault(const Batch::Sample& sample) const {
    return sample.fault ? make_exception(batch_.faults[*sample.fault], name_) : py::object(py::none());
  }
  ~Iterator() {
    live().erase(this);
    close();
  }
  py::object last_fault = py::none();

 protected:
  bool in_use_ = false;

 private:
  // Used with the GIL alone; all are closed before the interpreter ends, so that no thread outlives the
  // libraries.
  static std::unordered_set<Iterator*>& live() {
    static auto& iterators = *new std::unordered_set<Iterator*>();
    return iterators;
  }

  bool fetch() {
    at_ = 0;
    return ahead_ ? fetch_ahead() : fetch_inline();
  }

  bool fetch_ahead() {
    // Own references: another thread may close this iterator while the GIL is free.
    const std::shared_ptr<ReadAhead> ahead = ahead_;
    Batch batch = std::move(batch_);
    batch_.clear();
    while (true) {
      Result<ReadAhead::Got> got;
      {
        py::gil_scoped_release released;
        got = ahead->next(batch, kSignalPause);
      }
      if (!got) fail(got.error());
      if (closed_) return false;
      if (*got == ReadAhead::Got::kBatch) {
        batch_ = std::move(batch);
        return true;
      }
      if (*got == ReadAhead::Got::kEnd) return false;
      if (PyErr_CheckSignals() != 0) {
        close();
        throw py::error_already_set();
      }
    }
  }

  bool fetch_inline() {
    const std::shared_ptr<BatchReader> reader = inline_;
    Batch batch = std::move(batch_);
    batch.clear();
    Result<bool> filled;
    {
      py::gil_scoped_release released;
      filled = reader->fill(batch);
    }
    if (!filled) fail(filled.error());
    if (closed_) return false;
    batch_ = std::move(batch);
    return *filled;
  }

  [[noreturn]] void fail(const Error& error) {
    const Error copy = error.copy();
    close();
    if (raised_) throw std::exchange(raised_, std::nullopt).value();
    raise(copy, name_);
  }

  const std::string name_;
  std::optional<py::error_already_set> raised_;
  std::shared_ptr<ReadAhead> ahead_;
  std::shared_ptr<BatchReader> inline_;
  Batch batch_;
  size_t at_ = 0;
  bool closed_ = false;
};

py::bytes to_bytes(std::string_view text) {
  return py::bytes(text.data(), text.size());
}

class SampleIterator : public Iterator {
 public:
  SampleIterator(IteratorOptions options, std::optional<py::dict> tags)
      : Iterator(std::move(options)), tags_(std::move(tags)) {}

  py::object next() {
    const InUse in_use(in_use_);
    last_fault = py::none();
    const Batch::Sample* sample = advance();
    if (sample == nullptr) throw py::stop_iteration();
    if (sample->fault) last_fault = fault(*sample);
    py::str key = to_text(batch().text(sample->key));
    py::dict fields;
    if (tags_) {
      fields[key_name_] = key;
      for (const auto& [name, value] : *tags_) fields[name] = value;
    }
    for (size_t at = sample->first_field; at < sample->first_field + sample->fields; ++at) {
      const Batch::Field& field = batch().fields[at];
      const py::bytes bytes = to_bytes(batch().text(field.bytes));
      if (PyDict_SetItem(fields.ptr(), name_object(batch().text(field.name)).ptr(), bytes.ptr()) != 0)
        throw py::error_already_set();
    }
    if (tags_) return std::move(fields);
    return py::make_tuple(std::move(key), std::move(fields));
  }

 private:
  py::str name_object(std::string_view name) {
    const auto found = names_.find(name);
    if (found != names_.end()) return found->second;
    py::str made = to_text(name);
    if (names_.size() < kMostNames) names_.emplace(name, made);
    return made;
  }

  const std::optional<py::dict> tags_;
  const py::str key_name_{"__key__"};
  std::map<std::string, py::str, std::less<>> names_;
};

class FileIterator : public Iterator {
 public:
  using Iterator::Iterator;

  py::tuple next() {
    const InUse in_use(in_use_);
    const Batch::Sample* file = advance();
    if (file == nullptr) throw py::stop_iteration();
    return py::make_tuple(to_text(batch().text(file->key)),
                          to_bytes(batch().text(batch().fields[file->first_field].bytes)));
  }
};

tar::OnFault parse_on_fault(const std::string& text) {
  if (text == "fail") return tar::OnFault::kFail;
  if (text == "mark") return tar::OnFault::kMark;
  raise(make_error(Code::kInvalid, "on_fault \"{}\" is neither fail nor mark", text));
}

}  // namespace

void bind_samples(py::module_& module) {
  py::class_<SampleIterator>(module, "SampleIterator",
                             "The samples of one shard, read ahead by a thread: (key, {field: bytes}).")
      .def(
          py::init([](std::string shard, py::object stream, const std::string& key_rule,
                      const std::string& on_fault, std::optional<std::unordered_set<std::string>> fields,
                      bool concatenated, uint64_t memory, uint64_t max_sample, std::optional<py::dict> tags) {
            IteratorOptions options;
            options.name = std::move(shard);
            options.stream = std::move(stream);
            options.batch.read.archives = concatenated ? tar::Archives::kConcatenated : tar::Archives::kOne;
            options.batch.read.group = {value_or_raise(tar::parse_key_rule(key_rule)),
                                        parse_on_fault(on_fault)};
            options.batch.fields = std::move(fields);
            options.memory = memory;
            options.max_sample = max_sample;
            return std::make_unique<SampleIterator>(std::move(options), std::move(tags));
          }),
          py::arg("shard"), py::kw_only(), py::arg("stream") = py::none(), py::arg("key_rule") = "first-dot",
          py::arg("on_fault") = "fail", py::arg("fields") = py::none(), py::arg("concatenated") = false,
          py::arg("memory") = kDefaultMemory, py::arg("max_sample") = tar::StreamWindow::kDefaultMostBytes,
          py::arg("tags") = py::none())
      .def("__iter__", [](py::object self) { return self; })
      .def("__next__", &SampleIterator::next)
      .def_readonly("fault", &SampleIterator::last_fault,
                    "What is wrong with the last sample, with on_fault=\"mark\".")
      .def("close", &SampleIterator::close, "Ends reading at once.")
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](SampleIterator& self, const py::args&) { self.close(); });

  py::class_<FileIterator>(module, "FileIterator",
                           "The regular files of one archive, read ahead by a thread: (name, bytes).")
      .def(py::init([](std::string shard, py::object stream, bool concatenated, uint64_t memory,
                       uint64_t max_sample) {
             IteratorOptions options;
             options.name = std::move(shard);
             options.stream = std::move(stream);
             options.batch.unit = Unit::kFile;
             options.batch.read.archives = concatenated ? tar::Archives::kConcatenated : tar::Archives::kOne;
             options.memory = memory;
             options.max_sample = max_sample;
             return std::make_unique<FileIterator>(std::move(options));
           }),
           py::arg("shard"), py::kw_only(), py::arg("stream") = py::none(), py::arg("concatenated") = false,
           py::arg("memory") = kDefaultMemory, py::arg("max_sample") = tar::StreamWindow::kDefaultMostBytes)
      .def("__iter__", [](py::object self) { return self; })
      .def("__next__", &FileIterator::next)
      .def("close", &FileIterator::close, "Ends reading at once.")
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](FileIterator& self, const py::args&) { self.close(); });

  py::module_::import("atexit").attr("register")(py::cpp_function(&Iterator::close_all));
}

}  // namespace millrace::python
