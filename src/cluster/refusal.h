// Refusal: a request that is not served, in S3's words: a code, a sentence, a status.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace millrace::cluster {

struct Refusal {
  std::string code;  // "NoSuchKey"
  std::string message;
  std::string hint;                // what to try; empty: nothing to add
  std::string allow = {};          // the methods that are possible, where this one is not
  std::string content_range = {};  // how much there is, where a range asked for more
  std::vector<std::pair<std::string_view, std::string>> details = {};  // further elements
  int status() const;
};

// What the error was about decides whether kNotFound is a NoSuchKey or a NoSuchBucket.
enum class About { kBucket, kObject, kUpload };
Refusal refusal_of(const Error& error, About about);

std::string refusal_xml(const Refusal& refusal, std::string_view resource, std::string_view request_id);
std::string refusal_json(const Refusal& refusal);

}  // namespace millrace::cluster
