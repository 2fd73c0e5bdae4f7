// ShardFile and ShardWriter: samples from Python into shards that appear whole, each with its index.
#include <pybind11/stl.h>
#include <unistd.h>

#include "python/bindings.h"
#include "shard/names.h"
#include "shard/output.h"
#include "shard/writer.h"
#include "tar/key.h"

namespace millrace::python {

namespace {

// A sample's key and the memory of its fields, held while the GIL is not.
class HeldSample {
 public:
  HeldSample(const std::string& key, const py::dict& fields) : key_(key) {
    names_.reserve(fields.size());
    views_.reserve(fields.size());
    for (const auto& [name, value] : fields) {
      names_.push_back(name.cast<std::string>());
      Py_buffer view;
      if (PyObject_GetBuffer(value.ptr(), &view, PyBUF_SIMPLE) != 0) {
        release();
        throw py::error_already_set();
      }
      views_.push_back(view);
    }
    for (size_t at = 0; at < names_.size(); ++at) {
      fields_.push_back(
          {names_[at], {static_cast<const char*>(views_[at].buf), static_cast<size_t>(views_[at].len)}});
    }
  }
  ~HeldSample() { release(); }
  HeldSample(const HeldSample&) = delete;
  HeldSample& operator=(const HeldSample&) = delete;

  const std::string& key() const { return key_; }
  std::span<const shard::NewField> fields() const { return fields_; }

 private:
  void release() {
    for (Py_buffer& view : views_) PyBuffer_Release(&view);
    views_.clear();
  }

  const std::string key_;
  std::vector<std::string> names_;
  std::vector<Py_buffer> views_;
  std::vector<shard::NewField> fields_;
};

shard::OutputOptions output_options(const std::optional<std::string>& compression, bool index,
                                    const std::string& key_rule, transfer::Stores* stores) {
  shard::OutputOptions options;
  if (compression) options.compression = value_or_raise(tar::parse_output_compression(*compression));
  options.index = index ? shard::IndexPolicy::kBeside : shard::IndexPolicy::kNone;
  options.key_rule = value_or_raise(tar::parse_key_rule(key_rule));
  options.stores = stores;
  return options;
}

py::dict to_dict(const shard::ShardSummary& summary) {
  py::dict facts;
  facts["path"] = to_text(summary.path);
  facts["samples"] = summary.samples;
  facts["tar_bytes"] = summary.tar_bytes;
  facts["stored_bytes"] = summary.stored_bytes;
  facts["repeated_keys"] = summary.repeated_keys;
  return facts;
}

// What both writers share: one user at a time, nothing after the end, the GIL let go while bytes move.
template <typename Writer>
class Guarded {
 public:
  // A forked process has neither the threads of the writer nor a say in what becomes of its shard.
  ~Guarded() {
    if (::getpid() != process_) static_cast<void>(writer_.release());
  }
  void add(const std::string& key, const py::dict& fields) {
    const HeldSample sample(key, fields);
    value_or_raise(without_gil([&] { return writer().add(sample.key(), sample.fields()); }), name_);
  }
  // What was not finished leaves no trace.
  void abandon() {
    const InUse in_use(in_use_);
    py::gil_scoped_release released;
    writer_.reset();
  }

 protected:
  template <typename Call>
  auto without_gil(Call call) {
    const InUse in_use(in_use_);
    if (!writer_) raise(make_error(Code::kInvalid, "{} is closed already", name_), name_);
    py::gil_scoped_release released;
    return call();
  }
  Writer& writer() { return *writer_; }
  const Writer* find_writer() const { return writer_.get(); }

  std::string name_;
  std::shared_ptr<transfer::Stores> stores_;  // before the writer, which uses it
  std::unique_ptr<Writer> writer_;

