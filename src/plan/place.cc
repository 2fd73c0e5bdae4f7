// Tries the places for a data set one after the other.
#include "plan/place.h"

#include <fmt/format.h>

#include "base/assert.h"
#include "base/units.h"

namespace millrace::plan {

namespace {

// Of partitioned drives a sixteenth stays free, for what arrives before what leaves is gone: 240 TB of 8
// x 32.
constexpr uint64_t kSparePart = 16;

Candidate on_gpu(const PlaceRequest& request) {
  const bool fits = request.dataset < request.gpu_memory;
  const std::string sizes = fmt::format("{} of {} that a GPU can spare", format_bytes(request.dataset),
                                        format_bytes(request.gpu_memory));
  return {Home::kGpu, request.gpu_memory, fits,
          fits ? sizes + ": load it once and read nothing again" : sizes + ": too large"};
}

Candidate in_ram(const PlaceRequest& request) {
  const bool fits = request.dataset < request.ram;
  const std::string sizes =
      fmt::format("{} of {} RAM in a node", format_bytes(request.dataset), format_bytes(request.ram));
  if (fits) return {Home::kRam, request.ram, true, sizes + ": the page cache or shared memory keeps it"};
  const bool almost = request.dataset / 4 < request.ram;
  const bool together = request.nodes > 1 && request.dataset / request.nodes < request.ram;
  std::string reason = sizes + ": too large";
  if (almost) reason += "; lower precision or smaller images might do";
  if (together)
    reason += fmt::format("; {} nodes together could hold it, {} each, with partial local shuffling",
                          request.nodes, format_bytes(request.dataset / request.nodes));
  return {Home::kRam, request.ram, false, std::move(reason)};
}

Candidate replicated(const PlaceRequest& request) {
  const bool fits = request.dataset <= request.local;
  const Home home = request.nodes > 1 ? Home::kLocalReplicated : Home::kLocal;
  const std::string sizes = fmt::format("{} of {} on the drives of a node", format_bytes(request.dataset),
                                        format_bytes(request.local));
  const std::string benefit =
      request.nodes > 1
          ? fmt::format(": a copy on each of {} nodes, any order without the network", request.nodes)
          : ": no network at all";
  return {home, request.local, fits, fits ? sizes + benefit : sizes + ": too large"};
}

Candidate partitioned(const PlaceRequest& request) {
  const uint64_t each = request.local - request.local / kSparePart;
  const uint64_t room = each > UINT64_MAX / request.nodes ? UINT64_MAX : each * request.nodes;
  const bool fits = request.dataset <= room;
  const std::string sizes = fmt::format("{} of {} on the drives of {} nodes", format_bytes(request.dataset),
                                        format_bytes(room), request.nodes);
  return {Home::kLocalPartitioned, room, fits,
          fits ? fmt::format("{}: {} each; partial local shuffling exchanges what must move", sizes,
                             format_bytes(request.dataset / request.nodes))
               : sizes + ": too large"};
}

}  // namespace

std::string_view home_name(Home home) {
  switch (home) {
    case Home::kGpu:
      return "gpu";
    case Home::kRam:
      return "ram";
    case Home::kLocal:
      return "local";
    case Home::kLocalReplicated:
      return "local-replicated";
    case Home::kLocalPartitioned:
      return "local-partitioned";
    case Home::kDistributed:
      return "distributed";
  }
  return "";
}

const Candidate& Placement::chosen() const {
  for (const Candidate& one : candidates) {
    if (one.fits) return one;
  }
  return candidates.back();
}

Placement place(const PlaceRequest& request) {
  MR_ASSERT(request.nodes > 0);
  Placement placement;
  placement.candidates = {on_gpu(request), in_ram(request), replicated(request)};
  if (request.nodes > 1) placement.candidates.push_back(partitioned(request));
  placement.candidates.push_back(
      {Home::kDistributed, 0, true, "a store on many drives, read in whole shards: grows with every node"});
  placement.home = placement.chosen().home;
  return placement;
}

}  // namespace millrace::plan
