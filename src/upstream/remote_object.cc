// Makes records of what an upstream says.
#include "upstream/remote_object.h"

#include <algorithm>

#include "base/clock.h"
#include "base/hash.h"
#include "store/shard_feed.h"

namespace millrace::upstream {

namespace {

// Like the store's own: as long as an MD5, and the "-" says that it is none.
std::string opaque_etag(std::string_view version) {
  return fmt::format("{:016x}{:016x}-1", hash64(version), hash64(version, 1));
}

store::Record make_record(const std::string& key, const RemoteHead& head) {
  store::Record record;
  record.size = head.size;
  record.modified_ms = wall_ms();
  record.etag = shown_etag(head);
  record.headers = stored_headers(head);
  // Indexes of shards are kept by name and version.
  record.version.counter = hash64(head.version, head.size) | 1;
  if (head.size > 0) record.pieces = {store::Piece{1, head.size}};
  if (store::is_shard_name(key)) record.shard = store::ShardState::kPending;
  return record;
}

}  // namespace

RemoteObject::RemoteObject(std::string bucket, std::string key, std::shared_ptr<Remote> remote,
                           RemoteHead head, store::Condition condition)
    : Object(std::move(bucket), key, make_record(key, head), ""),
      remote_(std::move(remote)),
      head_(std::move(head)),
      condition_(std::move(condition)) {}

const std::string* find_version(const store::Record& record) {
  const auto found = std::ranges::find(record.headers, store::kUpstreamVersion, &store::NameValue::first);
  return found == record.headers.end() ? nullptr : &found->second;
}

std::string shown_etag(const RemoteHead& head) {
  const std::string& etag = head.etag;
  const bool is_strong = etag.size() > 2 && etag.front() == '"' && etag.back() == '"';
  const std::string bare = is_strong ? etag.substr(1, etag.size() - 2) : "";
  if (is_strong && bare.find('"') == std::string::npos) return bare;
  return opaque_etag(head.version);
}

std::vector<store::NameValue> stored_headers(const RemoteHead& head) {
  std::vector<store::NameValue> headers = head.headers;
  headers.emplace_back(store::kUpstreamVersion, head.version.empty() ? "unknown" : head.version);
  if (head.checksum && net::find_checksum_kind(head.checksum->header))
    headers.emplace_back(head.checksum->header, net::to_base64(head.checksum->value));
  return headers;
}

}  // namespace millrace::upstream
