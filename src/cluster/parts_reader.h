// PartsReader: the bytes of an object that is the parts of an upload.
//
// Each part is found when the reader comes to it, and read like any object. Near the end of a part the next
// one is found and its first bytes are asked for. The parts of an object that was replaced stay for a minute;
// a reader that comes later is told kUnavailable: the object's name gives another object by then.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "store/objects.h"

namespace millrace::cluster {

struct PartSource {
  // Of a part's key; kNoSuchObject where it is gone.
  std::function<void(const std::string&, store::Done<store::ObjectPointer>)> get;
  // Of a part that is not inline.
  std::function<std::unique_ptr<store::Reader>(store::ObjectPointer)> open;
};

std::unique_ptr<store::Reader> open_parts_reader(store::ObjectPointer object, PartSource source);

}  // namespace millrace::cluster
