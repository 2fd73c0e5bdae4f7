// Descriptions of transforms, answers of Python workers, reports of agents: the first byte says which.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/assert.h"
#include "transform/description.h"
#include "transform/program.h"
#include "transform/python_worker.h"

using millrace::transform::parse_description;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  if (bytes[0] % 3 == 1) {
    // The text up to a line feed, then the bytes.
    const size_t end = std::min(text.find('\n'), text.size());
    static_cast<void>(millrace::transform::parse_python_answer(text.substr(0, end),
                                                               text.substr(std::min(end + 1, text.size()))));
    return 0;
  }
  if (bytes[0] % 3 == 2) {
    static_cast<void>(millrace::transform::parse_agent_report(text));
    return 0;
  }
  const auto description = parse_description(text);
  if (!description) return 0;
  // What is registered is read again by every node.
  const std::string written = description_json(*description).dump();
  const auto again = parse_description(written);
  MR_ASSERT(again.has_value(), written);
  MR_ASSERT(description_json(*again).dump() == written);
  return 0;
}
