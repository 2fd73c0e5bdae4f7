// A reader of a stored object that turns to the upstream where the stored bytes cannot be read any more.
//
// The object is then fetched and stored again, if the upstream still has the same version of it; the reader
// goes on with the bytes that come. Else he gets the error of the store.
#pragma once

#include <memory>

#include "base/log.h"
#include "store/objects.h"
#include "upstream/fetches.h"
#include "upstream/lookups.h"

namespace millrace::upstream {

struct RecoveryLinks {
  std::shared_ptr<const Upstream> upstream;
  store::Objects& objects;
  Lookups& lookups;
  Fetches& fetches;
  Log& log;
};

std::unique_ptr<store::Reader> open_recovering_reader(store::ObjectPointer object,
                                                      std::unique_ptr<store::Reader> stored,
                                                      RecoveryLinks links);
// One that can read nothing, and says why.
std::unique_ptr<store::Reader> open_broken_reader(Error why);

}  // namespace millrace::upstream
