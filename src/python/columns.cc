// Makes arrays of columns. numpy's own calls are used directly, and one owner serves all arrays of a batch:
// after a training step nothing of this is in the processor's caches, so touching less memory is faster.
#include "python/columns.h"

#include <pybind11/numpy.h>

#include <algorithm>
#include <array>

#include "python/bindings.h"

namespace millrace::python {

namespace {

using loader::Batch;
using loader::Column;

// Made once: asking numpy by name costs more than the rest of handing over. Never let go: the interpreter may
// be gone by then.
PyObject* numpy_dtype(decode::DType dtype) {
  static std::array<PyObject*, static_cast<size_t>(decode::DType::kComplex128) + 1> known{};
  PyObject*& found = known[static_cast<size_t>(dtype)];
  if (found == nullptr) found = py::dtype(std::string(decode::numpy_name(dtype))).release().ptr();
  return found;
}

// A batch on its way to Python, and what keeps it alive there.
class Owned {
 public:
  explicit Owned(const std::shared_ptr<Batch>& batch) : batch_(*batch) {
    auto held = std::make_unique<std::shared_ptr<Batch>>(batch);
    owner_ = py::reinterpret_steal<py::object>(PyCapsule_New(held.get(), nullptr, &let_go));
    if (!owner_) throw py::error_already_set();
    static_cast<void>(held.release());
  }

  const Batch* operator->() const { return &batch_; }

  // An array over memory of the batch. Without strides: C order.
  py::object array(const void* memory, decode::DType dtype, const std::vector<py::ssize_t>& shape,
                   const std::vector<py::ssize_t>& strides = {}) const {
    const auto& numpy = py::detail::npy_api::get();
    PyObject* const type = numpy_dtype(dtype);
    Py_INCREF(type);  // the array's own
    auto made = py::reinterpret_steal<py::object>(
        numpy.PyArray_NewFromDescr_(numpy.PyArray_Type_, type, static_cast<int>(shape.size()), shape.data(),
                                    strides.empty() ? nullptr : strides.data(), const_cast<void*>(memory),
                                    py::detail::npy_api::NPY_ARRAY_WRITEABLE_, nullptr));
    if (!made) throw py::error_already_set();
    // Nothing is held where there was nothing to point at: an empty batch.
    if (memory != nullptr && numpy.PyArray_SetBaseObject_(made.ptr(), owner_.inc_ref().ptr()) != 0)
      throw py::error_already_set();
    return made;
  }

 private:
  static void let_go(PyObject* capsule) {
    delete static_cast<std::shared_ptr<Batch>*>(PyCapsule_GetPointer(capsule, nullptr));
  }

  const Batch& batch_;
  py::object owner_;
};

// The shape of `size` items, or of one of them.
std::vector<py::ssize_t> shape_of(const std::vector<uint64_t>& item) {
  return {item.begin(), item.end()};
}

std::vector<py::ssize_t> shape_of(uint64_t size, const std::vector<uint64_t>& item) {
  std::vector<py::ssize_t> shape;
  shape.reserve(item.size() + 1);
  shape.push_back(static_cast<py::ssize_t>(size));
  shape.insert(shape.end(), item.begin(), item.end());
  return shape;
}

const std::byte* memory_of(const Column& column) {
  return column.memory.memory.get();
}

py::object dense_column(const Owned& batch, const Column& column) {
  return batch.array(memory_of(column), column.dtype, shape_of(batch->size, column.item_shape));
}

py::list bytes_column(const Owned& batch, const Column& column) {
  py::list found(batch->size);
  for (size_t i = 0; i < batch->size; ++i) {
    const loader::Piece piece = column.pieces[i];
    found[i] = py::bytes(reinterpret_cast<const char*>(memory_of(column)) + piece.offset, piece.size);
  }
  return found;
}

// The whole memory and, per sample, where its bytes begin and how many there are.
py::tuple ragged_column(const Owned& batch, const Column& column) {
  py::array_t<int64_t> places({static_cast<py::ssize_t>(batch->size), py::ssize_t{2}});
  auto view = places.mutable_unchecked<2>();
  uint64_t end = 0;
  for (size_t i = 0; i < batch->size; ++i) {
    const loader::Piece piece = column.pieces[i];
    view(static_cast<py::ssize_t>(i), 0) = static_cast<int64_t>(piece.offset);
    view(static_cast<py::ssize_t>(i), 1) = static_cast<int64_t>(piece.size);
    end = std::max(end, piece.offset + piece.size);
  }
  return py::make_tuple(
      batch.array(memory_of(column), decode::DType::kUint8, {static_cast<py::ssize_t>(end)}), places);
}

py::object single_array(const Owned& batch, const Column& column, const loader::ArrayPlace& place) {
  std::vector<py::ssize_t> strides;
  if (place.fortran) {
    auto step = static_cast<py::ssize_t>(decode::item_bytes(place.dtype));
    for (const uint64_t extent : place.shape) {
      strides.push_back(step);
      step *= static_cast<py::ssize_t>(extent);
    }
  }
  return batch.array(memory_of(column) + place.elements.offset, place.dtype, shape_of(place.shape), strides);
}

// One array where every sample has the same type and shape; else a list.
py::object array_column(const Owned& batch, const Column& column) {
  if (column.is_dense) return dense_column(batch, column);
  // Nobody can say what an empty batch would have held.
  if (batch->size == 0) return batch.array(nullptr, decode::DType::kUint8, {0});
  py::list found(batch->size);
  for (size_t i = 0; i < batch->size; ++i) found[i] = single_array(batch, column, column.arrays[i]);
  return found;
}

py::list image_column(const Owned& batch, const Column& column, const decode::TransformSpec& spec) {
  py::list found(batch->size);
  for (size_t i = 0; i < batch->size; ++i) {
    const decode::RaggedImage& image = column.images[i];
    const uint64_t channels = decode::count(image.channels);
    const std::vector<uint64_t> shape =
        spec.layout == decode::TransformSpec::Layout::kChw
            ? std::vector<uint64_t>{channels, image.size.height, image.size.width}
            : std::vector<uint64_t>{image.size.height, image.size.width, channels};
    found[i] = batch.array(image.bytes.data(), column.dtype, shape_of(shape));
  }
  return found;
}

py::object column_of(const Owned& batch, const loader::Recipe& recipe, size_t number) {
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

}  // namespace

py::tuple columns_of(const std::shared_ptr<Batch>& batch, const loader::Recipe& recipe) {
  const Owned owned(batch);
  py::tuple columns(batch->columns.size());
  for (size_t i = 0; i < batch->columns.size(); ++i)
    PyTuple_SET_ITEM(columns.ptr(), static_cast<py::ssize_t>(i), column_of(owned, recipe, i).release().ptr());
  return columns;
}

}  // namespace millrace::python
