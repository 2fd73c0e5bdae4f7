// Writes the pictures of verbs to files.
#pragma once

#include <string>

#include "base/result.h"

namespace millrace::cli {

// .svg as it is, .png through rsvg-convert.
Status write_picture(const std::string& path, const std::string& svg);

}  // namespace millrace::cli
