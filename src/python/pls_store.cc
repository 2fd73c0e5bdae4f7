// Sample stores, their groups and exchanges for Python: samples as views of the mapped segments.
#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <filesystem>

#include "exchange/exchange.h"
#include "exchange/ingest.h"
#include "exchange/local_ranks.h"
#include "exchange/mpi_group.h"
#include "exchange/sample_store.h"
#include "python/bindings.h"
#include "shard/names.h"
#include "tar/sample.h"

namespace millrace::python {

namespace {

using exchange::Exchange;
using exchange::Group;
using exchange::SampleStore;
using SharedStore = std::shared_ptr<const SampleStore>;

// A group that Python shares with exchanges.
struct GroupHandle {
  std::shared_ptr<Group> group;
};

std::vector<py::bytes> gather(const GroupHandle& own, const std::string& said, double timeout_s) {
  Result<std::vector<std::string>> all;
  {
    const py::gil_scoped_release release;
    all = exchange::gather_all(*own.group, said,
                               {static_cast<uint64_t>(timeout_s * 1000), "waiting for all ranks"});
  }
  std::vector<py::bytes> found;
  for (const std::string& one : value_or_raise(std::move(all))) found.emplace_back(one);
  return found;
}

GroupHandle split(const GroupHandle& own, uint32_t colour) {
  Result<std::unique_ptr<Group>> part;
  {
    const py::gil_scoped_release release;
    part = own.group->split(colour);
  }
  return {value_or_raise(std::move(part))};
}

// Bytes of the mapping, read-only; the store lives as long as the view.
py::object view_of(const SharedStore& store, std::string_view bytes) {
  const py::capsule owner(new SharedStore(store), [](void* held) { delete static_cast<SharedStore*>(held); });
  py::array_t<uint8_t> array(static_cast<py::ssize_t>(bytes.size()),
                             reinterpret_cast<const uint8_t*>(bytes.data()), owner);
  array.attr("flags").attr("writeable") = false;
  return py::memoryview(array);
}

enum class Checked { kNo, kYes };

// (id, label, key, {field: bytes}); the key without the number in front.
py::tuple sample_of(const SharedStore& store, size_t slot, Checked checked) {
  if (slot >= store->size()) throw py::index_error("there is no such slot");
  if (checked == Checked::kYes) value_or_raise(store->check(slot), store->directory());
  tar::SampleParser parser(tar::KeyRule::kFirstDot);
  const auto sample = parser.parse(store->blocks(slot));
  if (!sample) raise(sample.error(), store->directory());
  py::dict fields;
  for (const tar::Field& field : (*sample)->fields)
    fields[to_text(field.field)] = view_of(store, field.bytes);
  const std::string_view key = (*sample)->key;
  const exchange::Record& record = store->manifest().records[slot];
  const int64_t label = record.label == exchange::kNoLabel ? -1 : int64_t{record.label};
  return py::make_tuple(record.id, label, to_text(key.substr(key.find('/') + 1)), fields);
}

template <typename T, typename Of>
py::array_t<T> column(const SampleStore& store, Of of) {
  py::array_t<T> values(static_cast<py::ssize_t>(store.size()));
  T* to = values.mutable_data();
  for (const exchange::Record& record : store.manifest().records) *to++ = static_cast<T>(of(record));
  return values;
}

exchange::ExchangeOptions options_from(const py::dict& options) {
  exchange::ExchangeOptions found;
  const auto text = [&](const char* name) { return options[name].cast<std::string>(); };
  found.plan.policy = value_or_raise(exchange::parse_policy(text("policy")));
  found.plan.select = value_or_raise(exchange::parse_select(text("select")));
  found.plan.seed = options["seed"].cast<uint64_t>();
  found.plan.partners = options["partners"].cast<uint32_t>();
  found.fraction = value_or_raise(exchange::FractionSchedule::parse(text("fraction")));
  found.timeout_ms = static_cast<uint64_t>(options["timeout"].cast<double>() * 1000);
  found.limits.slack = options["slack"].cast<uint64_t>();
  if (found.plan.select != exchange::Select::kCallback) return found;
  // Called by the exchange's own thread. It is held by a pointer that is only let go of with the GIL.
  const auto choose = std::shared_ptr<py::object>(new py::object(options["choose"]), [](py::object* held) {
    const py::gil_scoped_acquire acquire;
    delete held;
  });
  found.plan.choose = [choose](std::span<const exchange::Resident> residents, uint64_t count) {
    const py::gil_scoped_acquire acquire;
    py::array_t<int64_t> ids(static_cast<py::ssize_t>(residents.size()));
    py::array_t<int64_t> labels(static_cast<py::ssize_t>(residents.size()));
    for (size_t i = 0; i < residents.size(); ++i) {
      ids.mutable_data()[i] = static_cast<int64_t>(residents[i].id);
      labels.mutable_data()[i] =
          residents[i].label == exchange::kNoLabel ? -1 : static_cast<int64_t>(residents[i].label);
    }
    try {
      return (*choose)(ids, labels, count).cast<std::vector<uint32_t>>();
    } catch (py::error_already_set& error) {
      // Nobody up this thread's stack could take it; the plan refuses that nothing was chosen.
      error.discard_as_unraisable("the function that chooses samples");
    } catch (const std::exception&) {  // it gave something that is no list of numbers
    }
    return std::vector<uint32_t>();
  };
  return found;
}

class ExchangeHandle {
 public:
  ExchangeHandle(const std::string& directory, const GroupHandle& group, const py::dict& options)
      : group_(group.group) {
    exchange::ExchangeOptions chosen = options_from(options);
    Result<std::unique_ptr<Exchange>> opened;
    {
      const py::gil_scoped_release release;
      opened = Exchange::open(directory, *group_, std::move(chosen));
    }
    exchange_ = value_or_raise(std::move(opened), directory);
  }
  ~ExchangeHandle() {
    const py::gil_scoped_release release;
    exchange_.reset();
  }

