// copy and sync: many items between directories and stores, in any direction.
//
// A Place is a path or an object. copy_all runs a number of copies at a time and goes on after a failure;
// what failed is in the report.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "transfer/objects.h"
#include "transfer/upload.h"

namespace millrace::transfer {

inline constexpr std::string_view kStandardStream = "-";

struct Place {
  std::optional<Location> object;
  std::string path;  // where there is no object; "-" is standard input or output
  std::string text() const { return object ? object->text() : path; }
};
struct Copy {
  Place from;
  Place to;
  uint64_t size = 0;  // for the share of the threads; 0: unknown
};
struct CopyReport {
  uint64_t copied = 0;
  uint64_t bytes = 0;
  uint64_t resumed_bytes = 0;
  std::vector<Error> failures;
};
Result<Transferred> copy_one(const Copy& copy, const TransferOptions& options);
// `jobs` of the options is for all together.
Result<CopyReport> copy_all(const std::vector<Copy>& copies, const TransferOptions& options);

// What is below a directory or a prefix, by its name there.
struct TreeEntry {
  uint64_t size = 0;
  int64_t modified_ms = 0;
  std::string etag;  // of objects
};
using Tree = std::map<std::string, TreeEntry>;
Result<Tree> read_tree(const Place& root);  // a directory that does not exist is an empty tree
Place place_below(const Place& root, const std::string& relative);

enum class Compare { kTime, kContent };  // kContent: by MD5 or CRC32C, where the store knows one
struct SyncPlan {
  std::vector<std::string> copy;
  std::vector<std::string> remove;    // there, but not here
  std::vector<std::string> unusable;  // keys that cannot be names of files
  uint64_t same = 0;
  uint64_t bytes = 0;  // to copy
};
Result<SyncPlan> plan_sync(const Place& from, const Place& to, Compare compare);
Status remove_all(const Place& root, const std::vector<std::string>& relatives);

}  // namespace millrace::transfer
