// A merge of the drives' iterators.
#include "store/list.h"

#include <memory>
#include <vector>

namespace millrace::store {

namespace {

class Merge {
 public:
  Merge(const DriveMap& map, const std::string& bucket, size_t limit, const std::atomic<uint64_t>& moves)
      : start_(object_key(bucket, "")) {
    // One moment on all drives: an object that was moved between two looks would be on neither. Where moves
    // never pause, the last look has to do.
    constexpr int kMostLooks = 100;
    for (int look = 0; look < kMostLooks; ++look) {
      const uint64_t before = moves.load();
      sources_.clear();
      for (const auto& drive : map.drives) {
        const auto scan = limit > 10'000 ? DriveIndex::Scan::kAll : DriveIndex::Scan::kSome;
        sources_.push_back({drive.get(), drive->index().iterate(Family::kObjects, scan)});
      }
      if (map.drives.size() < 2 || moves.load() == before) break;
    }
  }

  // To the first key that is not below `key`.
  void seek(std::string_view key) {
    const std::string target = start_ + std::string(key);
    for (Source& source : sources_) source.iterator->Seek(target);
  }

  struct Row {
    std::string_view key;
    RecordSummary summary;
  };
  // The next key with its newest record, tombstones too; nothing at the end of the bucket. Views are valid
  // until the next call.
  Result<std::optional<Row>> next() {
    for (Source* source : taken_) source->iterator->Next();
    taken_.clear();
    std::string_view least;
    for (Source& source : sources_) {
      if (!source.iterator->Valid()) {
        if (!source.iterator->status().ok())
          return make_index_error(source.iterator->status(), source.drive->path());
        continue;
      }
      const std::string_view key = view(source.iterator->key());
      if (!key.starts_with(start_)) continue;
      if (taken_.empty() || key < least) {
        taken_.clear();
        least = key;
      }
      if (key == least) taken_.push_back(&source);
    }
    if (taken_.empty()) return std::optional<Row>();
    Row row{least.substr(start_.size()), {}};
    bool first = true;
    for (const Source* source : taken_) {
      const RecordSummary summary =
          MR_TRY(summarize_record(view(source->iterator->value())).within(source->drive->path()));
      if (first || is_newer(summary, row.summary)) row.summary = summary;
      first = false;
    }
    return std::optional<Row>(row);
  }
  void forget_taken() { taken_.clear(); }

 private:
  struct Source {
    Drive* drive = nullptr;
    Rows iterator;
  };
  const std::string start_;  // bucket and NUL
  std::vector<Source> sources_;
  std::vector<Source*> taken_;  // those that stand on the row given last
};

// The first text beyond all that begin with `prefix`; empty if there is none.
std::string beyond(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (!prefix.empty()) ++prefix.back();
  return prefix;
}

}  // namespace

Result<ListPage> list_objects(const DriveMap& map, const std::string& bucket, const ListOptions& options,
                              const std::atomic<uint64_t>& moves) {
  ListPage page;
  Merge merge(map, bucket, options.limit, moves);
  // `after` may itself be a common prefix: then everything below it was given already.
  const auto common_prefix = [&](std::string_view key) -> std::optional<std::string_view> {
    if (options.delimiter.empty() || !key.starts_with(options.prefix)) return std::nullopt;
    const size_t at = key.find(options.delimiter, options.prefix.size());
    if (at == std::string_view::npos) return std::nullopt;
    return key.substr(0, at + options.delimiter.size());
  };
  std::string from = options.prefix;
  if (options.after >= options.prefix) {
    const auto given = common_prefix(options.after);
    from = given && *given == options.after ? beyond(options.after) : options.after + '\0';
    if (from.empty()) return page;
  }
  merge.seek(from);
  while (true) {
    const auto row = MR_TRY(merge.next());
    if (!row || !row->key.starts_with(options.prefix)) return page;
    if (row->summary.deleted) continue;
    if (page.entries.size() >= options.limit) {
      page.truncated = true;
      return page;
    }
    ListEntry entry;
    if (const auto prefix = common_prefix(row->key)) {
      entry.key = *prefix;
      entry.is_prefix = true;
      const std::string next = beyond(entry.key);
      page.entries.push_back(std::move(entry));
      if (next.empty()) return page;
      merge.forget_taken();
      merge.seek(next);
      continue;
    }
    entry.key = row->key;
    entry.size = row->summary.size;
    entry.modified_ms = row->summary.modified_ms;
    entry.etag = row->summary.etag;
    page.entries.push_back(std::move(entry));
  }
}

}  // namespace millrace::store
