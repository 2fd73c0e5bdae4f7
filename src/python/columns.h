// The columns of a batch as Python sees them: numpy arrays over the batch's own memory, or lists.
//
// The batch lives as long as any of its arrays. With the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "loader/batch.h"
#include "loader/recipe.h"

namespace millrace::python {

// One object per field of the recipe.
pybind11::tuple columns_of(const std::shared_ptr<loader::Batch>& batch, const loader::Recipe& recipe);

}  // namespace millrace::python
