// Field specifications as a person types them: what to take from every sample, and what to make of it.
//
//   image:jpg;png:size=224,crop=random_resized,flip,normalize=imagenet,layout=CHW label:cls bytes:json
//
// Words are separated by blanks. A word is kind:fields:options; of the fields, separated by semicolons, the
// first that a sample has is taken. Kinds: image (options: decode/image_description.h), label, bytes, array,
// key.
#pragma once

#include <string_view>
#include <vector>

#include "loader/recipe.h"

namespace millrace::loader {

Result<std::vector<FieldSpec>> parse_fields(std::string_view text);
Result<FieldKind> parse_kind(std::string_view text);

}  // namespace millrace::loader
