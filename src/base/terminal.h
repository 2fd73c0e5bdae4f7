// Whether escape sequences for colours may be written to a descriptor.
#pragma once

namespace millrace {

// A terminal that is not dumb, and no NO_COLOR in the environment (empty counts as unset).
bool shows_colours(int descriptor);

}  // namespace millrace
