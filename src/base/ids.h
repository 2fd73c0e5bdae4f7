// make_id: a name that no other process, machine or run will choose.
#pragma once

#include <string>

namespace millrace {

// 16 lower-case hex digits from the kernel's generator.
std::string make_id();

}  // namespace millrace
