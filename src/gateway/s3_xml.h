// XML as S3 speaks it: a writer for answers and a parser for the four documents that requests carry.
//
// An element that is not known here is refused (NotImplemented): a condition that is passed over is worse
// than a request that fails. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/xml_text.h"
#include "store/objects.h"

namespace millrace::gateway {

class XmlWriter {
 public:
  enum class Namespace { kNone, kS3 };
  explicit XmlWriter(std::string_view root, Namespace space = Namespace::kS3);
  void open(std::string_view element);
  void close();
  void add(std::string_view element, std::string_view text);
  void add(std::string_view element, uint64_t number);
  std::string finish();

 private:
  std::string text_;
  std::vector<std::string> open_;
};

struct DeleteRequest {
  struct Entry {
    std::string key;
    store::Condition condition;
  };
  std::vector<Entry> entries;
  bool quiet = false;
};
// A date of a condition, as HTTP or as XML has it.
Result<int64_t> parse_date(std::string_view text);
inline constexpr size_t kMaxDeletes = 1000;
Result<DeleteRequest> parse_delete(std::string_view xml);

struct CompletedPart {
  unsigned number = 0;
  std::string etag;
  std::vector<store::NameValue> checksums;  // x-amz-checksum-…
};
Result<std::vector<CompletedPart>> parse_complete(std::string_view xml);

Result<std::vector<store::NameValue>> parse_tagging(std::string_view xml);
// "a=b&c=d", as the header x-amz-tagging has it.
Result<std::vector<store::NameValue>> parse_tagging_header(std::string_view text);
// The region asked for, empty if none.
Result<std::string> parse_create_bucket(std::string_view xml);

}  // namespace millrace::gateway
