// Bringing a drive that an older version wrote to the format of today.
//
// Format 1 had records without epoch, node and spread. Its rows are encoded anew, in batches; then the
// drive's identity says format 2, and older versions refuse it. Cut short anywhere it begins again at the
// next start: both formats can be read. Files keep the records at their ends as they are. Blocks.
#pragma once

#include <string>

#include "base/result.h"
#include "store/identity.h"
#include "store/index.h"

namespace millrace::store {

// `identity` is what the drive says about itself now.
Status upgrade_drive(const std::string& path, DriveIdentity identity, DriveIndex& index);

}  // namespace millrace::store
