// What a Python worker is, and how samples go to it and come back.
//
// A message is a head, two numbers of four and eight bytes (little-endian): the length of a JSON object and
// the length of the bytes behind it; then the object, then the bytes of all fields in its order.
//
//   to the worker    {"source": …, "function": …} once; then {"key": …, "fields": [["jpg", 1234], …]}
//   from the worker  {"ready": true}; then {"samples": [{"key": …, "fields": […]}, …]}, or {"error": …}
//
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tar/sample.h"
#include "transform/in_order.h"

namespace millrace::transform {

inline constexpr size_t kMessageHeadBytes = 12;
inline constexpr uint32_t kMostMessageText = 4 << 20;

// The program of a worker, in Python.
extern const std::string_view kPythonWorker;

struct MessageHead {
  uint32_t text = 0;
  uint64_t bytes = 0;
};
MessageHead parse_message_head(std::string_view head);
std::string source_message(std::string_view source, std::string_view function);
std::string sample_message(const tar::Sample& sample);

struct PythonAnswer {
  std::string error;  // what the function raised; empty: nothing
  double cpu_seconds = 0;
  MadeSamples made;
};
// `text` is what a worker sent: nothing of it is believed.
Result<PythonAnswer> parse_python_answer(std::string_view text, std::string_view bytes);

}  // namespace millrace::transform