  template <typename Call>
  auto without_gil(Call call) {
    const InUse in_use(used_);
    std::invoke_result_t<Call, Exchange&> done;
    {
      const py::gil_scoped_release release;
      done = call(*exchange_);
    }
    return value_or_raise(std::move(done), exchange_->store()->directory());
  }
  Exchange& get() { return *exchange_; }

 private:
  std::shared_ptr<Group> group_;  // outlives the exchange
  std::unique_ptr<Exchange> exchange_;
  bool used_ = false;
};

py::dict stats_of(ExchangeHandle& own) {
  const exchange::ExchangeStats& stats = own.get().stats();
  py::dict found;
  found["epochs"] = stats.epochs;
  found["samples_sent"] = stats.samples_sent;
  found["samples_received"] = stats.samples_received;
  found["bytes_sent"] = stats.bytes_sent;
  found["bytes_received"] = stats.bytes_received;
  found["messages"] = stats.messages;
  found["transfer_seconds"] = stats.transfer_seconds;
  found["prepare_seconds"] = stats.prepare_seconds;
  found["exposed_seconds"] = stats.exposed_seconds;
  found["fraction"] = stats.fraction;
  found["label_distance"] = stats.balance ? py::object(py::float_(stats.balance->distance)) : py::none();
  found["label_floor"] = stats.balance ? py::object(py::float_(stats.balance->floor)) : py::none();
  found["peak_bytes"] = stats.peak_bytes;
  return found;
}

struct SourceHandle {
  std::shared_ptr<transfer::Stores> stores;
  std::shared_ptr<exchange::IngestSource> source;
};

SourceHandle open_source(const std::vector<std::string>& names, const exchange::FolderOptions& of_folder) {
  SourceHandle found;
  found.stores = value_or_raise(shared_stores());
  Result<std::unique_ptr<exchange::IngestSource>> opened;
  {
    const py::gil_scoped_release release;
    if (names.size() == 1 && std::filesystem::is_directory(names.front())) {
      opened = exchange::open_folder(names.front(), of_folder);
    } else if (!of_folder.extensions.empty()) {
      opened =
          make_error(Code::kInvalid, "extensions are for a directory of files: {} is none", names.front());
    } else {
      auto expanded = shard::expand_names(names, found.stores.get());
      if (expanded) {
        opened = exchange::open_shards(expanded.take(), *found.stores, nullptr);
      } else {
        opened = expanded.take_error();
      }
    }
  }
  found.source = value_or_raise(std::move(opened), names.front());
  return found;
}

// The stores of some ranks, but for the number of classes: finish_ingest makes them.
std::vector<exchange::Manifest> ingest(const SourceHandle& source, const std::string& root,
                                       const py::dict& options) {
  exchange::IngestOptions chosen;
  chosen.deal.partition = value_or_raise(exchange::parse_partition(options["partition"].cast<std::string>()));
  chosen.deal.ranks = options["world"].cast<uint32_t>();
  chosen.deal.seed = options["seed"].cast<uint64_t>();
  chosen.ranks = options["ranks"].cast<std::vector<uint32_t>>();
  chosen.classes = options["classes"].cast<std::vector<std::string>>();
  chosen.label_field = options["label"].cast<std::string>();
  chosen.sharers = options["sharers"].cast<std::vector<uint32_t>>();
  chosen.first_id = options["first_id"].cast<uint64_t>();
  chosen.all = options["all"].cast<uint64_t>();
  Result<std::vector<exchange::Manifest>> made;
  {
    const py::gil_scoped_release release;
    made = exchange::ingest(*source.source, root, chosen);
  }
  return value_or_raise(std::move(made), root);
}

void bind_store(py::module_& module) {
  py::class_<SampleStore, std::shared_ptr<SampleStore>>(module, "PlsStore")
      .def(py::init([](const std::string& directory) {
             return std::const_pointer_cast<SampleStore>(
                 value_or_raise(SampleStore::open(directory), directory));
           }),
           py::arg("directory"))
      .def("__len__", &SampleStore::size)
      .def_property_readonly("directory", &SampleStore::directory)
      .def_property_readonly("is_current", &SampleStore::is_current)
      .def_property_readonly("epoch", [](const SampleStore& own) { return own.manifest().exchanges(); })
      .def_property_readonly("world", [](const SampleStore& own) { return own.manifest().world; })
      .def_property_readonly("samples", [](const SampleStore& own) { return own.manifest().samples; })
      .def_property_readonly("classes", [](const SampleStore& own) { return own.manifest().classes; })
      .def_property_readonly("class_names",
                             [](const SampleStore& own) { return to_text(own.manifest().class_names); })
      .def_property_readonly("bytes", [](const SampleStore& own) { return own.manifest().live_bytes(); })
      .def_property_readonly("disk_bytes", &SampleStore::disk_bytes)
      .def_property_readonly("segment_paths", &SampleStore::segment_paths)
      .def_property_readonly("numbers", &SampleStore::numbers)
      .def("ids",
           [](const SampleStore& own) {
             return column<int64_t>(own, [](const exchange::Record& one) { return one.id; });
           })
      .def("labels",
           [](const SampleStore& own) {
             return column<int64_t>(own, [](const exchange::Record& one) -> int64_t {
               return one.label == exchange::kNoLabel ? -1 : int64_t{one.label};
             });
           })
      .def("homes",
           [](const SampleStore& own) {
             return column<int64_t>(own, [](const exchange::Record& one) { return one.home; });
           })
      .def(
          "sample",
          [](const std::shared_ptr<SampleStore>& own, size_t slot, bool check) {
            return sample_of(own, slot, check ? Checked::kYes : Checked::kNo);
          },
          py::arg("slot"), py::arg("check") = false);
}

void bind_ingest(py::module_& module) {
  py::class_<SourceHandle>(module, "PlsSource")
      .def(py::init([](const std::vector<std::string>& names, const std::vector<std::string>& classes,
                       const std::vector<std::string>& extensions) {
             return open_source(names, {classes, extensions});
           }),
           py::arg("names"), py::arg("classes") = std::vector<std::string>(),
           py::arg("extensions") = std::vector<std::string>())
      .def_property_readonly("samples", [](const SourceHandle& own) { return own.source->samples(); })
      .def_property_readonly("classes", [](const SourceHandle& own) { return own.source->classes(); })
      .def_property_readonly("fingerprint",
                             [](const SourceHandle& own) { return own.source->fingerprint(); });
  py::class_<exchange::Manifest>(module, "PlsManifest").def_readonly("classes", &exchange::Manifest::classes);
  module.def("pls_ingest", &ingest);
  module.def("pls_finish_ingest",
             [](const std::string& root, const std::vector<exchange::Manifest>& manifests, uint32_t classes) {
               value_or_raise(exchange::finish_ingest(root, manifests, classes), root);
             });
  module.def(
      "pls_read_classes",
      [](const std::string& path, bool sort) {
        const auto order = sort ? exchange::ClassOrder::kByName : exchange::ClassOrder::kByLine;
        return value_or_raise(exchange::read_classes(path, order), path);
      },
      py::arg("path"), py::arg("sort"));
  module.def("pls_rank_directory", &exchange::rank_directory);
  module.def("pls_count_stores", &exchange::count_stores);
  module.def("pls_redeal", [](const std::string& root, uint32_t world, const py::dict& options) {
    const exchange::ExchangeOptions chosen = options_from(options);
    Status done;
    {
      const py::gil_scoped_release release;
      done = exchange::redeal_stores(root, world, chosen);
    }
    value_or_raise(std::move(done), root);
  });
}

}  // namespace

void bind_pls_store(py::module_& module) {
  bind_store(module);
  bind_ingest(module);
  py::class_<GroupHandle>(module, "PlsGroup")
      .def(py::init([] { return GroupHandle{value_or_raise(exchange::open_group())}; }))
      .def_property_readonly("rank", [](const GroupHandle& own) { return own.group->rank(); })
      .def_property_readonly("size", [](const GroupHandle& own) { return own.group->size(); })
      .def("gather", &gather, py::arg("said"), py::arg("timeout") = 600.0)
      .def("split", &split)
      .def("node", [](const GroupHandle& own) { return value_or_raise(own.group->node()); })
      .def("abort", [](const GroupHandle&, int code) { exchange::abort_mpi(code); });
  py::class_<ExchangeHandle>(module, "PlsExchange")
      .def(py::init<const std::string&, const GroupHandle&, const py::dict&>(), py::arg("directory"),
           py::arg("group"), py::arg("options"))
      .def("begin", [](ExchangeHandle& own) { own.without_gil([](Exchange& one) { return one.begin(); }); })
      .def("commit", [](ExchangeHandle& own) { own.without_gil([](Exchange& one) { return one.commit(); }); })
      .def("cancel", [](ExchangeHandle& own) { own.without_gil([](Exchange& one) { return one.cancel(); }); })
      .def("digest",
           [](ExchangeHandle& own) {
             const Exchange::Digest digest = own.without_gil([](Exchange& one) { return one.digest(); });
             return py::make_tuple(digest.owners, digest.contents, digest.samples);
           })
      .def_property_readonly("epoch", [](ExchangeHandle& own) { return own.get().epoch(); })
      .def_property_readonly("is_under_way", [](ExchangeHandle& own) { return own.get().is_under_way(); })
      .def("stats", &stats_of)
      .def("store",
           [](ExchangeHandle& own) { return std::const_pointer_cast<SampleStore>(own.get().store()); });
}

}  // namespace millrace::python
