// Lists the upstream and the store side by side.
#include "upstream/listing.h"

#include <algorithm>
#include <set>

#include "store/waiting.h"

namespace millrace::upstream {

namespace {

Result<store::ListPage> list_stored(store::Objects& objects, const std::string& bucket,
                                    const store::ListOptions& options) {
  return store::wait_for<store::ListPage>(
      [&](store::Done<store::ListPage> done) { objects.list(bucket, options, std::move(done)); });
}

// In key order, objects and common prefixes together.
store::ListPage as_page(transfer::ListedPage listed) {
  store::ListPage page;
  page.truncated = listed.truncated;
  for (transfer::ObjectSummary& object : listed.listing.objects) {
    page.entries.push_back({std::move(object.key), false, object.size, object.modified_ms,
                            std::move(object.etag), store::Cached::kNo});
  }
  for (std::string& prefix : listed.listing.prefixes)
    page.entries.push_back({std::move(prefix), true, 0, 0, "", store::Cached::kNoUpstream});
  std::ranges::sort(page.entries, {}, &store::ListEntry::key);
  return page;
}

// The keys that are stored here, up to `last`.
Result<std::set<std::string>> stored_keys(store::Objects& objects, const std::string& bucket,
                                          store::ListOptions options, const std::string& last) {
  std::set<std::string> keys;
  while (true) {
    store::ListPage page = MR_TRY(list_stored(objects, bucket, options));
    for (store::ListEntry& entry : page.entries) {
      if (entry.key > last) return keys;
      options.after = entry.key;
      if (!entry.is_prefix) keys.insert(std::move(entry.key));
    }
    if (!page.truncated) return keys;
  }
}

}  // namespace

Result<store::ListPage> list_upstream(Remote& remote, store::Objects& objects, const std::string& bucket,
                                      const store::ListOptions& options) {
  if (!remote.is_store()) {
    store::ListPage page = MR_TRY(list_stored(objects, bucket, options));
    for (store::ListEntry& entry : page.entries) {
      if (!entry.is_prefix) entry.cached = store::Cached::kYes;
    }
    return page;
  }
  store::ListPage page = as_page(MR_TRY(remote.list(options)));
  if (page.entries.empty()) return page;
  const auto stored = MR_TRY(stored_keys(objects, bucket, options, page.entries.back().key));
  for (store::ListEntry& entry : page.entries) {
    if (stored.contains(entry.key)) entry.cached = store::Cached::kYes;
  }
  return page;
}

}  // namespace millrace::upstream
