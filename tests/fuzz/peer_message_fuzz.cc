// Messages between nodes, and maps: whatever decodes encodes to something that decodes to the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "cluster/map.h"
#include "cluster/message.h"

using namespace millrace;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  if (const auto request = cluster::decode_request(bytes)) {
    const std::string again = cluster::encode_request(*request).joined();
    MR_ASSERT(cluster::encode_request(*cluster::decode_request(again)).joined() == again);
  }
  const auto reply = cluster::decode_reply(bytes);
  const std::string again = cluster::encode_reply(reply).joined();
  MR_ASSERT(cluster::encode_reply(cluster::decode_reply(again)).joined() == again);
  if (const auto map = cluster::decode_map(bytes)) {
    MR_ASSERT(cluster::decode_map(cluster::encode_map(*map))->nodes() == map->nodes());
  }
  return 0;
}
