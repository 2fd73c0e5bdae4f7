// file_stamp: what a file looks like from outside, for whoever reads it again when it changes. Pure but for
// one stat.
#pragma once

#include <string>

namespace millrace {

// Inode, size and time of change; two stamps that are equal mean that nobody replaced or wrote the file
// between.
std::string file_stamp(const std::string& path);

}  // namespace millrace
