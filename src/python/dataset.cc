// Catalogues, loaders and batches for Python.
#include <pybind11/stl.h>
#include <unistd.h>

#include <chrono>
#include <future>

#include "base/units.h"
#include "decode/image_description.h"
#include "loader/loader.h"
#include "loader/quality.h"
#include "loader/random_access.h"
#include "loader/report.h"
#include "loader/spec.h"
#include "loader/state.h"
#include "python/bindings.h"
#include "python/columns.h"

namespace millrace::python {

namespace {

using SharedBatch = std::shared_ptr<loader::Batch>;

constexpr uint64_t kLookForSignalsMs = 100;

// Opened data set and the stores its addresses lead to.
struct CatalogueHandle {
  std::shared_ptr<transfer::Stores> stores;
  std::shared_ptr<const loader::Catalogue> catalogue;
};

CatalogueHandle open_catalogue(std::vector<std::string> names, std::vector<std::vector<std::string>> mirrors,
                               std::string index_cache, bool indexed, const std::string& key_rule) {
  // Stores of its own, so that a signal can end what is under way.
  const auto lifeline = std::make_shared<net::Lifeline>();
  CatalogueHandle handle;
  handle.stores = std::make_shared<transfer::Stores>(value_or_raise(shared_stores())->settings(), lifeline);
  loader::CatalogueOptions options;
  options.names = std::move(names);
  options.mirrors = std::move(mirrors);
  options.index_cache = std::move(index_cache);
  options.indexed = indexed;
  options.key_rule = value_or_raise(tar::parse_key_rule(key_rule));
  auto opening =
      std::async(std::launch::async, [&] { return loader::Catalogue::open(*handle.stores, options); });
  while (true) {
    {
      const py::gil_scoped_release release;
      if (opening.wait_for(std::chrono::milliseconds(kLookForSignalsMs)) == std::future_status::ready) break;
    }
    if (PyErr_CheckSignals() == 0) continue;
    lifeline->cut();
    throw py::error_already_set();
  }
  handle.catalogue = value_or_raise(opening.get());
  return handle;
}

// The samples of the batch that was handed over last, for whoever has to say where one of them lies.
class Places {
 public:
  explicit Places(std::shared_ptr<const loader::Catalogue> catalogue) : catalogue_(std::move(catalogue)) {}
  void take(loader::Batch& batch) { samples_ = std::move(batch.samples); }
  // The shard's name and the place in words.
  py::tuple place(size_t slot) const {
    const loader::SampleRef sample = samples_.at(slot);
    const loader::Shard& shard = catalogue_->shards()[sample.shard];
    return py::make_tuple(to_text(shard.name()), to_text(catalogue_->place_of(sample)));
  }

 private:
  const std::shared_ptr<const loader::Catalogue> catalogue_;
  std::vector<loader::SampleRef> samples_;
};

// Threads do not survive a fork: a forked process must not wait for them, nor pretend that they run.
class LoaderHandle {
 public:
  // `position`, where it is given, always is that of the first batch that was not handed out yet.
  LoaderHandle(const CatalogueHandle& catalogue, const loader::Recipe& recipe, const loader::Start& start,
               loader::Companions companions, std::shared_ptr<loader::State> position)
      : stores_(catalogue.stores),
        position_(position ? std::move(position) : std::make_shared<loader::State>()),
        end_epoch_(start.epoch + start.epochs),
        streamed_by_(catalogue.catalogue->is_indexed() ? 0 : start.world),
        places_(catalogue.catalogue) {
    if (streamed_by_ > 0 && start.batch > 0 && position_->world > 0 && position_->world != start.world) {
      raise(make_error(Code::kInvalid,
                       "the state was taken by {} ranks, here are {}: streamed shards are dealt to ranks",
                       position_->world, start.world)
                .with_hint("go on with as many ranks, or leave out indexed=False"));
    }
    if (catalogue.catalogue->is_indexed()) batches_ = loader::count_batches(*catalogue.catalogue, recipe);
    loader_ = value_or_raise(loader::Loader::open(catalogue.catalogue, recipe, start, std::move(companions)));
  }
  ~LoaderHandle() {
    if (::getpid() != process_) {
      static_cast<void>(loader_.release());
      return;
    }
    const py::gil_scoped_release release;
    loader_.reset();
  }

