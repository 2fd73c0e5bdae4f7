// Catalogues, loaders and their batches: columns become numpy arrays over the batch's own memory.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <map>

#include "base/units.h"
#include "decode/inflate.h"
#include "loader/loader.h"
#include "loader/quality.h"
#include "loader/random_access.h"
#include "loader/report.h"
#include "loader/spec.h"
#include "loader/state.h"
#include "python/bindings.h"

namespace millrace::python {

namespace {

using loader::Batch;
using loader::Column;
using SharedBatch = std::shared_ptr<Batch>;

constexpr uint64_t kLookForSignalsMs = 100;

// Made once: asking numpy by name costs more than the rest of handing over.
py::dtype numpy_dtype(decode::DType dtype) {
  // Never destroyed: the interpreter may be gone by then.
  static auto& known = *new std::map<decode::DType, py::dtype>();
  const auto found = known.find(dtype);
  if (found != known.end()) return found->second;
  return known.emplace(dtype, py::dtype(std::string(decode::numpy_name(dtype)))).first->second;
}

// An array over memory that the batch owns; the batch lives as long as the array.
py::array array_over(const SharedBatch& batch, const void* memory, decode::DType dtype,
                     const std::vector<uint64_t>& shape, const std::vector<py::ssize_t>& strides = {}) {
  const py::capsule owner(new SharedBatch(batch), [](void* held) { delete static_cast<SharedBatch*>(held); });
  return py::array(numpy_dtype(dtype), std::vector<py::ssize_t>(shape.begin(), shape.end()), strides, memory,
                   owner);
}

const std::byte* memory_of(const Column& column) {
  return column.memory.memory.get();
}

py::object dense_column(const SharedBatch& batch, const Column& column) {
  std::vector<uint64_t> shape = {batch->size};
  shape.insert(shape.end(), column.item_shape.begin(), column.item_shape.end());
  return array_over(batch, memory_of(column), column.dtype, shape);
}

py::list bytes_column(const SharedBatch& batch, const Column& column) {
  py::list found(batch->size);
  for (size_t i = 0; i < batch->size; ++i) {
    const loader::Piece piece = column.pieces[i];
    found[i] = py::bytes(reinterpret_cast<const char*>(memory_of(column)) + piece.offset, piece.size);
  }
  return found;
}

// The whole memory and, per sample, where its bytes begin and how many there are.
py::tuple ragged_column(const SharedBatch& batch, const Column& column) {
  py::array_t<int64_t> places({static_cast<py::ssize_t>(batch->size), py::ssize_t{2}});
  auto view = places.mutable_unchecked<2>();
  uint64_t end = 0;
  for (size_t i = 0; i < batch->size; ++i) {
    const loader::Piece piece = column.pieces[i];
    view(static_cast<py::ssize_t>(i), 0) = static_cast<int64_t>(piece.offset);
    view(static_cast<py::ssize_t>(i), 1) = static_cast<int64_t>(piece.size);
    end = std::max(end, piece.offset + piece.size);
  }
  return py::make_tuple(array_over(batch, memory_of(column), decode::DType::kUint8, {end}), places);
}

py::array single_array(const SharedBatch& batch, const Column& column, const loader::ArrayPlace& place) {
  std::vector<py::ssize_t> strides;
  if (place.fortran) {
    auto step = static_cast<py::ssize_t>(decode::item_bytes(place.dtype));
    for (const uint64_t extent : place.shape) {
      strides.push_back(step);
      step *= static_cast<py::ssize_t>(extent);
    }
  }
  return array_over(batch, memory_of(column) + place.elements.offset, place.dtype, place.shape, strides);
}

// One array where every sample has the same type and shape and lies at the same distance; else a list.
py::object array_column(const SharedBatch& batch, const Column& column) {
  const std::vector<loader::ArrayPlace>& arrays = column.arrays;
  const auto alike = [&](size_t i) {
    return arrays[i].dtype == arrays[0].dtype && arrays[i].shape == arrays[0].shape && !arrays[i].fortran;
  };
  const uint64_t step = batch->size > 1 ? arrays[1].elements.offset - arrays[0].elements.offset : 0;
  bool is_dense = batch->size > 0 && alike(0);
  for (size_t i = 1; i < batch->size && is_dense; ++i)
    is_dense = alike(i) && arrays[i].elements.offset == arrays[0].elements.offset + i * step;
  if (is_dense) {
    std::vector<uint64_t> shape = {batch->size};
    std::vector<py::ssize_t> strides = {static_cast<py::ssize_t>(step)};
    auto item = static_cast<py::ssize_t>(decode::item_bytes(arrays[0].dtype));
    std::vector<py::ssize_t> inner(arrays[0].shape.size());
    for (size_t i = inner.size(); i-- > 0;) {
      inner[i] = item;
      item *= static_cast<py::ssize_t>(arrays[0].shape[i]);
    }
    shape.insert(shape.end(), arrays[0].shape.begin(), arrays[0].shape.end());
    strides.insert(strides.end(), inner.begin(), inner.end());
    return array_over(batch, memory_of(column) + arrays[0].elements.offset, arrays[0].dtype, shape, strides);
  }
  py::list found(batch->size);
  for (size_t i = 0; i < batch->size; ++i) found[i] = single_array(batch, column, arrays[i]);
  return found;
}

py::list image_column(const SharedBatch& batch, const Column& column, const decode::TransformSpec& spec) {
  py::list found(batch->size);
  for (size_t i = 0; i < batch->size; ++i) {
    const decode::RaggedImage& image = column.images[i];
    const uint64_t channels = decode::count(image.channels);
    const std::vector<uint64_t> shape =
        spec.layout == decode::TransformSpec::Layout::kChw
            ? std::vector<uint64_t>{channels, image.size.height, image.size.width}
            : std::vector<uint64_t>{image.size.height, image.size.width, channels};
    found[i] = array_over(batch, image.bytes.data(), column.dtype, shape);
  }
  return found;
}

py::object column_of(const SharedBatch& batch, const loader::Recipe& recipe, size_t number) {
  const Column& column = batch->columns[number];
  switch (column.kind) {
    case loader::FieldKind::kKey: {
      py::list keys(batch->size);
      for (size_t i = 0; i < batch->size; ++i) keys[i] = to_text(column.texts[i]);
      return keys;
    }
    case loader::FieldKind::kBytes:
      if (recipe.fields[number].ragged) return ragged_column(batch, column);
      return bytes_column(batch, column);
    case loader::FieldKind::kArray:
      return array_column(batch, column);
    case loader::FieldKind::kLabel:
      return dense_column(batch, column);
    case loader::FieldKind::kImage:
      if (column.item_bytes == 0) return image_column(batch, column, recipe.fields[number].image);
      return dense_column(batch, column);
  }
  return py::none();
}

py::tuple columns_of(const SharedBatch& batch, const loader::Recipe& recipe) {
  py::tuple columns(batch->columns.size());
  for (size_t i = 0; i < batch->columns.size(); ++i) columns[i] = column_of(batch, recipe, i);
  return columns;
}

// Opened data set and the stores its addresses lead to.
struct CatalogueHandle {
  std::shared_ptr<transfer::Stores> stores;
  std::shared_ptr<const loader::Catalogue> catalogue;
};

CatalogueHandle open_catalogue(std::vector<std::string> names, std::vector<std::vector<std::string>> mirrors,
                               std::string index_cache, bool indexed) {
  // Stores of its own, so that a signal can end what is under way.
  const auto lifeline = std::make_shared<net::Lifeline>();
  CatalogueHandle handle;
  handle.stores = std::make_shared<transfer::Stores>(value_or_raise(shared_stores())->settings(), lifeline);
  loader::CatalogueOptions options;
  options.names = std::move(names);
  options.mirrors = std::move(mirrors);
  options.index_cache = std::move(index_cache);
  options.indexed = indexed;
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

// Threads do not survive a fork: a forked process must not wait for them, nor pretend that they run.
class LoaderHandle {
 public:
  LoaderHandle(const CatalogueHandle& catalogue, const loader::Recipe& recipe, const loader::Start& start,
               std::shared_ptr<loader::PixelKeep> keep)
      : stores_(catalogue.stores) {
    loader_ =
        value_or_raise(loader::Loader::open(catalogue.catalogue, recipe, start, {std::move(keep), nullptr}));
  }
  ~LoaderHandle() {
    if (::getpid() != process_) {
      static_cast<void>(loader_.release());
      return;
    }
    const py::gil_scoped_release release;
    loader_.reset();
  }

  py::object next() {
    loader::Loader& own = get();
    const InUse use(in_use_);
    bool settled = false;
    while (!settled) {
      {
        const py::gil_scoped_release release;
        settled = own.wait(kLookForSignalsMs);
      }
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
    auto taken = own.next();
    const auto faults = own.faults();
    const SharedBatch batch = value_or_raise(std::move(taken), faults.empty() ? "" : faults.back().shard);
    if (!batch) return py::none();
    return py::make_tuple(batch->epoch, batch->number, columns_of(batch, own.recipe()));
  }
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
  std::unique_ptr<loader::Loader> loader_;
  const pid_t process_ = ::getpid();
  bool in_use_ = false;
};

struct AccessHandle {
  std::shared_ptr<transfer::Stores> stores;
  std::unique_ptr<loader::RandomAccess> access;
  loader::Recipe recipe;
  const pid_t process = ::getpid();

  ~AccessHandle() {
    if (::getpid() != process) static_cast<void>(access.release());
  }

  py::tuple get(const std::vector<uint64_t>& numbers, uint64_t epoch) {
    Result<SharedBatch> batch;
    {
      const py::gil_scoped_release release;
      batch = access->get(numbers, epoch);
    }
    return columns_of(value_or_raise(std::move(batch)), recipe);
  }
};

decode::TransformSpec image_spec(const py::dict& options) {
  decode::TransformSpec spec;
  for (const char* name : {"channels", "crop", "dtype", "layout"})
    value_or_raise(loader::set_image_option(spec, name, options[name].cast<std::string>()));
  spec.resize = options["resize"].cast<uint32_t>();
  spec.size = {options["width"].cast<uint32_t>(), options["height"].cast<uint32_t>()};
  std::tie(spec.scale_from, spec.scale_to) = options["scale"].cast<std::pair<double, double>>();
  std::tie(spec.ratio_from, spec.ratio_to) = options["ratio"].cast<std::pair<double, double>>();
  spec.flip = options["flip"].cast<bool>();
  const auto mean = options["mean"].cast<std::vector<float>>();
  const auto deviation = options["std"].cast<std::vector<float>>();
  std::copy_n(mean.begin(), std::min<size_t>(mean.size(), 4), spec.mean.begin());
  std::copy_n(deviation.begin(), std::min<size_t>(deviation.size(), 4), spec.deviation.begin());
  return spec;
}

loader::FieldSpec field_spec(const py::dict& options) {
  loader::FieldSpec field;
  field.name = options["name"].cast<std::string>();
  field.any_of = options["any_of"].cast<std::vector<std::string>>();
  field.kind = value_or_raise(loader::parse_kind(options["kind"].cast<std::string>()));
  if (options.contains("ragged")) field.ragged = options["ragged"].cast<bool>();
  if (field.kind == loader::FieldKind::kImage) field.image = image_spec(options);
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

void bind_handles(py::module_& module) {
  py::class_<CatalogueHandle>(module, "Catalogue")
      .def(py::init(&open_catalogue), py::arg("names"),
           py::arg("mirrors") = std::vector<std::vector<std::string>>(), py::arg("index_cache") = "",
           py::arg("indexed") = true)
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
           [](const CatalogueHandle& own, const loader::Recipe& recipe, uint64_t epoch, uint64_t batch) {
             return loader::format_state({epoch, batch}, *own.catalogue, recipe);
           })
      .def("parse_state",
           [](const CatalogueHandle& own, const loader::Recipe& recipe, const std::string& text) {
             const loader::State state = value_or_raise(loader::parse_state(text, *own.catalogue, recipe));
             return py::make_tuple(state.epoch, state.batch);
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
  py::class_<loader::Recipe>(module, "Recipe").def(py::init(&make_recipe));
  py::class_<loader::PixelKeep, std::shared_ptr<loader::PixelKeep>>(module, "PixelKeep")
      .def(py::init([](uint64_t most_bytes, uint32_t max_side, const std::string& directory) {
             return value_or_raise(loader::PixelKeep::open({most_bytes, max_side, directory}));
           }),
           py::arg("most_bytes"), py::arg("max_side"), py::arg("directory") = "")
      .def_property_readonly("bytes", &loader::PixelKeep::bytes)
      .def_property_readonly("images", &loader::PixelKeep::images);
}

}  // namespace

void bind_dataset(py::module_& module) {
  bind_handles(module);
  py::class_<LoaderHandle>(module, "Loader")
      .def(py::init([](const CatalogueHandle& catalogue, const loader::Recipe& recipe, uint64_t epoch,
                       uint64_t batch, uint64_t epochs, uint64_t rank, uint64_t world, uint64_t step,
                       std::shared_ptr<loader::PixelKeep> keep) {
             return std::make_unique<LoaderHandle>(
                 catalogue, recipe, loader::Start{epoch, batch, epochs, rank, world, step}, std::move(keep));
           }),
           py::arg("catalogue"), py::arg("recipe"), py::arg("epoch") = 0, py::arg("batch") = 0,
           py::arg("epochs") = 1, py::arg("rank") = 0, py::arg("world") = 1, py::arg("step") = 1,
           py::arg("keep") = nullptr)
      .def("next", &LoaderHandle::next)
      .def("stop", &LoaderHandle::stop)
      .def("report", [](LoaderHandle& own) { return loader::format_report(loader::make_report(own.get())); })
      .def("report_json",
           [](LoaderHandle& own) { return loader::format_report_json(loader::make_report(own.get())); })
      .def("faults", [](LoaderHandle& own) {
        py::list found;
        for (const loader::Fault& fault : own.get().faults())
          found.append(py::make_tuple(to_text(fault.shard), to_text(fault.what), fault.epoch, fault.batch));
        return found;
      });
  py::class_<AccessHandle>(module, "RandomAccess")
      .def(py::init([](const CatalogueHandle& catalogue, const loader::Recipe& recipe) {
        auto handle = std::make_unique<AccessHandle>();
        handle->stores = catalogue.stores;
        handle->recipe = recipe;
        handle->access = value_or_raise(loader::RandomAccess::open(catalogue.catalogue, recipe));
        return handle;
      }))
      .def("get", &AccessHandle::get, py::arg("numbers"), py::arg("epoch") = 0);
  module.def("gunzip", [](const std::string& bytes, uint64_t most) {
    return py::bytes(value_or_raise(decode::gunzip(bytes, most)));
  });
  module.def("parse_bytes", [](const std::string& text) { return value_or_raise(parse_bytes(text)); });
}

}  // namespace millrace::python
