// ReadAhead: stretches of stored objects that are asked for before their turn, so that drives and other nodes
// work on several of them at once. One request's, on its connection's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "base/mutex.h"
#include "gateway/call.h"
#include "gateway/get_object.h"
#include "store/objects.h"

namespace millrace::gateway {

class ReadAhead {
 public:
  static constexpr size_t kMostStretches = 16;
  static constexpr uint64_t kMostBytes = 8 << 20;  // of those that are under way, but one may be larger

  explicit ReadAhead(store::Objects& objects) : objects_(objects) {}

  // Whether another stretch may be begun.
  bool has_room() const { return begun_.empty() || (begun_.size() < kMostStretches && bytes_ < kMostBytes); }
  // Asks for the first bytes of a stretch, which is not empty, of an object that is not inline.
  void begin(store::ObjectPointer object, ByteRange range);
  // Sends the stretch that was begun first, as (part of) a body whose head is out.
  net::Task<Status> send_next(Call& call);

 private:
  // An extent that may come before or after somebody waits for it.
  class Arrival;
  struct Begun {
    std::unique_ptr<store::Reader> reader;
    std::shared_ptr<Arrival> first;
    ByteRange range;
  };

  store::Objects& objects_;
  std::deque<Begun> begun_;
  uint64_t bytes_ = 0;
};

}  // namespace millrace::gateway
