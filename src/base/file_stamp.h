// file_stamp: what stat says about a file; a reader compares two stamps to see whether to read the file
// again. Pure but for one stat.
#pragma once

#include <string>

namespace millrace {

// Inode, size and time of change; two stamps that are equal mean that nobody replaced or wrote the file
// between.
std::string file_stamp(const std::string& path);

}  // namespace millrace
