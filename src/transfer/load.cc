// Runs streams of requests, each sent as soon as the one before is answered.
#include "transfer/load.h"

#include <algorithm>
#include <atomic>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/threads.h"
#include "transfer/sync.h"

namespace millrace::transfer {

namespace {

// Keys of their own, so that cleaning removes nothing else.
constexpr std::string_view kFolder = "millrace-bench/";

Location folder_of(const Location& place) {
  const std::string prefix = place.key.empty() || place.key.ends_with('/') ? place.key : place.key + "/";
  return place.with_key(prefix + std::string(kFolder));
}

Location object_of(const Location& place, uint64_t size, std::string_view kind, uint64_t number) {
  const Location folder = folder_of(place);
  return folder.with_key(fmt::format("{}{}-{}-{:06}", folder.key, kind, size, number));
}

std::string random_content(uint64_t size, uint64_t seed) {
  Random random(seed);
  std::string content(size, 0);
  for (char& c : content) c = static_cast<char>(random.next());
  return content;
}

// One stream's own numbers; joined at the end, so that streams do not meet while they run.
struct Stream {
  LoadResult get;
  LoadResult put;
};

class Load {
 public:
  Load(const Location& place, const LoadOptions& options, Progress* progress)
      : place_(place), options_(options), progress_(progress) {
    const uint64_t largest = *std::ranges::max_element(options.sizes);
    content_ = random_content(largest, options.seed);
    crcs_.reserve(options.sizes.size());
    for (const uint64_t size : options.sizes)
      crcs_.push_back(net::digest(net::DigestKind::kCrc32c, std::string_view(content_).substr(0, size)));
  }

  Status prepare() {
    const uint64_t count = options_.objects * options_.sizes.size();
    return run_each(count, options_.streams, [&](size_t i) {
      const size_t which = i / options_.objects;
      return put(which, object_of(place_, options_.sizes[which], "get", i % options_.objects));
    });
  }

  Result<LoadReport> run() {
    LoadReport report;
    Mutex mutex;
    std::atomic<uint64_t> number = 0;
    const uint64_t start = steady_us();
    const uint64_t end = start + static_cast<uint64_t>(options_.seconds * 1e6);
    MR_TRY(run_threads(options_.streams, [&] {
      Stream stream = run_stream(number++, end);
      const MutexLock lock(mutex);
      join(report.get, stream.get);
      join(report.put, stream.put);
    }));
    report.seconds = static_cast<double>(steady_us() - start) / 1e6;
    std::ranges::sort(report.get.microseconds);
    std::ranges::sort(report.put.microseconds);
    return report;
  }

 private:
  Status put(size_t which, const Location& object) {
    const std::string_view bytes = std::string_view(content_).substr(0, options_.sizes[which]);
    MR_TRY(put_object(object, bytes, crcs_[which], {}));
    return {};
  }

  Status get(size_t which, const Location& object, std::vector<std::byte>& buffer) {
    net::Request request;
    request.url = object.url;
    net::Response response = MR_TRY(object.store->client().call(request));
    uint64_t received = 0;
    while (const size_t got = MR_TRY(response.read_some(buffer))) received += got;
    if (received == options_.sizes[which]) return {};
    return make_error(Code::kTruncated, "{}: {} bytes instead of {}", object.text(), received,
                      options_.sizes[which]);
  }

  Stream run_stream(uint64_t number, uint64_t end) {
    Stream stream;
    Random random(mix(options_.seed) ^ mix(number + 1));
    std::vector<std::byte> buffer(net::kReadBytes);
    uint64_t written = 0;
    for (uint64_t now = steady_us(); now < end;) {
      const bool writes = random.unit() < options_.put_share;
      const size_t which = random.below(options_.sizes.size());
      const uint64_t size = options_.sizes[which];
      // Each stream writes over its own few objects: no two of them meet at one key.
      const auto done =
          writes ? put(which, object_of(place_, size, fmt::format("put{}", number), written++ % 16))
                 : get(which, object_of(place_, size, "get", random.below(options_.objects)), buffer);
      const uint64_t then = steady_us();
      LoadResult& result = writes ? stream.put : stream.get;
      if (done) {
        result.bytes += size;
        result.microseconds.push_back(static_cast<uint32_t>(std::min<uint64_t>(then - now, UINT32_MAX)));
        if (progress_ != nullptr) progress_->add(size, 0);
      } else {
        if (result.errors++ == 0) result.first_error = done.error().message();
      }
      now = then;
    }
    return stream;
  }

  static void join(LoadResult& into, const LoadResult& from) {
    into.bytes += from.bytes;
    into.errors += from.errors;
    if (into.first_error.empty()) into.first_error = from.first_error;
    into.microseconds.insert(into.microseconds.end(), from.microseconds.begin(), from.microseconds.end());
  }

  const Location& place_;
  const LoadOptions& options_;
  Progress* const progress_;
  std::string content_;
  std::vector<std::string> crcs_;  // by size
};

}  // namespace

uint64_t LoadResult::percentile(double share) const {
  if (microseconds.empty()) return 0;
  const auto at = static_cast<size_t>(share * static_cast<double>(microseconds.size()));
  return microseconds[std::min(at, microseconds.size() - 1)];
}

Status prepare_load(const Location& place, const LoadOptions& options) {
  return Load(place, options, nullptr).prepare();
}

Result<LoadReport> run_load(const Location& place, const LoadOptions& options, Progress* progress) {
  return Load(place, options, progress).run();
}

Status clean_load(const Location& place) {
  const Location folder = folder_of(place);
  std::vector<std::string> names;
  MR_TRY(list_objects(folder, Depth::kAll, [&](Listing& page) -> Status {
    for (const ObjectSummary& object : page.objects) names.push_back(object.key.substr(folder.key.size()));
    return {};
  }));
  return remove_all({folder, ""}, names);
}

}  // namespace millrace::transfer