  // The columns of the next batch; None at the end.
  py::object take() {
    loader::Loader& own = get();
    const InUse use(in_use_);
    // A batch that is ready is not worth letting go of the GIL.
    bool settled = own.wait(0);
    while (!settled) {
      {
        const py::gil_scoped_release release;
        settled = own.wait(kLookForSignalsMs);
      }
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
    auto taken = own.next();
    if (!taken) raise(taken.error());
    const SharedBatch batch = taken.take();
    if (!batch) {
      *position_ = {end_epoch_, 0, 0};
      return py::none();
    }
    const bool is_last = batch->number + 1 >= batches_;
    *position_ = is_last ? loader::State{batch->epoch + 1, 0, 0}
                         : loader::State{batch->epoch, batch->number + 1, streamed_by_};
    places_.take(*batch);
    return columns_of(batch, own.recipe());
  }
  py::tuple place(size_t slot) const { return places_.place(slot); }
  void stop() {
    const py::gil_scoped_release release;
    get().stop();
  }
  loader::Loader& get() {
    if (::getpid() != process_) {
      raise(make_error(Code::kInvalid,
                       "this loader was started before the process forked; its threads are not here")
                .with_hint("make the iterator in the process that uses it"));
    }
    return *loader_;
  }

 private:
  const std::shared_ptr<transfer::Stores> stores_;
  const std::shared_ptr<loader::State> position_;
  const uint64_t end_epoch_;
  const uint64_t streamed_by_;  // how many ranks; 0: the shards are indexed
  Places places_;
  uint64_t batches_ = UINT64_MAX;  // in an epoch; a stream does not know
  std::unique_ptr<loader::Loader> loader_;
  const pid_t process_ = ::getpid();
  bool in_use_ = false;
};

PyObject* take_batch(PyObject* held, PyObject*) noexcept {
  try {
    auto& handle = *static_cast<std::shared_ptr<LoaderHandle>*>(PyCapsule_GetPointer(held, nullptr));
    return handle->take().release().ptr();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

// take() as a function of Python's own, past pybind11's: finding method and object in its tables takes longer
// than all the rest where the caches hold something else, as they do after every training step.
py::object make_take(const std::shared_ptr<LoaderHandle>& handle) {
  static PyMethodDef method{"take", &take_batch, METH_NOARGS,
                            "The columns of the next batch; None at the end."};
  const py::capsule held(new std::shared_ptr<LoaderHandle>(handle),
                         [](void* own) { delete static_cast<std::shared_ptr<LoaderHandle>*>(own); });
  return py::reinterpret_steal<py::object>(PyCFunction_New(&method, held.ptr()));
}

struct AccessHandle {
  std::shared_ptr<transfer::Stores> stores;
  std::unique_ptr<loader::RandomAccess> access;
  loader::Recipe recipe;
  Places places;
  const pid_t process = ::getpid();

  ~AccessHandle() {
    if (::getpid() != process) static_cast<void>(access.release());
  }

  py::tuple get(const std::vector<uint64_t>& numbers, uint64_t epoch) {
    Result<SharedBatch> batch;
    {
      const py::gil_scoped_release release;
      batch = access->get(numbers, epoch, [] {
        const py::gil_scoped_acquire acquire;
        return PyErr_CheckSignals() == 0;
      });
    }
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    const SharedBatch taken = value_or_raise(std::move(batch));
    places.take(*taken);
    return columns_of(taken, recipe);
  }
};

// Only what was said is in `options`: the rest follows in the engine.
decode::TransformSpec image_spec(const py::dict& options) {
  decode::ImageDescription image;
  for (const auto& [name, value] : options["words"].cast<std::map<std::string, std::string>>())
    value_or_raise(image.set(name, value));
  if (options.contains("mean"))
    image.normalize(options["mean"].cast<std::vector<float>>(), options["std"].cast<std::vector<float>>());
  image.set_random(options["scale"].cast<std::pair<double, double>>(),
                   options["ratio"].cast<std::pair<double, double>>());
  return value_or_raise(image.finish());
}

loader::FieldSpec field_spec(const py::dict& options) {
  loader::FieldSpec field;
  field.name = options["name"].cast<std::string>();
  field.any_of = options["any_of"].cast<std::vector<std::string>>();
  field.kind = value_or_raise(loader::parse_kind(options["kind"].cast<std::string>()));
  if (options.contains("ragged")) field.ragged = options["ragged"].cast<bool>();
  if (field.kind == loader::FieldKind::kImage) field.image = image_spec(options["image"]);
  return field;
}

loader::Recipe make_recipe(const py::dict& options) {
  loader::Recipe recipe;
  recipe.seed = options["seed"].cast<uint64_t>();
  recipe.window = options["window"].cast<uint64_t>();
  recipe.batch = options["batch"].cast<uint64_t>();
  recipe.weights = options["weights"].cast<std::vector<double>>();
  recipe.bucket_by = options["bucket_by"].cast<std::vector<std::string>>();
  recipe.bucket_batches = options["bucket_batches"].cast<uint64_t>();
  recipe.end = value_or_raise(loader::parse_epoch_end(options["end"].cast<std::string>()));
  for (const py::handle field : options["fields"])
    recipe.fields.push_back(field_spec(field.cast<py::dict>()));
  recipe.on_error = value_or_raise(loader::parse_on_error(options["on_error"].cast<std::string>()));
  recipe.most_errors = options["most_errors"].cast<uint64_t>();
  recipe.threads = options["threads"].cast<unsigned>();
  recipe.fetch_threads = options["fetch_threads"].cast<unsigned>();
  recipe.memory = options["memory"].cast<uint64_t>();
  recipe.cache = options["cache"].cast<std::string>();
  recipe.cache_note = options["cache_note"].cast<std::string>();
  recipe.cache_bytes = options["cache_bytes"].cast<uint64_t>();
  value_or_raise(loader::check(recipe));
  return recipe;
}

void bind_catalogue(py::module_& module) {
  py::class_<CatalogueHandle>(module, "Catalogue")
      .def(py::init(&open_catalogue), py::arg("names"),
           py::arg("mirrors") = std::vector<std::vector<std::string>>(), py::arg("index_cache") = "",
           py::arg("indexed") = true, py::arg("key_rule") = "first-dot")
      .def_property_readonly("samples", [](const CatalogueHandle& own) { return own.catalogue->samples(); })
      .def_property_readonly("shards",
                             [](const CatalogueHandle& own) { return own.catalogue->shards().size(); })
      .def_property_readonly("samples_per_shard",
                             [](const CatalogueHandle& own) { return own.catalogue->samples_per_shard(); })
      .def_property_readonly("bytes", [](const CatalogueHandle& own) { return own.catalogue->bytes(); })
      .def_property_readonly("is_local", [](const CatalogueHandle& own) { return own.catalogue->is_local(); })
      .def_property_readonly("is_indexed",
                             [](const CatalogueHandle& own) { return own.catalogue->is_indexed(); })
      .def("batches",
           [](const CatalogueHandle& own, const loader::Recipe& recipe) {
             if (!own.catalogue->is_indexed())
               throw py::type_error("a streamed data set does not know how many batches it has");
             return loader::count_batches(*own.catalogue, recipe);
           })
      .def("select",
           [](const CatalogueHandle& own, const std::vector<uint64_t>& numbers) {
             return CatalogueHandle{own.stores, value_or_raise(own.catalogue->select(numbers))};
           })
      .def("select_with",
           [](const CatalogueHandle& own, const std::vector<std::string>& any_of) {
             return CatalogueHandle{own.stores, value_or_raise(own.catalogue->select_with(any_of))};
           })
      .def("with_columns",
           [](const CatalogueHandle& own, const CatalogueHandle& other) {
             return CatalogueHandle{own.stores,
                                    value_or_raise(own.catalogue->with_columns(*other.catalogue))};
           })
      .def_static("join",
                  [](const std::vector<CatalogueHandle>& parts) {
                    std::vector<std::shared_ptr<const loader::Catalogue>> catalogues;
                    for (const CatalogueHandle& part : parts) catalogues.push_back(part.catalogue);
                    CatalogueHandle joined;
                    joined.catalogue = value_or_raise(loader::Catalogue::join(catalogues));
                    joined.stores = parts.front().stores;
                    return joined;
                  })
      .def("format_state",
           [](const CatalogueHandle& own, const loader::Recipe& recipe, const loader::State& position) {
             return loader::format_state(position, *own.catalogue, recipe);
           })
      .def("parse_state",
           [](const CatalogueHandle& own, const loader::Recipe& recipe, const std::string& text) {
             return value_or_raise(loader::parse_state(text, *own.catalogue, recipe));
           })
      .def("shuffle_quality", [](const CatalogueHandle& own, const loader::Recipe& recipe, uint64_t epoch,
                                 const std::vector<int64_t>& labels) {
        if (!recipe.weights.empty()) throw py::value_error("the quality of a mixture is that of its parts");
        const loader::Order order(own.catalogue->samples_per_shard(),
                                  {recipe.seed, epoch, recipe.batch, recipe.window, recipe.end});
        Result<std::string> text;
        {
          const py::gil_scoped_release release;
          text = loader::shuffle_quality_json(order, labels);
        }
        return value_or_raise(std::move(text));
      });
}

void bind_recipe(py::module_& module) {
  py::class_<loader::State, std::shared_ptr<loader::State>>(module, "Position")
      .def(py::init([](uint64_t epoch, uint64_t batch) { return loader::State{epoch, batch, 0}; }),
           py::arg("epoch") = 0, py::arg("batch") = 0)
      .def_readwrite("epoch", &loader::State::epoch)
      .def_readwrite("batch", &loader::State::batch)
      .def_readwrite("world", &loader::State::world)
      .def(
          py::pickle([](const loader::State& own) { return py::make_tuple(own.epoch, own.batch, own.world); },
                     [](const py::tuple& kept) {
                       return loader::State{kept[0].cast<uint64_t>(), kept[1].cast<uint64_t>(),
                                            kept[2].cast<uint64_t>()};
                     }));
  py::class_<loader::Recipe>(module, "Recipe").def(py::init(&make_recipe));
  py::class_<loader::PixelKeep, std::shared_ptr<loader::PixelKeep>>(module, "PixelKeep")
      .def(py::init([](uint64_t most_bytes, uint32_t max_side, const std::string& directory,
                       const CatalogueHandle& catalogue, const loader::Recipe& recipe) {
             const uint64_t identity = loader::pixels_identity(*catalogue.catalogue, recipe, max_side);
             return value_or_raise(loader::PixelKeep::open({most_bytes, max_side, directory, identity}));
           }),
           py::arg("most_bytes"), py::arg("max_side"), py::arg("directory"), py::arg("catalogue"),
           py::arg("recipe"))
      .def_property_readonly("bytes", &loader::PixelKeep::bytes)
      .def_property_readonly("images", &loader::PixelKeep::images);
}

}  // namespace

void bind_dataset(py::module_& module) {
  bind_catalogue(module);
  bind_recipe(module);
  py::class_<LoaderHandle, std::shared_ptr<LoaderHandle>>(module, "Loader")
      .def(py::init([](const CatalogueHandle& catalogue, const loader::Recipe& recipe, uint64_t epoch,
                       uint64_t batch, uint64_t epochs, uint64_t rank, uint64_t world, uint64_t step,
                       std::shared_ptr<loader::PixelKeep> keep, std::shared_ptr<loader::State> position) {
             return std::make_shared<LoaderHandle>(
                 catalogue, recipe, loader::Start{epoch, batch, epochs, rank, world, step},
                 loader::Companions{std::move(keep), nullptr}, std::move(position));
           }),
           py::arg("catalogue"), py::arg("recipe"), py::arg("epoch") = 0, py::arg("batch") = 0,
           py::arg("epochs") = 1, py::arg("rank") = 0, py::arg("world") = 1, py::arg("step") = 1,
           py::arg("keep") = nullptr, py::arg("position") = nullptr)
      .def_property_readonly("take", &make_take)
      .def("stop", &LoaderHandle::stop)
      .def("place", &LoaderHandle::place, py::arg("slot"))
      // Time that functions of Python took, between batches.
      .def("note_python", [](LoaderHandle& own, uint64_t ns) { own.get().note_python(ns); })
      .def("report", [](LoaderHandle& own) { return loader::format_report(loader::make_report(own.get())); })
      .def("report_json",
           [](LoaderHandle& own) { return loader::format_report_json(loader::make_report(own.get())); })
      .def("faults", [](LoaderHandle& own) {
        py::list found;
        for (const loader::Fault& fault : own.get().faults())
          found.append(py::make_tuple(to_text(fault.shard), to_text(fault.what), to_text(fault.stage),
                                      fault.epoch, fault.batch));
        return found;
      });
  py::class_<AccessHandle>(module, "RandomAccess")
      .def(py::init([](const CatalogueHandle& catalogue, const loader::Recipe& recipe) {
        return std::unique_ptr<AccessHandle>(new AccessHandle{
            catalogue.stores, value_or_raise(loader::RandomAccess::open(catalogue.catalogue, recipe)), recipe,
            Places(catalogue.catalogue)});
      }))
      .def("get", &AccessHandle::get, py::arg("numbers"), py::arg("epoch") = 0)
      .def("place", [](const AccessHandle& own, size_t slot) { return own.places.place(slot); });
  module.def("parse_bytes", [](const std::string& text) { return value_or_raise(parse_bytes(text)); });
  module.def("check_image", [](const py::dict& options) { static_cast<void>(image_spec(options)); });
  module.def("image_defaults", [] {
    const decode::TransformSpec usual;
    py::dict defaults;
    defaults["layout"] = decode::image_word(usual.layout);
    defaults["channels"] = decode::image_word(usual.channels);
    defaults["scale"] = py::make_tuple(usual.scale_from, usual.scale_to);
    defaults["ratio"] = py::make_tuple(usual.ratio_from, usual.ratio_to);
    return defaults;
  });
}

}  // namespace millrace::python
