// Implements copy and sync: compares two trees and copies what differs, in either direction.
#include "transfer/sync.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/mutex.h"
#include "base/threads.h"
#include "net/digest.h"
#include "transfer/download.h"
#include "transfer/select.h"
#include "transfer/stream_upload.h"

namespace millrace::transfer {

namespace {

namespace fs = std::filesystem;

// Larger copies are made in parts: a store may be silent for as long as one takes.
constexpr uint64_t kCopyInPartsFrom = uint64_t{1} << 30;
constexpr uint64_t kCopyPartBytes = 256 << 20;

// What a copy in one request would take along by itself.
PutOptions headers_of(const ObjectHead& head) {
  PutOptions options;
  for (const net::HeaderField& header : head.headers) {
    const std::string& name = header.first;
    const bool is_described = name == "content-type" || name == "content-encoding" ||
                              name == "content-language" || name == "content-disposition" ||
                              name == "cache-control" || name == "expires";
    if (is_described || name.starts_with("x-amz-meta-")) options.headers.push_back(header);
  }
  return options;
}

Status copy_in_parts(const Location& from, const Location& to, const ObjectHead& head,
                     const TransferOptions& options) {
  const uint64_t size = *head.size;
  const uint64_t part_bytes = std::max(kCopyPartBytes, part_bytes_for(size));
  std::vector<Part> parts((size + part_bytes - 1) / part_bytes);
  const std::string upload = MR_TRY(begin_upload(to, headers_of(head)));
  auto copied = run_each(parts.size(), options.jobs, [&](size_t i) -> Status {
    const uint64_t offset = i * part_bytes;
    const PartSource source{from, head.etag, offset, std::min(part_bytes, size - offset)};
    parts[i] = MR_TRY(copy_part(to, upload, static_cast<int>(i) + 1, source));
    if (options.progress != nullptr) options.progress->add(source.size, 0);
    return {};
  });
  if (copied) return finish_upload(to, upload, parts);
  static_cast<void>(abort_upload(to, upload));  // the failure before it is what matters
  return copied;
}

Result<Transferred> copy_between_stores(const Location& from, const Location& to,
                                        const TransferOptions& options) {
  if (from.store == to.store && from.url.query.empty()) {
    const ObjectHead head = MR_TRY(get_head(from));
    if (head.size && *head.size > kCopyInPartsFrom && !head.etag.empty()) {
      MR_TRY(copy_in_parts(from, to, head, options));
      return Transferred{*head.size, 0};
    }
    MR_TRY(copy_object(from, to));
    if (options.progress != nullptr) options.progress->add(head.size.value_or(0), 0);
    return Transferred{head.size.value_or(0), 0};
  }
  StreamUpload upload(to, options.put);
  const Transferred done = MR_TRY(
      download_stream(from, options.progress, [&](std::string_view bytes) { return upload.write(bytes); }));
  MR_TRY(upload.finish());
  return done;
}

Result<Transferred> upload_standard_input(const Location& to, const TransferOptions& options) {
  File input = MR_TRY(File::standard_input());
  StreamUpload upload(to, options.put);
  std::vector<std::byte> buffer(net::kReadBytes);
  while (true) {
    const size_t got = MR_TRY(input.read_some(buffer));
    if (got == 0) break;
    MR_TRY(upload.write({reinterpret_cast<const char*>(buffer.data()), got}));
    if (options.progress != nullptr) options.progress->add(got, 0);
  }
  MR_TRY(upload.finish());
  return Transferred{upload.bytes(), 0};
}

Status make_directory_for(const std::string& path) {
  std::error_code failure;
  fs::create_directories(directory_of(path), failure);
  if (failure == std::errc::not_a_directory || failure == std::errc::file_exists) {
    return make_error(Code::kExists, "{} cannot be made: a part of its name is a file", path)
        .with_hint(
            "a store may hold both \"a\" and \"a/b\", a directory cannot: fetch one of them elsewhere");
  }
  if (failure) return make_system_error(failure.value(), "making the directory of " + path);
  return {};
}

}  // namespace

Result<Transferred> copy_one(const Copy& copy, const TransferOptions& options) {
  const auto& [from, to, size] = copy;
  if (from.object && to.object) return copy_between_stores(*from.object, *to.object, options);
  if (to.object) {
    if (from.path == kStandardStream) return upload_standard_input(*to.object, options);
    return upload_file(from.path, *to.object, options);
  }
  if (!from.object)
    return make_error(Code::kInvalid, "neither {} nor {} is in a store", from.path, to.path)
        .with_hint("use cp of the system");
  if (to.path == kStandardStream) {
    File output = MR_TRY(File::standard_output());
    return download_stream(*from.object, options.progress,
                           [&](std::string_view bytes) { return output.write_all(bytes); });
  }
  MR_TRY(make_directory_for(to.path));
  return download_file(*from.object, to.path, options);
}

Result<CopyReport> copy_all(const std::vector<Copy>& copies, const TransferOptions& options) {
  CopyReport report;
  if (copies.empty()) return report;
  const unsigned jobs = std::max(1U, options.jobs);
  const auto threads = static_cast<unsigned>(std::min<size_t>(jobs, copies.size()));
  TransferOptions each = options;
  each.jobs = std::max(1U, jobs / threads);
  Mutex mutex;
  MR_TRY(run_each(copies.size(), threads, [&](size_t i) -> Status {
    auto done = copy_one(copies[i], each);
    const MutexLock lock(mutex);
    if (!done) {
      Error failure = done.take_error();
      const bool named = failure.message().find(copies[i].from.text()) != std::string::npos;
      report.failures.push_back(named ? std::move(failure)
                                      : std::move(failure).within(copies[i].from.text()));
      return {};
    }
    if (options.progress != nullptr) options.progress->add(0, 1);
    ++report.copied;
    report.bytes += done->bytes;
    report.resumed_bytes += done->resumed_bytes;
    return {};
  }));
  return report;
}

namespace {

Result<Tree> read_directory(const std::string& root) {
  Tree tree;
  std::error_code failure;
  if (!fs::exists(root, failure)) return tree;
  fs::recursive_directory_iterator at(root, failure);
  for (; !failure && at != fs::recursive_directory_iterator(); at.increment(failure)) {
    std::error_code ignored;
    if (!at->is_regular_file(ignored)) continue;
    const std::string path = at->path().string();
    // Pieces of downloads under way are nobody's data.
    if (is_unfinished_download(path)) continue;
    const auto written = fs::last_write_time(at->path(), ignored);
    const auto since = std::chrono::file_clock::to_sys(written).time_since_epoch();
    TreeEntry entry;
    entry.size = at->file_size(ignored);
    entry.modified_ms = std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
    tree[at->path().lexically_relative(root).string()] = std::move(entry);
  }
  if (failure) return make_system_error(failure.value(), "reading the directory " + root);
  return tree;
}

std::string prefix_of(const Location& root) {
  return root.key.empty() || root.key.ends_with('/') ? root.key : root.key + "/";
}

// CRC32C of the content in base64; empty where a store does not tell it.
Result<std::string> crc_of(const Place& place) {
  if (place.object) return MR_TRY(get_head(*place.object)).crc32c;
  const MappedFile mapped = MR_TRY(MappedFile::open(place.path));
  return net::to_base64(net::digest(net::DigestKind::kCrc32c, mapped.bytes()));
}

// Not different as far as can be told without reading the object.
Result<bool> is_same(const TreeEntry& from, const TreeEntry& to, const Copy& places, Compare compare) {
  if (from.size != to.size) return false;
  if (!from.etag.empty() && !to.etag.empty() && from.etag == to.etag) return true;
  if (compare == Compare::kContent) {
    const Place& local = places.from.object ? places.to : places.from;
    const std::string& etag = from.etag.empty() ? to.etag : from.etag;
    const bool is_md5 = etag.size() == 32 && etag.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (is_md5 && !local.object) {
      const MappedFile mapped = MR_TRY(MappedFile::open(local.path));
      return net::to_hex(net::digest(net::DigestKind::kMd5, mapped.bytes())) == etag;
    }
    const std::string here = MR_TRY(crc_of(places.from));
    const std::string there = here.empty() ? "" : MR_TRY(crc_of(places.to));
    if (!there.empty()) return here == there;
  }
  // To the second: HTTP dates have no more.
  return to.modified_ms / 1000 >= from.modified_ms / 1000;
}

}  // namespace

Result<Tree> read_tree(const Place& root) {
  if (!root.object) return read_directory(root.path);
  Tree tree;
  const std::string prefix = prefix_of(*root.object);
  MR_TRY(list_objects(root.object->with_key(prefix), Depth::kAll, [&](Listing& page) -> Status {
    for (ObjectSummary& object : page.objects) {
      if (object.key.ends_with('/')) continue;
      tree[object.key.substr(prefix.size())] = {object.size, object.modified_ms, object.etag};
    }
    return {};
  }));
  return tree;
}

Place place_below(const Place& root, const std::string& relative) {
  if (!root.object) return {std::nullopt, (fs::path(root.path) / relative).string()};
  return {root.object->with_key(prefix_of(*root.object) + relative), ""};
}

Result<SyncPlan> plan_sync(const Place& from, const Place& to, Compare compare) {
  const Tree here = MR_TRY(read_tree(from));
  const Tree there = MR_TRY(read_tree(to));
  SyncPlan plan;
  for (const auto& [name, entry] : here) {
    if (!to.object && !check_relative(name)) {
      plan.unusable.push_back(name);
      continue;
    }
    const auto other = there.find(name);
    if (other != there.end()) {
      const Copy places{place_below(from, name), place_below(to, name)};
      if (MR_TRY(is_same(entry, other->second, places, compare))) {
        ++plan.same;
        continue;
      }
    }
    plan.copy.push_back(name);
    plan.bytes += entry.size;
  }
  for (const auto& [name, entry] : there) {
    if (!here.contains(name)) plan.remove.push_back(name);
  }
  return plan;
}

Status remove_all(const Place& root, const std::vector<std::string>& relatives) {
  if (!root.object) {
    for (const std::string& relative : relatives) {
      MR_TRY(check_relative(relative));
      MR_TRY(remove_file_if_present(place_below(root, relative).path));
    }
    return {};
  }
  for (size_t at = 0; at < relatives.size(); at += kMostRemovals) {
    std::vector<std::string> keys;
    for (size_t i = at; i < std::min(at + kMostRemovals, relatives.size()); ++i)
      keys.push_back(prefix_of(*root.object) + relatives[i]);
    MR_TRY(remove_objects(*root.object, keys));
  }
  return {};
}

}  // namespace millrace::transfer
