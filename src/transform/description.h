// Description: what a transform does, as its owner wrote it, and the version under which it is registered.
//
// The text is strict JSON: a name or a value that is not known is an error, so that a slip never becomes
// another transform. A value; any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "decode/transform.h"
#include "shard/stream.h"

namespace millrace::transform {

// kImages runs in the node; kCommand, kFilter and kPython in a sandbox; kService elsewhere.
enum class Kind : uint8_t { kImages, kCommand, kFilter, kPython, kService };
// What becomes of a sample for which the transform fails.
enum class OnError : uint8_t { kAbort, kSkip, kKeep };
enum class ImageOutput : uint8_t { kNpy, kJpeg, kPng };

inline constexpr size_t kMostSourceBytes = 256 << 10;
inline constexpr size_t kMostDescriptionBytes = 1 << 20;
inline constexpr size_t kMostCommandWords = 256;
inline constexpr uint64_t kMostStacked = 4096;

// Of one sandbox. The defaults suit programs that work on images.
struct Limits {
  uint64_t memory = uint64_t{1} << 30;  // all its processes together
  uint64_t disk = 256 << 20;            // its private directory, which is in memory
  uint64_t output = uint64_t{16} << 30;
  uint64_t cpu_seconds = 600;  // of each process
  uint64_t seconds = 600;      // of one shard; of one sample where it is a Python function
  uint64_t processes = 64;     // and threads
  bool operator==(const Limits&) const = default;
};

struct ImageWork {
  std::vector<std::string> any_of;  // the first field that a sample has is taken
  std::string options;              // "size=224,crop=center" (decode/image_description.h)
  decode::TransformSpec spec;
  ImageOutput to = ImageOutput::kNpy;
  int quality = 90;
  uint64_t stack = 0;  // so many samples become one, with one array of all images; 0: not
  std::string label;   // of stacked samples: whole numbers that become one array; empty: none
};

struct Description {
  Kind kind = Kind::kImages;
  std::string select;  // "jpg;jpeg=image cls"; empty: all fields stay (kImages)
  std::vector<shard::FieldChoice> choices;
  bool has_image = false;
  ImageWork image;
  std::vector<std::string> command;  // program and arguments (kCommand, kFilter)
  bool many = false;                 // kCommand: sample-A.* become samples of their own
  std::string source;                // kPython
  std::string function;
  std::string url;  // kService
  OnError on_error = OnError::kAbort;
  bool keep = false;  // results are stored until the room is needed
  Limits limits;
  std::string note;
};

bool is_sandboxed(Kind kind);
std::string_view kind_name(Kind kind);
std::string_view on_error_name(OnError on_error);
Result<OnError> parse_on_error(std::string_view text);

// kInvalid names what is wrong.
Result<Description> parse_description(std::string_view text);
// The same text for equal descriptions; parse_description() reads it.
nlohmann::ordered_json description_json(const Description& description);

// 1 to 64 of a-z 0-9 - _ and ".", beginning with a letter or digit.
Status check_name(std::string_view name);

struct Registered {
  std::string name;
  uint64_t version = 0;  // 1, 2, …; a name that is removed and added again goes on counting
  Description description;

  // Of the content: two registrations that do the same have the same.
  uint64_t content() const;
  // "v3-0123456789abcdef": what results are known by.
  std::string tag() const;
};

}  // namespace millrace::transform
