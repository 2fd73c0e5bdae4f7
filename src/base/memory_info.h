// How much memory the system could still give, page cache included.
#pragma once

#include <cstdint>

namespace millrace {

// What is free or easily freed, or less where a control group allows less; 0 where the system does not say.
uint64_t available_memory();

}  // namespace millrace