 private:
  const pid_t process_ = ::getpid();
  bool in_use_ = false;
};

class ShardFile : public Guarded<shard::ShardFile> {
 public:
  ShardFile(const std::string& path, const std::optional<std::string>& compression, bool index,
            const std::string& key_rule) {
    name_ = value_or_raise(shard::plain_name(path));
    stores_ = value_or_raise(shared_stores());
    const auto options = output_options(compression, index, key_rule, stores_.get());
    Result<std::unique_ptr<shard::ShardFile>> file;
    {
      py::gil_scoped_release released;
      file = shard::ShardFile::create(name_, options);
    }
    writer_ = value_or_raise(std::move(file), name_);
  }
  py::dict finish() {
    auto summary = without_gil([&] {
      auto finished = writer().finish();
      writer_.reset();
      return finished;
    });
    return to_dict(value_or_raise(std::move(summary), name_));
  }
  uint64_t samples() const { return find_writer() != nullptr ? find_writer()->samples() : 0; }
  uint64_t tar_bytes() const { return find_writer() != nullptr ? find_writer()->tar_bytes() : 0; }
};

class ShardWriter : public Guarded<shard::ShardWriter> {
 public:
  ShardWriter(const std::string& pattern, shard::ShardLimits limits,
              const std::optional<std::string>& compression, bool index, const std::string& key_rule) {
    name_ = pattern;
    stores_ = value_or_raise(shared_stores());
    shard::OutputName name = value_or_raise(shard::OutputName::parse(pattern));
    const shard::ShardLimits usual;
    const bool limited = limits.max_bytes != usual.max_bytes || limits.max_samples != usual.max_samples;
    if (limited && !name.numbered()) {
      raise(make_error(Code::kInvalid, "max_bytes and max_samples need a numbered name, and {} has no %06d",
                       pattern),
            pattern);
    }
    writer_ = std::make_unique<shard::ShardWriter>(
        std::move(name), limits, output_options(compression, index, key_rule, stores_.get()));
  }
  py::list finish() {
    auto summaries = without_gil([&] {
      auto finished = writer().finish();
      writer_.reset();
      return finished;
    });
    py::list shards;
    for (const shard::ShardSummary& summary : value_or_raise(std::move(summaries), name_))
      shards.append(to_dict(summary));
    return shards;
  }
};

template <typename Writer>
void bind_common(py::class_<Writer>& writer) {
  writer.def("add", &Writer::add, py::arg("key"), py::arg("fields"), "One sample: fields are bytes by name.")
      .def("finish", &Writer::finish, "Flushes, gives the shard its name, and says what was written.")
      .def("abandon", &Writer::abandon, "Ends without a trace of what is not finished.")
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](Writer& self, const py::object& kind, const py::args&) {
        if (kind.is_none()) {
          self.finish();
        } else {
          self.abandon();
        }
      });
}

}  // namespace

void bind_writers(py::module_& module) {
  py::class_<ShardFile> file(module, "ShardFile", "One shard, visible only when it is whole.");
  file.def(py::init<const std::string&, const std::optional<std::string>&, bool, const std::string&>(),
           py::arg("path"), py::kw_only(), py::arg("compression") = py::none(), py::arg("index") = true,
           py::arg("key_rule") = "first-dot")
      .def_property_readonly("samples", &ShardFile::samples)
      .def_property_readonly("tar_bytes", &ShardFile::tar_bytes);
  bind_common(file);

  constexpr shard::ShardLimits kLimits;
  py::class_<ShardWriter> writer(module, "ShardWriter",
                                 "Samples to numbered shards; a full one is flushed while the next fills.");
  writer.def(
      py::init([](const std::string& pattern, uint64_t max_bytes, uint64_t max_samples,
                  const std::optional<std::string>& compression, bool index, const std::string& key_rule) {
        return std::make_unique<ShardWriter>(pattern, shard::ShardLimits{max_bytes, max_samples}, compression,
                                             index, key_rule);
      }),
      py::arg("pattern"), py::kw_only(), py::arg("max_bytes") = kLimits.max_bytes,
      py::arg("max_samples") = kLimits.max_samples, py::arg("compression") = py::none(),
      py::arg("index") = true, py::arg("key_rule") = "first-dot");
  bind_common(writer);
}

}  // namespace millrace::python
