// Merging: what several drives or nodes know of the same keys, as one list.
#pragma once

#include <string_view>
#include <vector>

#include "cluster/message.h"

namespace millrace::cluster {

using ListEntries = std::vector<ListReply::Entry>;  // by key, each key once

// The newest version of each key, up to `reached`; empty: all of them.
ListEntries merge_lists(std::vector<ListEntries> lists, std::string_view reached);

}  // namespace millrace::cluster
